import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { mddatasetAnswer } from '../support/answers.ts';
import { readEngineRequest } from '../support/engine-request.ts';
import { discover, execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus } from '../support/http-client.ts';
import { beginSession, inSession } from '../support/stamped-client.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { figuresOf, nextRun, purge } from '../support/warm-up.ts';
import { shared } from '../support/opened.ts';

/**
 * An engine that answers by a header of its clients is sent it where `engine.headers` names it: with what may be cached and with
 * what passes. Then each value has its own entries; any other such header reaches no engine.
 */

const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
const NAMES = ['Accept-Language', 'X-Tenant'];
type Headers = Readonly<Record<string, string | readonly string[]>>;

const engine = shared(() =>
  startStubEngine((response, seen) => {
    if (seen.method !== 'POST') return sendXml(mddatasetAnswer())(response, seen);
    const { session } = readEngineRequest(seen.body, seen.headers);
    const id = session.kind === 'begin' ? `id-${begun.size}` : session.id;
    if (session.kind === 'begin') begun.set(id, said(seen.headers));
    const header = session.kind === 'none' ? '' : `<Session xmlns="${XMLA}" SessionId="${id}"/>`;
    const told = `(${said(seen.headers)} | ${begun.get(id) ?? ''})`;
    sendXml(mddatasetAnswer({ header, members: [told] }))(response, seen);
  }),
);
let gateway: TestGateway;
/** What each session was begun with, and which of that the engine goes on to answer by. */
let begun: Map<string, string>;

/** It answers by both headers in any spelling that CGI takes for them; a session keeps those of its beginning. */
const said = (headers: Readonly<NodeJS.Dict<string | readonly string[]>>) =>
  Object.entries(headers)
    .filter(([name]) => /^(?:accept.language|x.tenant)$/i.test(name))
    .map(([name, value]) => `${name}: ${String(value)}`)
    .sort()
    .join('; ');

beforeEach(() => {
  engine.seen.length = 0;
  begun = new Map();
});
afterEach(() => gateway.close());

async function start(headers: readonly string[], more: Record<string, unknown> = {}) {
  gateway = await startTestGateway({
    engine: { url: engine.url, headers },
    cache: { share: 'everyone' },
    ...more,
  });
}

const QUERY = execute({ statement: 'SELECT FROM [Sales]' });
const PASSES = execute({ statement: 'SELECT Now() ON 0 FROM [Sales]' });
/** What became of it, and by what the engine answered. */
async function ask(body: Buffer, headers: Headers = {}, path = '/mdx/xmla') {
  const answer = await askXmla(gateway.url, body, { headers: headers as never, path });
  return `${shortStatus(answer)}: ${/<Caption>\((.*?) \| .*?\)</.exec(answer.text)?.[1] ?? answer.text}`;
}
const dropped = () =>
  gateway.events.flatMap((event) =>
    event.type === 'warning' && event.message.includes('which is not forwarded')
      ? (/the header (\S+),/.exec(event.message)?.[1] ?? '')
      : [],
  );
const ofAdmin = { authorization: basic('ADMIN') };
async function findings() {
  const { text } = await send(gateway.url, { path: '/admin/overview', headers: ofAdmin });
  const { findings } = JSON.parse(text) as { findings: { kind: string; text: string }[] };
  return findings.filter(({ kind }) => kind === 'header-dropped').map((one) => one.text);
}

