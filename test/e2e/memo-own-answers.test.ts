import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { untilRemembered } from '../support/remembered.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, shortStatus, type Answer, type XmlaMessage } from '../support/http-client.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** Whether a request of these headers is remembered: one that waits for "100 Continue" never is. */
type Found = 'by what is remembered' | 'by its key';

/** The last of so many hits as have a query remembered. */
const hitOf = async (ask: () => Promise<Answer>) => (await untilRemembered(ask)).at(-1);

describe('of several users and projects', () => {
  let engine: StubEngine;
  let gateway: TestGateway;
  beforeAll(async () => {
    engine = await startStubEngine(() => {});
    engine.answerWith((...exchange) => {
      const answer = mddatasetAnswer({ members: [`Answer ${engine.seen.length}`] });
      return sendXml(answer)(...exchange);
    });
    gateway = await startTestGateway({
      engine: { url: engine.url },
      auth: { purgers: ['bob'], verified_for: '1m' },
      cache: { client_control: 'purgers' },
    });
  });
  afterAll(async () => {
    await gateway.close();
    await engine.close();
  });
  const QUERY = execute({ statement: 'SELECT FROM [Sales]' });
  const ask = (message: XmlaMessage) => askXmla(gateway.url, QUERY, message);
  /** The number that the engine put into its answer: each of its answers has the next one. */
  const numberIn = (answer: Answer | undefined) => /Answer (\d+)/.exec(answer?.text ?? '')?.[1];

  test.each<[Found, Readonly<Record<string, string>>]>([
    ['by what is remembered', { accept: 'text/xml' }],
    ['by its key', { accept: 'text/xml', expect: '100-continue' }],
  ])('everybody has the answers of his own projects (%s)', async (_found, headers) => {
    const places = ['alice', 'bob'].flatMap((user) =>
      ['/mdx/xmla/a', '/mdx/xmla/b', '/mdx/xmla'].map((path) => ({ user, path, headers })),
    );
    const own = new Map<XmlaMessage, string | undefined>();
    for (const place of places) {
      const first = await ask(place);
      own.set(place, numberIn(first));
      expect(numberIn(await hitOf(() => ask(place)))).toBe(numberIn(first));
    }
    expect(new Set(own.values()).size).toBe(places.length);
    for (const place of [...places, ...places.toReversed()]) {
      const hit = await ask(place);
      expect(numberIn(hit)).toBe(own.get(place));
    }
  });

  test('who may ask for fresh answers has one each time', async () => {
    const bob = { user: 'bob', path: '/mdx/xmla/c' };
    await ask(bob);
    await hitOf(() => ask(bob));
    const fresh = { ...bob, headers: { 'cache-control': 'no-cache' } };
    const numbers = new Set<string | undefined>();
    for (let asked = 0; asked < 4; asked += 1) {
      const answer = await ask(fresh);
      expect(shortStatus(answer)).toBe('miss stored');
      numbers.add(numberIn(answer));
      expect(numberIn(await hitOf(() => ask(bob)))).toBe(numberIn(answer));
    }
    expect(numbers.size).toBe(4);
  });
});

describe('in a session', () => {
  let sessions: SessionEngine;
  let gateway: TestGateway;
  beforeAll(async () => {
    sessions = await startSessionEngine({ kind: 'mondrian' });
    const settings = { engine: { url: sessions.url, kind: 'mondrian' } };
    gateway = await startTestGateway(settings);
  });
  afterAll(async () => {
    await gateway.close();
    await sessions.close();
  });

  async function begin(user: string): Promise<string> {
    const body = execute({ statement: '', session: { kind: 'begin' } });
    const { text } = await askXmla(gateway.url, body, { user });
    return /SessionId="([^"]+)"/.exec(text)?.[1] ?? '';
  }
  const ask = (id: string, message: XmlaMessage = {}, statement = 'SELECT FROM [Sales]') =>
    askXmla(gateway.url, execute({ statement, session: { kind: 'in', id } }), message);
  const shownIn = (answer: Answer | undefined) =>
    [...(answer?.text ?? '').matchAll(/SessionId="([^"]+)"/g)].map(([, shown]) => shown);

  test.each<[Found, Readonly<Record<string, string>>]>([
    ['by what is remembered', {}],
    ['by its key', { expect: '100-continue' }],
  ])(
    'every answer shows the session in which it was asked, and no other’s (%s)',
    async (_found, headers) => {
      const ids = [await begin('alice'), await begin('alice'), await begin('alice')];
      await ask(ids[0] ?? '', { headers });
      for (const id of ids) {
        expect(shownIn(await hitOf(() => ask(id, { headers })))).toEqual([id]);
      }
      for (const id of [...ids, ...ids]) {
        expect(shownIn(await ask(id, { headers }))).toEqual([id]);
      }
      const strange = await ask(ids[0] ?? '', { headers, user: 'bob' });
      expect(shortStatus(strange)).toBe('bypass unknown-session');
    },
  );

  test('no answer comes from the cache after a statement that may have changed it', async () => {
    const id = await begin('alice');
    await ask(id);
    await hitOf(() => ask(id));
    await ask(id, {}, 'CREATE SESSION SET [Sales].[S] AS {[Time].[1997]}');
    expect(shortStatus(await ask(id))).toBe('bypass dirty-session');
  });
});
