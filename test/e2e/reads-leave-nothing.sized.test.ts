import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { SessionSpec } from '../support/envelopes.ts';
import { askXmla, shortStatus } from '../support/http-client.ts';
import {
  bodyOf,
  ODD_BESIDE,
  type Reading,
  READS,
  TWISTED,
  TWISTED_ENVELOPES,
} from '../support/reading-requests.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import { sampled } from '../support/sizes.ts';
import { askStamped, beginSession, inSession } from '../support/stamped-client.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/**
 * What only reads neither purges nor spoils a session. What looks like it, and some engine may read otherwise, does both:
 * the engine here leaves something behind wherever the word LEAVE stands.
 */

const KINDS = ['emondrian', 'mondrian', 'generic', 'kylin', 'ssas'] as const;
const PAGE = 'https://bi.example';
const UTF_8 = { 'content-type': 'text/xml; charset=utf-8' };
/** In which ASCII is ASCII, and which are not read otherwise. */
const CHARSETS = ['windows-1252', 'gb2312', 'gbk', 'shift_jis', 'iso-8859-15', 'koi8-r'] as const;
const TWINS = [...TWISTED, ...TWISTED_ENVELOPES];

const houses = new Map<string, { readonly engine: SessionEngine; readonly gateway: TestGateway }>();
beforeAll(async () => {
  for (const kind of sampled(KINDS)) {
    const engine = await startSessionEngine({ kind });
    const gateway = await startTestGateway({
      engine: { url: engine.url, kind, login: 'forward' },
      listen: { cors: { origins: [PAGE] } },
    });
    houses.set(kind, { engine, gateway });
  }
});
afterAll(async () => {
  for (const { engine, gateway } of houses.values()) {
    await gateway.close();
    await engine.close();
  }
});

let count = 0;
const counts = { reads: 0, hits: 0, twins: 0, wrong: 0 };

