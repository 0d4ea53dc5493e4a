import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { gunzipSync } from 'node:zlib';
import { discover } from '../engine/envelope.ts';
import { startMondrian, type RunningEngine } from '../engine/mondrian.ts';
import { questionOf, type Question } from '../engine/question.ts';
import { pivot } from '../engine/query.ts';
import { properties } from '../engine/request.ts';
import { BYPASSED_REQUESTS, CACHEABLE_REQUESTS, REFUSED_REQUESTS } from '../engine/requests.ts';
import type { SessionSpec } from '../support/envelopes.ts';
import { send, shortStatus, until, type Answer } from '../support/http-client.ts';
import { sampled, sizes, strided } from '../support/sizes.ts';
import { stampOf } from '../support/stamps.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import {
  askAs,
  THIRD_PARTY_CLIENTS,
  type ThirdPartyClient,
} from '../support/third-party-clients.ts';

/** Each program that is known asks the live engine, directly and through the gateway. */

const SLOW = 120_000;

/** What the envelope of a client can say: the others stand for damaged or odd envelopes and headers. */
const OF_THE_QUESTION: ReadonlySet<string> = new Set([
  'drillthrough',
  'system-rowset',
  'volatile',
  'no-cache-comment',
  'several-statements',
  'not-a-query',
  'identity-property',
  'duplicate-property',
  'real-time',
  'discover-type',
]);

const spread = <T>(all: readonly T[]) => strided(all, sizes.clientStride);
const CACHED = spread(CACHEABLE_REQUESTS);
const BYPASSED = spread(
  BYPASSED_REQUESTS.filter(
    ({ reason, name }) => OF_THE_QUESTION.has(reason) && name !== 'A command that is no statement',
  ),
);
const REFUSED = spread(REFUSED_REQUESTS.filter(({ reason }) => reason !== 'media-type'));

/** olap4j programs write statements on lines of their own. */
const LINES = pivot(
  'On lines',
  'SELECT {[Measures].[Units]} ON COLUMNS,\r\n  {[Time].[2024]} ON ROWS\r\nFROM [Sales]',
);

const CUBES = discover('MDSCHEMA_CUBES', { properties: properties('Bazaar') });

let engine: RunningEngine;
let gateway: TestGateway;

beforeAll(async () => {
  engine = await startMondrian();
  gateway = await startTestGateway({ engine: { url: engine.url, kind: 'mondrian' } });
  // How Mondrian sorts some names depends on what it has read before, so that it must have read all of it.
  for (const { headers, body } of CACHED) {
    await send(engine.url, { method: 'POST', path: new URL(engine.url).pathname, headers, body });
  }
}, SLOW);

afterAll(async () => {
  await gateway?.close();
  await engine?.close();
}, SLOW);

const EMPTY: Question = {
  method: 'Execute',
  requestType: '',
  restrictions: [],
  statement: '',
  parameters: [],
  properties: [],
};

const through = (client: ThirdPartyClient, question: Question, session?: SessionSpec) => {
  const authorization = basic('alice');
  return askAs(client, { base: gateway.url, path: '/mdx/xmla', authorization, session }, question);
};
const direct = (client: ThirdPartyClient, question: Question, session?: SessionSpec) =>
  askAs(client, { base: engine.url, path: new URL(engine.url).pathname, session }, question);

/** A session of the client's own, begun as it begins one; undefined for those that have none. */
async function begin(client: ThirdPartyClient): Promise<SessionSpec | undefined> {
  if (!client.session) return undefined;
  const answer = await through(client, EMPTY, { kind: 'begin' });
  expect(shortStatus(answer)).toBe('bypass not-a-query');
  const { session: id = '' } = stampOf(decoded(answer));
  expect(id).not.toBe('');
  return { kind: 'in', id };
}

/** The bytes below the content coding. */
function decoded({ headers, body }: Answer): Buffer {
  return headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
}

function expectSame(answer: Answer, expected: Answer): void {
  expect(answer.status).toBe(expected.status);
  expect(answer.headers['content-type']).toBe(expected.headers['content-type']);
  expect(decoded(answer).equals(decoded(expected))).toBe(true);
}

