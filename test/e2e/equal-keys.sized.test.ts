import { randomInt } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { afterAll, describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import type { EngineKind } from '../../src/common/engine-kinds.ts';
import { mddatasetAnswer, propertiesAnswer, rowsetAnswer } from '../support/answers.ts';
import { readEngineRequest } from '../support/engine-request.ts';
import { execute } from '../support/envelopes.ts';
import { forwarded, kept } from '../support/forwarded.ts';
import { askXmla, shortStatus, type Answer } from '../support/http-client.ts';
import { bodyOf, requestPair, SLOTS, type Asked } from '../support/random-requests.ts';
import { sizes } from '../support/sizes.ts';
import { beginSession } from '../support/stamped-client.ts';
import { sendXml, startStubEngine, type SeenRequest } from '../support/stub-engine.ts';
import { startTestGateway } from '../support/test-gateway.ts';

/**
 * The promise behind every hit: whoever is answered from an entry sent a request that would have reached the
 * engine just as the one that made the entry. What a client can send is tried in both directions: it is
 * stripped, or it makes another key.
 */

/** Every kind of engine, with logins and shares under which users get each other's entries and not. */
const HOUSES: readonly {
  kind: EngineKind;
  login: 'forward' | 'service' | 'none';
  share: string;
  path: string;
}[] = [
  { kind: 'generic', login: 'forward', share: 'user', path: '/{project}' },
  { kind: 'mondrian', login: 'service', share: 'everyone', path: '' },
  { kind: 'emondrian', login: 'none', share: 'everyone', path: '/{project}' },
  { kind: 'kylin', login: 'forward', share: 'user', path: '/{project}' },
  { kind: 'ssas', login: 'service', share: 'everyone', path: '' },
];
/** These keep nothing of how a session began. */
const FORGETFUL: ReadonlySet<EngineKind> = new Set(['mondrian', 'kylin']);

const XMLA = 'urn:schemas-microsoft-com:xml-analysis';

interface Made {
  readonly seen: SeenRequest;
  /** What the engine may have kept of the session before; undefined without one. */
  readonly history: unknown;
}

/** An engine that begins sessions, numbers its answers and keeps what it was sent for each. */
async function startNumberingEngine(kind: EngineKind) {
  const made: Made[] = [];
  const sessions = new Map<string, { begun: unknown; catalogs: Set<string>; left: string[] }>();
  const stub = await startStubEngine((response, seen) => {
    const asked = readEngineRequest(seen.body, seen.headers);
    const { session, properties: named, method, requestType, restrictions } = asked;
    const id = session.kind === 'begin' ? `id ${sessions.size}` : session.id;
    if (session.kind === 'begin') {
      sessions.set(id, { begun: kept(seen), catalogs: new Set(), left: [] });
    }
    const state = sessions.get(id);
    for (const [name, value] of named) if (name === 'Catalog') state?.catalogs.add(value);
    if (asked.statement.startsWith('CREATE')) state?.left.push(asked.statement);
    const history = state && [
      FORGETFUL.has(kind) ? '' : [state.begun, [...state.catalogs].filter((one) => one)],
      [...state.left],
    ];
    made.push({ seen, history });
    const number = `answer ${made.length - 1}.`;
    const shown = session.kind === 'none' || session.byHeader ? undefined : id;
    const frame =
      shown === undefined ? {} : { header: `<Session xmlns="${XMLA}" SessionId="${shown}"/>` };
    // The first name, whichever the form.
    const [[, list = ''] = []] = restrictions;
    const [name = ''] = list.replace(/^</, '').split('>');
    const body =
      requestType === 'DISCOVER_PROPERTIES'
        ? propertiesAnswer([[name, number, '']], frame)
        : method === 'Discover'
          ? rowsetAnswer({ ...frame, names: [number] })
          : mddatasetAnswer({ ...frame, members: [number] });
    return sendXml(body, session.byHeader ? { headers: { 'x-as-sessionid': id } } : {})(
      response,
      seen,
    );
  });
  return { url: stub.url, made, close: stub.close };
}

const firstSeed = randomInt(2 ** 30);
const counts = { asked: 0, entries: 0, hits: 0, compared: 0, hitsInSessions: 0, ofAnother: 0 };
const opened: { close(): Promise<void> }[] = [];
afterAll(async () => {
  for (const one of opened.toReversed()) await one.close();
});

describe('any two requests that share an entry', () => {
  test.each(HOUSES.map((house, at) => ({ ...house, seed: firstSeed + at })))(
    'reach the engine alike, from sessions that went alike ($kind, login $login, share $share)',
    async ({ kind, login, share, path, seed }) => {
      const engine = await startNumberingEngine(kind);
      opened.push(engine);
      const service = { name: 'service', password: 'secret' };
      const gateway = await startTestGateway({
        engine: {
          url: `${engine.url}${path}`,
          kind,
          login,
          delegation: 'forward',
          headers: ['Accept-Language', 'X-Tenant'],
          ...(login === 'service' && { service }),
        },
        cache: { share, engine_permissions_ignored: true, client_control: 'everybody' },
      });
      opened.push(gateway);
      const { made } = engine;
      /** Users to whom the id of each slot belongs, by the project in which it was begun. */
      const ids = new Map<string, string>();

      async function idOf({ session, project }: Asked): Promise<string | undefined> {
        if (session === null) return undefined;
        const slot = SLOTS[session.slot];
        if (slot === undefined) return undefined;
        const place = path === '' ? '' : project;
        const name = `${session.slot} ${place}`;
        const known = ids.get(name);
        if (known !== undefined) return known;
        const begun = await beginSession(gateway.url, { ...slot, path: `/mdx/xmla${place}` });
        ids.set(name, begun);
        return begun;
      }

      const ask = async (one: Asked, body: Buffer, id: string | undefined, extra = {}) => {
        const byHeader = one.session?.by === 'header' || one.session?.by === 'both';
        const named: Record<string, string> =
          id !== undefined && byHeader ? { 'x-as-sessionid': id } : {};
        const type = one.coding === 'utf-8' ? {} : { 'content-type': 'text/xml' };
        const headers = { ...type, ...one.headers, ...named, ...extra };
        return askXmla(gateway.url, body, {
          user: one.user,
          path: `/mdx/xmla${one.project}?${one.search}`,
          headers,
        });
      };
      const textOf = ({ headers, body }: Answer) =>
        (headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body).toString();
      const numberOf = (answer: Answer) => Number(/answer (\d+)\./.exec(textOf(answer))?.[1]);

      async function compare(one: Asked, cube: number): Promise<void> {
        const id = await idOf(one);
        const body = bodyOf(one, cube, id);
        const answer = await ask(one, body, id);
        counts.asked += 1;
        const status = shortStatus(answer);
        if (status === 'miss stored') counts.entries += 1;
        if (status !== 'hit') return;
        counts.hits += 1;
        const source = made[numberOf(answer)];
        // Asked once more past the entry, it shows how it reaches the engine.
        const fresh = await ask(one, body, id, { 'cache-control': 'no-cache' });
        const own = made[numberOf(fresh)];
        expect(shortStatus(fresh)).toBe('miss stored');
        if (source === undefined || own === undefined) throw new Error('nothing to compare');
        expect(own.seen).not.toBe(source.seen);
        expect(forwarded(own.seen)).toEqual(forwarded(source.seen));
        expect(own.history).toEqual(source.history);
        // What was replayed is what the engine sends, but for its number: with this session and no other.
        const [replayed, sent] = [answer, fresh].map((one) =>
          textOf(one).replaceAll(/answer \d+\./g, ''),
        );
        expect(replayed).toBe(sent);
        expect(answer.headers['x-as-sessionid']).toBe(fresh.headers['x-as-sessionid']);
        counts.compared += 1;
        if (id !== undefined) counts.hitsInSessions += 1;
        const sourceId = readEngineRequest(source.seen.body, source.seen.headers).session.id;
        if (id !== undefined && sourceId !== id) counts.ofAnother += 1;
      }

      await fc.assert(
        fc.asyncProperty(
          requestPair,
          fc.integer({ min: 0, max: 10_000_000 }),
          fc.boolean(),
          fc.nat({ max: 15 }),
          async (asked, cube, again, spoilt) => {
            for (const one of asked) await compare(one, cube);
            const [first] = asked;
            if (first?.session == null) return;
            // The same question from each other session.
            if (again) {
              for (const slot of SLOTS.keys()) {
                const { user = first.user } = SLOTS[slot] ?? {};
                await compare({ ...first, user, session: { ...first.session, slot } }, cube);
              }
            }
            if (spoilt > 0) return;
            const id = await idOf(first);
            const statement = `CREATE SESSION MEMBER [S].[Measures].[M ${cube}] AS '1'`;
            const body = execute({ statement, session: { kind: 'in', id: id ?? '' } });
            const message = { user: SLOTS[first.session.slot]?.user ?? '' };
            const place = path === '' ? '' : first.project;
            await askXmla(gateway.url, body, { ...message, path: `/mdx/xmla${place}` });
            for (const one of asked) await compare(one, cube);
            ids.delete(`${first.session.slot} ${place}`);
          },
        ),
        { numRuns: sizes.keyedPairs, seed, endOnFailure: true },
      );
    },
  );

  test('are counted', () => {
    process.stdout.write(`equal keys: ${JSON.stringify({ firstSeed, ...counts })}\n`);
    expect(counts.compared).toBe(counts.hits);
    expect(counts.hits).toBeGreaterThan(sizes.keyedPairs / 2);
    expect(counts.ofAnother).toBeGreaterThan(0);
    // About half as many are to be expected: requests that may ask for values outside the key pass through.
    expect(counts.entries).toBeGreaterThan((sizes.keyedPairs * HOUSES.length) / 5);
  });
});
