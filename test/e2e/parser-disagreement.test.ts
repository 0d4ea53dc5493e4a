import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { mddatasetAnswer, SESSION_HEADER } from '../support/answers.ts';
import { DISAGREEMENTS, type OddRequest } from '../support/disagreements.ts';
import { execute, type SessionSpec } from '../support/envelopes.ts';
import { askXmla, shortStatus } from '../support/http-client.ts';
import { beginSession, inSession } from '../support/stamped-client.ts';
import { startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** What an engine may read otherwise than the gateway goes to the engine as it is, and past the cache. */

let engine: StubEngine;
let gateway: TestGateway;
let count = 0;
/** Of the engine's answers: each is another one. */
let answers = 0;

beforeAll(async () => {
  engine = await startStubEngine((response, { body }) => {
    answers += 1;
    const begins = body.includes('BeginSession');
    const header = begins
      ? SESSION_HEADER.replace(/SessionId="[^"]*"/, `SessionId="s${answers}"`)
      : '';
    response.writeHead(200, { 'content-type': 'text/xml' });
    response.end(mddatasetAnswer({ header, members: [`answer ${answers}`] }));
  });
  gateway = await startTestGateway({
    engine: { url: engine.url, kind: 'generic' },
    cache: { share: 'everyone' },
  });
});
afterAll(async () => {
  await gateway.close();
  await engine.close();
});
beforeEach(() => {
  count += 1;
});

const PROPERTIES = { Catalog: 'Sales' };
const query = (session?: SessionSpec) =>
  execute({
    statement: `SELECT FROM [${count}]`,
    properties: PROPERTIES,
    ...(session && { session }),
  });
const begin = (user: string) => beginSession(gateway.url, { user, properties: PROPERTIES });

/** In short what became of a request, and which of the engine's answers it was given. */
async function ask({ body, headers = {} }: OddRequest, user = 'alice') {
  const answer = await askXmla(gateway.url, body, { user, headers });
  const number = Number(/<Caption>answer (\d+)</.exec(answer.text)?.[1]);
  return { status: shortStatus(answer), number };
}
const askIn = (id: string | undefined, user = 'alice') =>
  ask({ body: query(id === undefined ? undefined : inSession(id)) }, user);

describe.each(DISAGREEMENTS.map((one) => [one.reason, one.what, one] as const))(
  '%s: %s',
  (reason, _what, { odd, reach }) => {
    /** Sends it, and sees that the engine answered the very bytes. */
    async function askOdd(session?: SessionSpec): Promise<void> {
      const request = odd(query(session).toString());
      const before = answers;
      expect(await ask(request)).toEqual({ status: `bypass ${reason}`, number: before + 1 });
      expect(engine.seen.at(-1)?.body.equals(request.body)).toBe(true);
    }

    test('without a session reaches the engine each time, and neither finds nor leaves an entry', async () => {
      const [own, other] = [await begin('alice'), await begin('bob')];
      const inOwn = await askIn(own);
      expect(inOwn.status).toBe('miss stored');
      await askOdd();
      const first = await askIn(undefined);
      expect(first.status).toBe('miss stored');
      await askOdd();
      await askOdd();
      expect(await askIn(undefined)).toEqual({ ...first, status: 'hit' });
      const isClean = reach !== 'always';
      for (const [id, user] of [
        [own, 'alice'],
        [other, 'bob'],
      ] as const) {
        expect(await askIn(id, user)).toEqual(
          isClean
            ? { ...inOwn, status: 'hit' }
            : { status: 'bypass dirty-session', number: answers },
        );
      }
    });

    test('in a session makes it dirty unless it only reads, and others as far as it may speak of them', async () => {
      const [own, second, other] = [await begin('alice'), await begin('alice'), await begin('bob')];
      const first = await askIn(own);
      expect(first.status).toBe('miss stored');
      expect(await askIn(second)).toEqual({ ...first, status: 'hit' });
      await askOdd(inSession(own));
      for (let turn = 0; turn < 2; turn += 1) {
        const { status, number } = await askIn(own);
        expect([status, number]).toEqual(
          reach === 'none' ? ['hit', first.number] : ['bypass dirty-session', answers],
        );
      }
      for (const [id, user] of [
        [second, 'alice'],
        [other, 'bob'],
      ] as const) {
        const { status, number } = await askIn(id, user);
        expect([status, number]).toEqual(
          reach === 'named' || reach === 'none'
            ? ['hit', first.number]
            : ['bypass dirty-session', answers],
        );
      }
      // Nothing of it was stored: a session that begins now is given what was there.
      expect(await askIn(await begin('alice'))).toEqual({ ...first, status: 'hit' });
    });
  },
);

test('who names two sessions makes both dirty, and no other', async () => {
  const [one, two, third] = [await begin('alice'), await begin('alice'), await begin('alice')];
  const first = await askIn(third);
  const block = `<Session xmlns="urn:schemas-microsoft-com:xml-analysis" SessionId="${two}"/>`;
  const text = query(inSession(one)).toString();
  const body = Buffer.from(text.replace('</SOAP-ENV:Header>', `${block}</SOAP-ENV:Header>`));
  expect((await ask({ body })).status).toBe('bypass unknown-shape');
  for (const id of [one, two]) expect((await askIn(id)).status).toBe('bypass dirty-session');
  expect(await askIn(third)).toEqual({ ...first, status: 'hit' });
});