function expectCaps({ headers }: ThirdPartyClient, answer: Answer): void {
  const asks = headers['x-transport-caps-negotiation-flags'] !== undefined;
  const told = answer.headers['x-transport-caps-negotiation-flags'];
  expect(told).toBe(asks ? '0,0,0,0,0' : undefined);
}

const named = <T extends { readonly name: string }>(rows: readonly T[]) =>
  rows.map((row) => [row.name, row] as const);

describe.each(sampled(named(THIRD_PARTY_CLIENTS)))('%s', (_client, client) => {
  const sessions: (SessionSpec | undefined)[] = [];

  beforeAll(async () => {
    sessions.push(await begin(client), await begin(client));
  }, SLOW);

  test.each(named([LINES, ...CACHED]))(
    'is answered as by the engine, and from the cache the second time: %s',
    async (_name, request) => {
      const question = questionOf(request);
      const [one, other] = sessions;
      const first = await through(client, question, one);
      const second = await through(client, question, other);
      expectSame(first, await direct(client, question, one));
      expectSame(second, await direct(client, question, other));
      expect([shortStatus(first), shortStatus(second)]).toEqual([
        // The head of a long or slow one goes out before it is known whether it will be stored.
        client.sharesWith === undefined ? expect.stringMatching(/^miss( stored)?$/) : 'hit',
        'hit',
      ]);
      for (const [answer, session] of [
        [first, one],
        [second, other],
      ] as const) {
        expectCaps(client, answer);
        const id = session?.kind === 'in' ? session.id : undefined;
        expect(stampOf(decoded(answer)).session).toBe(id);
      }
    },
    SLOW,
  );

  test.each(BYPASSED.map((request) => [request.reason, request.name, request] as const))(
    'is answered by the engine alone (%s): %s',
    async (reason, _name, request) => {
      const question = questionOf(request);
      // What is no query makes it dirty.
      const session = await begin(client);
      for (let turn = 0; turn < 2; turn += 1) {
        const answer = await through(client, question, session);
        expect(shortStatus(answer)).toBe(`bypass ${reason}`);
        expectCaps(client, answer);
        const expected = await direct(client, question, session);
        // The time and the dice are other ones each time.
        if (reason === 'volatile') expect(answer.status).toBe(expected.status);
        else expectSame(answer, expected);
      }
    },
    SLOW,
  );

  test.each(REFUSED.map((request) => [request.reason, request.name, request] as const))(
    'is answered by the engine each time, and nothing is stored (%s): %s',
    async (reason, _name, request) => {
      const question = questionOf(request);
      const [session] = sessions;
      const refusals = () =>
        gateway.events.flatMap((one) => (one.type === 'not-stored' ? one.reason : []));
      for (let turn = 0; turn < 2; turn += 1) {
        const before = refusals().length;
        const answer = await through(client, question, session);
        expect(['miss', `miss ${reason}`]).toContain(shortStatus(answer));
        expectSame(answer, await direct(client, question, session));
        // Its client does not wait until it is inspected.
        await until(() => refusals().length > before);
        expect(refusals().slice(before)).toEqual([reason]);
      }
    },
    SLOW,
  );

  test('is told by the engine of a property that it does not know, each time', async () => {
    const [session] = sessions;
    const known = questionOf({ name: 'Cubes', ...CUBES });
    for (let turn = 0; turn < 2; turn += 1) {
      const question = {
        ...known,
        properties: [...known.properties, ['SspropInitAppName', client.name] as const],
      };
      const answer = await through(client, question, session);
      expect(shortStatus(answer)).toBe('miss fault');
      expectSame(answer, await direct(client, question, session));
    }
  });

  test('ends its session at the engine', async () => {
    const [, other] = sessions;
    if (other?.kind !== 'in') {
      expect(client.session).toBe(false);
      return;
    }
    const ended = await through(client, EMPTY, { kind: 'end', id: other.id });
    expect(shortStatus(ended)).toBe('bypass session');
    const after = await through(client, questionOf(LINES), other);
    expect(shortStatus(after)).toBe('bypass unknown-session');
    expectSame(after, await direct(client, questionOf(LINES), other));
  });
});

test('every client is another one to the gateway', () => {
  const written = THIRD_PARTY_CLIENTS.map(({ headers, soapAction }) =>
    JSON.stringify([headers, soapAction]),
  );
  expect(new Set(written).size).toBe(THIRD_PARTY_CLIENTS.length);
});