describe.each(sampled(KINDS))('before %s', (kind) => {
  const house = () => houses.get(kind) as NonNullable<ReturnType<typeof houses.get>>;
  const url = () => house().gateway.url;
  const purges = () => house().gateway.events.filter(({ type }) => type === 'purged');

  const newQuery = (id: string) =>
    bodyOf({ statement: `SELECT FROM [Sales ${(count += 1)}]` }, inSession(id));

  /** A session in which a query is answered from the cache, and what becomes of that query then. */
  async function session(user: string) {
    const query = { statement: `SELECT FROM [Sales ${(count += 1)}]` };
    const id = await beginSession(url(), { properties: { Catalog: 'Sales' }, user });
    const look = () => askStamped(url(), bodyOf(query, inSession(id)), { user });
    await look();
    expect((await look()).status).toBe('hit');
    house().gateway.events.length = 0;
    const send = (one: Reading, headers: Readonly<Record<string, string>> = UTF_8) =>
      askXmla(url(), bodyOf(one, inSession(id)), { user, headers });
    return { id, look, send };
  }

  describe('what only reads', () => {
    test.each(READS)('%s is followed by a hit, and purges nothing', async (_what, one) => {
      for (const user of ['alice', 'ADMIN']) {
        const { id, look, send } = await session(user);
        expect(shortStatus(await send(one))).toMatch(/^bypass /);
        const { status, stamp } = await look();
        counts.reads += 1;
        counts.hits += status === 'hit' ? 1 : 0;
        expect([status, stamp?.created, purges()]).toEqual(['hit', [], []]);
        // Nothing that the cache has: the engine says what there is in the session.
        const asked = await askStamped(url(), newQuery(id), { user });
        counts.wrong += asked.stamp?.created.length === 0 ? 0 : 1;
        expect([asked.status, asked.stamp?.created]).toEqual(['miss stored', []]);
      }
    });

    test.each(sampled(CHARSETS))('does so in %s, where it is ASCII', async (charset) => {
      for (const [, one] of READS) {
        const { look, send } = await session('ADMIN');
        const sent = await send(one, { 'content-type': `text/xml; charset=${charset}` });
        expect(shortStatus(sent)).toBe('bypass encoding');
        expect([(await look()).status, purges()]).toEqual(['hit', []]);
      }
    });

    test('does so with letters in an encoding of one byte, and with 6,000 members', async () => {
      const members = Array.from(
        { length: 6_000 },
        (_, at) => `[Product].[Product].&[${1e4 + at}]`,
      );
      for (const statement of [
        'SELECT Now() ON 0 FROM [Größe]',
        `SELECT {${members.join()}} ON 0 FROM [Sales]`,
      ]) {
        const { id, look } = await session('ADMIN');
        const text = bodyOf({ statement }, inSession(id))
          .toString()
          .replace('UTF-8', 'windows-1252');
        const body = Buffer.from(text, 'latin1');
        const headers = { 'content-type': 'text/xml; charset=windows-1252' };
        const sent = await askXmla(url(), body, { user: 'ADMIN', headers });
        expect(shortStatus(sent)).toBe('bypass encoding');
        expect([(await look()).status, purges()]).toEqual(['hit', []]);
      }
    });
  });

  describe('a session', () => {
    const about = (spec: SessionSpec) => bodyOf({}, spec);
    test('that begins and ends in another encoding is known, clean, and purges nothing', async () => {
      const { look } = await session('ADMIN');
      const message = {
        user: 'ADMIN',
        headers: { 'content-type': 'text/xml; charset=windows-1252' },
      };
      const begun = await askStamped(url(), about({ kind: 'begin' }), message);
      expect([begun.status, begun.session]).toEqual(['bypass encoding', expect.any(String)]);
      const id = begun.session ?? '';
      const query = newQuery(id);
      await askStamped(url(), query, { user: 'ADMIN' });
      expect((await askStamped(url(), query, { user: 'ADMIN' })).status).toBe('hit');
      const ended = await askStamped(url(), about({ kind: 'end', id }), message);
      expect(ended.status).toBe('bypass session');
      expect((await askStamped(url(), query, { user: 'ADMIN' })).status).toMatch(
        /unknown-session$/,
      );
      expect([(await look()).status, purges()]).toEqual(['hit', []]);
    });

    test('is not clean where what it keeps has letters that engines may read otherwise', async () => {
      const text = bodyOf({}, { kind: 'begin' }).toString().replace('>Sales<', '>Größe<');
      const body = Buffer.from(text.replace('UTF-8', 'windows-1252'), 'latin1');
      const { session: id = '' } = await askStamped(url(), body, {
        headers: { 'content-type': 'text/xml' },
      });
      expect((await askStamped(url(), newQuery(id))).status).toBe('bypass dirty-session');
    });

    test.each(ODD_BESIDE)(
      'that begins beside %s is dirty, and purges nothing, from a listed page and without one',
      async (_what, odd) => {
        const { look } = await session('ADMIN');
        for (const headers of [UTF_8, { ...UTF_8, origin: PAGE }]) {
          const body = bodyOf({ odd }, { kind: 'begin' });
          const begun = await askStamped(url(), body, { user: 'ADMIN', headers });
          expect([begun.answer.status, begun.status]).toEqual([200, 'bypass unknown-shape']);
          const query = bodyOf(
            { statement: 'SELECT FROM [Sales]' },
            inSession(begun.session ?? ''),
          );
          const { status, stamp } = await askStamped(url(), query, { user: 'ADMIN' });
          if (begun.session) expect(status).toBe('bypass dirty-session');
          expect(stamp?.created.every((one) => one === 'LEAVE')).toBe(true);
        }
        expect([(await look()).status, purges()]).toEqual(['hit', []]);
      },
    );
  });

  describe('what only reads, beside', () => {
    test.each(ODD_BESIDE)('%s, purges nothing, and its session is dirty', async (_what, odd) => {
      for (const [, one] of READS) {
        const { look, send } = await session('ADMIN');
        await send({ ...one, odd: (text) => odd(one.odd?.(text) ?? text) });
        const { status, stamp } = await look();
        expect([status, stamp?.created, purges()]).toEqual(['bypass dirty-session', ['LEAVE'], []]);
      }
    });
  });

  describe('what some engine may read otherwise', () => {
    test.each(TWINS)('makes its session dirty: %s', async (_what, one) => {
      for (const headers of [UTF_8, { 'content-type': 'text/xml; charset=windows-1252' }]) {
        const { look, send } = await session('alice');
        await send(one, headers);
        const { status, stamp } = await look();
        counts.twins += 1;
        counts.wrong += stamp?.created.includes('LEAVE') ? 0 : 1;
        expect([status, stamp?.created[0]]).toEqual(['bypass dirty-session', 'LEAVE']);
        expect(purges()).toEqual([]);
      }
    });

    test.each(TWISTED_ENVELOPES)('purges for somebody who may: %s', async (_what, one) => {
      for (const user of ['ADMIN', 'alice']) {
        const { send } = await session(user);
        const answer = await send(one);
        const told = {
          scope: 'everything',
          cause: 'statement',
          call: answer.headers['x-request-id'],
        };
        const [purge] = purges();
        if (user === 'alice') expect(purge).toBeUndefined();
        else expect(purge).toMatchObject({ ...told, why: expect.stringMatching(/^[a-z-]+/) });
      }
    });
  });
});

test('no answer was wrong, and each that may be is a hit', () => {
  console.log('what only reads', JSON.stringify(counts));
  expect(counts.hits).toBe(counts.reads);
  expect(counts.wrong).toBe(0);
});