describe('a header that engine.headers names', () => {
  test.each([
    ['Accept-Language', 'de-DE', 'fr-FR'],
    ['X-Tenant', 'A', 'B'],
    ['X-Tenant', 'a', ' A'],
    ['X-Tenant', '', 'Ä'],
  ])('has entries of its own for each value: %s "%s" and "%s"', async (name, one, other) => {
    await start(NAMES);
    const shown = (value: string) => `${name.toLowerCase()}: ${value.trim()}`;
    for (const value of [one, other]) {
      const sent = value.replace('Ä', '\xc4');
      const told = shown(value).replace('Ä', '\xc4');
      expect(await ask(QUERY, { [name]: sent })).toBe(`miss stored: ${told}`);
      for (let times = 0; times < 3; times += 1) {
        expect(await ask(QUERY, { [name]: sent })).toBe(`hit: ${told}`);
      }
      expect(await ask(PASSES, { [name]: sent })).toBe(`bypass volatile: ${told}`);
    }
    expect(await ask(QUERY, { [name]: one.replace('Ä', '\xc4') })).toBe(`hit: ${shown(one)}`);
    expect(await ask(QUERY)).toBe('miss stored: ');
    expect(dropped()).toEqual([]);
  });

  test('crosses under its exact name alone, and not where it is of the connection', async () => {
    await start(['X-Tenant', 'X-Real-IP']);
    expect(await ask(QUERY)).toBe('miss stored: ');
    for (const name of ['X_Tenant', 'x.tenant', 'X_Real_IP']) {
      expect(await ask(QUERY, { [name]: 'B' })).toBe('hit: ');
      expect(await ask(PASSES, { [name]: 'B' })).toBe('bypass volatile: ');
      expect(engine.seen.at(-1)?.headers).not.toHaveProperty(name.toLowerCase());
    }
    const listed = { 'X-Tenant': 'B', connection: 'close, x-tenant' };
    expect(await ask(QUERY, listed)).toBe('hit: ');
    expect(await ask(PASSES, listed)).toBe('bypass volatile: ');
  });

  test('that comes twice is one value, in the key as it is forwarded', async () => {
    await start(NAMES);
    const both = { 'X-Tenant': ['A', 'B'] };
    expect(await ask(QUERY, both)).toBe('miss stored: x-tenant: A, B');
    expect(await ask(QUERY, { 'X-Tenant': 'A, B' })).toBe('hit: x-tenant: A, B');
    expect(await ask(QUERY, { 'X-Tenant': ['B', 'A'] })).toBe('miss stored: x-tenant: B, A');
    expect(await ask(PASSES, both)).toBe('bypass volatile: x-tenant: A, B');
    expect(await ask(QUERY, { 'X-Tenant': 'A' })).toBe('miss stored: x-tenant: A');
  });

  test('is in a Discover, and of a project with an engine of its own', async () => {
    await start([], { projects: { Shop: { engine: { headers: NAMES } } } });
    const cubes = discover({ requestType: 'MDSCHEMA_CUBES' });
    for (const tenant of ['A', 'B']) {
      const headers = { 'X-Tenant': tenant };
      expect(await ask(cubes, headers, '/mdx/xmla/Shop')).toMatch(`: x-tenant: ${tenant}`);
      expect(await ask(QUERY, headers, '/mdx/xmla/Shop')).toBe(`miss stored: x-tenant: ${tenant}`);
      expect(await ask(QUERY, headers)).toBe(tenant === 'A' ? 'miss stored: ' : 'hit: ');
    }
    expect(dropped()).toEqual(['x-tenant']);
  });

  test('is in the profile of a session, where the engine keeps how it was begun', async () => {
    await start(NAMES);
    const begin = (tenant: string) =>
      beginSession(gateway.url, { headers: { 'X-Tenant': tenant, 'Accept-Language': 'de' } });
    const ids = [await begin('A'), await begin('B'), await begin('A')];
    const answers = [];
    for (const id of ids) {
      const body = execute({ statement: 'SELECT FROM [Sales]', session: inSession(id) });
      const answer = await askXmla(gateway.url, body);
      const [, kept] = /<Caption>\(.*? \| (.*?)\)</.exec(answer.text) ?? [];
      answers.push([shortStatus(answer), kept]);
    }
    expect(answers).toEqual([
      ['miss stored', 'accept-language: de; x-tenant: A'],
      ['miss stored', 'accept-language: de; x-tenant: B'],
      ['hit', 'accept-language: de; x-tenant: A'],
    ]);
  });

  test('is in the empty statement by which a session is kept alive beside a hit', async () => {
    let passed = 0;
    const clock = { now: () => performance.now() + passed, wall: () => Date.now() + passed };
    gateway = await startTestGateway(
      { engine: { url: engine.url, kind: 'emondrian', headers: NAMES, session_idle: '1h' } },
      { clock },
    );
    const headers = { 'X-Tenant': 'A' };
    const id = await beginSession(gateway.url, { headers });
    const body = execute({ statement: 'SELECT FROM [Sales]', session: inSession(id) });
    expect(shortStatus(await askXmla(gateway.url, body, { headers }))).toBe('miss stored');
    passed = 20 * 60_000;
    engine.seen.length = 0;
    expect(shortStatus(await askXmla(gateway.url, body, { headers }))).toBe('hit');
    expect(engine.seen.map((seen) => said(seen.headers))).toEqual(['x-tenant: A']);
  });

  test('is told by POST /admin/explain as a part of the key', async () => {
    await start(NAMES);
    const digests = new Set<string>();
    for (const headers of [{}, { 'X-Tenant': 'A' }, { 'X-Tenant': 'B' }] as Headers[]) {
      const { text } = await send(gateway.url, {
        method: 'POST',
        path: '/admin/explain',
        headers: { ...ofAdmin, 'content-type': 'text/xml', ...headers } as never,
        body: QUERY,
      });
      const { cache } = JSON.parse(text) as {
        cache: { parts: { name: string; digest: string }[] };
      };
      digests.add(cache.parts.find(({ name }) => name === 'engine-headers')?.digest ?? '');
    }
    // Without one it has no such part.
    expect([digests.size, digests.has('')]).toEqual([3, true]);
  });

  test('is sent by the warm-up as it was asked with', async () => {
    await start(NAMES, { warm: { mode: 'auto', settle: '0' } });
    const all = ['A', 'B'].map((tenant) => ({ 'X-Tenant': tenant, 'Accept-Language': 'de' }));
    for (const headers of [...all, ...all]) await ask(QUERY, headers);
    engine.seen.length = 0;
    const run = await nextRun(gateway, () => purge(gateway));
    expect(figuresOf(run)).toMatchObject({ planned: 2, stored: 2 });
    expect(engine.seen.map(({ headers }) => said(headers)).sort()).toEqual([
      'accept-language: de; x-tenant: A',
      'accept-language: de; x-tenant: B',
    ]);
    expect(await ask(QUERY, all[0])).toBe('hit: accept-language: de; x-tenant: A');
    expect(await ask(QUERY, all[1])).toBe('hit: accept-language: de; x-tenant: B');
  });

  test('may be sent by a page of a listed origin', async () => {
    await start(NAMES, { listen: { cors: { origins: ['https://bi.example'] } } });
    const { headers } = await send(gateway.url, {
      method: 'OPTIONS',
      headers: { origin: 'https://bi.example', 'access-control-request-method': 'POST' },
    });
    expect(String(headers['access-control-allow-headers']).split(', ')).toEqual(
      expect.arrayContaining([
        ...['x-tenant', 'accept-language', 'x-as-sessionid', 'traceparent', 'x-requested-with'],
        ...['authorization', 'content-type', 'soapaction'],
      ]),
    );
  });
});

