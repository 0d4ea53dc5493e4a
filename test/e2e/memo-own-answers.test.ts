import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { systemClock } from '../../src/common/clock.ts';
import { hitsUntil, watchfulClock, type AnsweringPath } from '../support/answering-path.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, shortStatus, type Answer, type XmlaMessage } from '../support/http-client.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** So long ahead of the other clock, as a test says (ms). */
let ahead = 0;
const watched = watchfulClock({ now: () => systemClock.now() + ahead, wall: systemClock.wall });

/** So many hits have any query remembered. */
const REMEMBERED = 5;

/** A hit that was found in this way once the query is remembered. */
async function hitBy(way: AnsweringPath, ask: () => Promise<Answer>): Promise<Answer | undefined> {
  for (let hits = 0; hits < REMEMBERED; hits += 1) await ask();
  return (await hitsUntil(watched, [way], ask)).at(-1);
}

describe('of several users and projects', () => {
  let engine: StubEngine;
  let gateway: TestGateway;
  beforeAll(async () => {
    engine = await startStubEngine(() => {});
    engine.answerWith((...exchange) => {
      const answer = mddatasetAnswer({ members: [`Answer ${engine.seen.length}`] });
      return sendXml(answer)(...exchange);
    });
    gateway = await startTestGateway(
      {
        engine: { url: engine.url },
        auth: { purgers: ['bob'], verified_for: '1m' },
        cache: { client_control: 'purgers' },
      },
      { clock: watched.clock },
    );
  });
  afterAll(async () => {
    await gateway.close();
    await engine.close();
  });
  const QUERY = execute({ statement: 'SELECT FROM [Sales]' });
  const ask = (message: XmlaMessage) => askXmla(gateway.url, QUERY, message);
  /** The number that the engine put into its answer: each of its answers has the next one. */
  const numberIn = (answer: Answer | undefined) => /Answer (\d+)/.exec(answer?.text ?? '')?.[1];

  test.each<[AnsweringPath, Readonly<Record<string, string>>]>([
    ['memo', { accept: 'text/xml' }],
    ['key', { accept: 'text/xml', expect: '100-continue' }],
  ])('everybody has the answers of his own projects (%s)', async (way, headers) => {
    const places = ['alice', 'bob'].flatMap((user) =>
      ['/mdx/xmla/a', '/mdx/xmla/b', '/mdx/xmla'].map((path) => ({ user, path, headers })),
    );
    const own = new Map<XmlaMessage, string | undefined>();
    for (const place of places) {
      const first = await ask(place);
      own.set(place, numberIn(first));
      expect(numberIn(await hitBy(way, () => ask(place)))).toBe(numberIn(first));
    }
    expect(new Set(own.values()).size).toBe(places.length);
    for (const place of [...places, ...places.toReversed()]) {
      const hit = await ask(place);
      expect([watched.answeredBy(), numberIn(hit)]).toEqual([way, own.get(place)]);
    }
  });

  test('who may ask for fresh answers has one each time', async () => {
    const bob = { user: 'bob', path: '/mdx/xmla/c' };
    await ask(bob);
    await hitBy('memo', () => ask(bob));
    const fresh = { ...bob, headers: { 'cache-control': 'no-cache' } };
    const numbers = new Set<string | undefined>();
    for (let asked = 0; asked < 4; asked += 1) {
      const answer = await ask(fresh);
      expect(shortStatus(answer)).toBe('miss stored');
      numbers.add(numberIn(answer));
      expect(numberIn(await hitBy('memo', () => ask(bob)))).toBe(numberIn(answer));
    }
    expect(numbers.size).toBe(4);
  });

  test('a login that is due is checked again, and then the query is known as before', async () => {
    const alice = { user: 'alice', path: '/mdx/xmla/d' };
    await ask(alice);
    await hitBy('memo', () => ask(alice));
    ahead += 60_001;
    expect(shortStatus(await ask(alice))).toBe('hit');
    expect(watched.answeredBy()).toBe('key');
    await hitBy('memo', () => ask(alice));
  });
});

describe('in a session', () => {
  let sessions: SessionEngine;
  let gateway: TestGateway;
  beforeAll(async () => {
    sessions = await startSessionEngine({ kind: 'mondrian' });
    const settings = { engine: { url: sessions.url, kind: 'mondrian' } };
    gateway = await startTestGateway(settings, { clock: watched.clock });
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

  test.each<[AnsweringPath, Readonly<Record<string, string>>]>([
    ['memo', {}],
    ['key', { expect: '100-continue' }],
  ])(
    'every answer shows the session in which it was asked, and no other’s (%s)',
    async (way, headers) => {
      const ids = [await begin('alice'), await begin('alice'), await begin('alice')];
      await ask(ids[0] ?? '', { headers });
      for (const id of ids) {
        expect(shownIn(await hitBy(way, () => ask(id, { headers })))).toEqual([id]);
      }
      for (const id of [...ids, ...ids]) {
        expect(shownIn(await ask(id, { headers }))).toEqual([id]);
        expect(watched.answeredBy()).toBe(way);
      }
      const strange = await ask(ids[0] ?? '', { headers, user: 'bob' });
      expect(shortStatus(strange)).toBe('bypass unknown-session');
    },
  );

  test('no answer comes from the cache after a statement that may have changed it', async () => {
    const id = await begin('alice');
    await ask(id);
    await hitBy('memo', () => ask(id));
    await ask(id, {}, 'CREATE SESSION SET [Sales].[S] AS {[Time].[1997]}');
    expect(shortStatus(await ask(id))).toBe('bypass dirty-session');
  });
});
