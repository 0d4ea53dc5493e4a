import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { EngineKind } from '../../src/common/engine-kinds.ts';
import { largeMddatasetAnswer } from '../support/answers.ts';
import { discover, execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus } from '../support/http-client.ts';
import { KINDS, POISONS, type Poison } from '../support/poisons.ts';
import { startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** Answers with which an engine tells an error, or that are not whole: each reaches the client, and none the cache. */

let engine: StubEngine;
const gateways = new Map<EngineKind, TestGateway>();
let count = 0;

beforeAll(async () => {
  engine = await startStubEngine(() => {});
  for (const kind of KINDS) {
    const settings = { engine: { url: engine.url, kind }, cache: { max_entry: '256KiB' } };
    gateways.set(kind, await startTestGateway(settings));
  }
});
afterAll(async () => {
  for (const gateway of gateways.values()) await gateway.close();
  await engine.close();
});
beforeEach(() => {
  count += 1;
  engine.seen.length = 0;
});

function question(method: Poison['method']): Buffer {
  const properties = { Catalog: 'Sales' };
  if (method === 'Execute') return execute({ statement: `SELECT FROM [${count}]`, properties });
  const restrictions = { CATALOG_NAME: 'Sales', CUBE_NAME: String(count) };
  return discover({ requestType: 'MDSCHEMA_CUBES', restrictions, properties });
}

describe.each(KINDS)('an answer of %s is passed on as it is', (kind) => {
  const ask = async ({ status, headers, body, method }: Poison) => {
    engine.answerWith((response) => void response.writeHead(status, headers).end(body));
    const query = question(method);
    const { url } = gateways.get(kind) as TestGateway;
    const answers = [await askXmla(url, query), await askXmla(url, query)];
    const seen = engine.seen.length;
    const direct = await send(engine.url, { method: 'POST', path: '/xmla' });
    for (const answer of answers) {
      expect(answer.status).toBe(direct.status);
      expect(answer.body.equals(direct.body)).toBe(true);
      for (const name of ['content-type', 'content-encoding', 'location'] as const) {
        expect(answer.headers[name]).toBe(direct.headers[name]);
      }
    }
    return { statuses: answers.map(shortStatus), seen };
  };
  const named = (poisons: readonly Poison[]) =>
    poisons.map((one) => [one.reason, one.what, one] as const);

  test.each(named(POISONS.filter(({ of }) => of.includes(kind))))(
    'each time, and never stored (%s): %s',
    async (reason, _what, one) => {
      const { statuses, seen } = await ask(one);
      expect(seen).toBe(2);
      for (const status of statuses) {
        // A large answer has left before anybody could know.
        expect(reason === 'too-large' ? ['miss', 'miss too-large'] : [`miss ${reason}`]).toContain(
          status,
        );
      }
      const { events } = gateways.get(kind) as TestGateway;
      const told = events.flatMap((event) => (event.type === 'not-stored' ? [event.reason] : []));
      expect(told.slice(-2)).toEqual([reason, reason]);
    },
  );

  test.each([
    ['of a length that it promised', 'content-length', '250000', 20_000],
    ['without its last chunk', 'transfer-encoding', 'chunked', 20_000],
    ['with its head out', 'content-length', '250000', 200_000],
  ] as const)(
    'as far as it came, and never stored (truncated): short %s',
    async (_what, name, value, length) => {
      const text = largeMddatasetAnswer(length);
      engine.answerWith((answer) => {
        answer.writeHead(200, { 'content-type': 'text/xml', [name]: value });
        answer.write(text, () => answer.destroy());
      });
      const { url, events } = gateways.get(kind) as TestGateway;
      const query = question('Execute');
      for (let turn = 0; turn < 2; turn += 1) {
        const answer = await askXmla(url, query);
        const cut = [200, false, 'miss'];
        // What is held back on the way can become an error still; a busy machine may have let go of it.
        const allowed = length < 100_000 ? [[502, true, 'gateway engine-unreachable'], cut] : [cut];
        expect(allowed).toContainEqual([answer.status, answer.whole, shortStatus(answer)]);
        if (answer.status === 200) expect(text.startsWith(answer.text)).toBe(true);
      }
      expect(engine.seen).toHaveLength(2);
      const told = events.flatMap((event) => (event.type === 'not-stored' ? [event.reason] : []));
      expect(told.slice(-2)).toEqual(['truncated', 'truncated']);
    },
  );

  const others = POISONS.filter(({ of }) => !of.includes(kind));
  if (others.length > 0) {
    test.each(named(others))(
      'and stored, when only other engines tell an error so (%s): %s',
      async (_reason, _what, one) => {
        const { statuses, seen } = await ask(one);
        expect([statuses, seen]).toEqual([['miss stored', 'hit'], 1]);
      },
    );
  }
});