describe('any other header', () => {
  test('reaches no engine, cached or not, and is told once a name', async () => {
    await start([]);
    const headers = { 'Accept-Language': 'de', 'X-Tenant': 'A' };
    expect(await ask(QUERY, headers)).toBe('miss stored: ');
    expect(await ask(QUERY, { ...headers, 'X-Tenant': 'B' })).toBe('hit: ');
    expect(await ask(PASSES, headers)).toBe('bypass volatile: ');
    const get = await send(gateway.url, { headers: { ...headers, authorization: basic('alice') } });
    expect(shortStatus(get)).toBe('bypass method');
    for (const seen of engine.seen) expect(said(seen.headers)).toBe('');
    expect(dropped().sort()).toEqual(['accept-language', 'x-tenant']);
    expect(await findings()).toEqual([
      'Clients send headers that are not forwarded: accept-language, x-tenant.',
    ]);
  });

  test('is told no more once it is named', async () => {
    await start([]);
    await ask(QUERY, { 'X-Tenant': 'A' });
    await gateway.reload({ engine: { url: engine.url, headers: NAMES } });
    expect(await ask(QUERY, { 'X-Tenant': 'A' })).toBe('miss stored: x-tenant: A');
    expect(await findings()).toEqual([]);
    expect(dropped()).toEqual(['x-tenant']);
  });

  test('is not told where clients send it as a matter of course, and passes as it did', async () => {
    await start([]);
    const usual = {
      accept: 'text/xml',
      'accept-encoding': 'gzip',
      'accept-charset': 'utf-8',
      soapaction: `"${XMLA}:Execute"`,
      'user-agent': 'MSOLAP 16.0',
      'x-as-activityid': '1',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      tracestate: 'a=b',
      'cache-control': 'no-cache',
      pragma: 'no-cache',
      'x-request-id': 'one',
      'sec-fetch-site': 'same-origin',
      'sec-ch-ua': '"x"',
      referer: `${gateway.url}/x`,
      'x-forwarded-for': '192.0.2.1',
      'x-requested-with': 'XMLHttpRequest',
      'x-real-ip': '192.0.2.1',
      via: '1.1 proxy',
    };
    const silent = {
      connection: 'keep-alive',
      cookie: 'a=b',
      'x-forwarded-user': 'bob',
      'content-language': 'de',
      expect: '100-continue',
    };
    expect(await ask(QUERY, { ...usual, ...silent })).toBe('miss stored: ');
    expect(await ask(PASSES, { ...usual, ...silent })).toBe('bypass volatile: ');
    // As long as it may begin a session, its answer is asked for as it is.
    const passed = { ...usual, 'accept-encoding': 'identity' };
    expect(engine.seen.at(-1)?.headers).toMatchObject(passed);
    for (const name of ['cookie', 'x-forwarded-user', 'content-language']) {
      expect(engine.seen.at(-1)?.headers).not.toHaveProperty(name);
    }
    expect([dropped(), await findings()]).toEqual([[], []]);
  });

  test('is not told without a login, and of many invented names so many', async () => {
    await start([]);
    await ask(QUERY, { 'X-Unknown': '1', authorization: '' });
    expect(dropped()).toEqual([]);
    for (let first = 0; first < 120; first += 40) {
      const invented = Array.from({ length: 40 }, (_, at) => [`x-${first + at}`, '1'] as const);
      await ask(QUERY, Object.fromEntries(invented));
    }
    await ask(QUERY, { [`x-${'y'.repeat(4_000)}`]: '1' });
    expect(dropped()).toHaveLength(50);
    expect(await findings()).toEqual([expect.stringMatching(/^.{100,200} and 40 more\.$/)]);
  });
});
