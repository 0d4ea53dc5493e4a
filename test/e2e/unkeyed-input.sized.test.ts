import { Agent } from 'node:http';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  faultAnswer,
  mddatasetAnswer,
  propertiesAnswer,
  rowsetAnswer,
} from '../support/answers.ts';
import {
  propertyOf,
  readEngineRequest,
  type EngineRequest,
  type Named,
} from '../support/engine-request.ts';
import type { Property, Restriction } from '../../src/xmla/request/read-request.ts';
import { discover, execute, type ExecuteSpec } from '../support/envelopes.ts';
import { IGNORED } from '../support/forwarded.ts';
import { askXmla, send, shortStatus } from '../support/http-client.ts';
import { fuzzSeed, randomFrom } from '../support/mutate.ts';
import { sizes } from '../support/sizes.ts';
import { beginSession } from '../support/stamped-client.ts';
import { asToolkit, formsIn, type Toolkit } from '../support/toolkits.ts';
import { startStubEngine, type SeenRequest, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/**
 * Whatever of a request an engine may answer by is in the key, or it is asked each time. The engine of this test tells
 * which of two headers it was sent, in any spelling, and with which the session was begun, which properties it was sent, refuses a request that holds one it does not know, tells their current values where it
 * is asked for properties, and takes names of catalogs and cubes without regard to case, width and kana. What the
 * gateway answers is compared with what this engine would answer to the same bytes at this moment.
 */

const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
/** Each with spellings that the collation takes for the same. */
const CATALOGS = [
  ['Sales', 'Ｓales', 'ＳＡＬＥＳ', ' sales', 'Sa\u00adles'],
  ['カタログ', 'かたろぐ', 'ｶﾀﾛｸﾞ'],
  ['Café', 'Cafe\u0301', 'ＣＡＦＥ\u0301'],
  ['Office', 'Oﬃce', 'ＯＦＦＩＣＥ'],
] as const;
/** In the first catalog it is off; its data changes all the time there. */
const LIVE = ['Live', 'Ｌive', 'ＬＩＶＥ', 'live '] as const;
const CUBES = [LIVE, ['Stock'], ['Ｎet', 'Net']] as const;
/** The engine does not know it. */
const UNKNOWN = 'SspropInitWsid';
const VALUES = [
  ...['0f8fad5b-d9cb-469f-a165-70867728950e', '7c9e6679-7425-40de-944b-e07fc1f90ae7'],
  ...['10', '3600', '4711', '', 'a b'],
];
const TOOLKITS: readonly Toolkit[] = [
  { typed: ['RequestType', 'Statement', 'RestrictionList'], type: 'xsd:string', nil: false },
  { typed: ['Timeout', 'CUBE_NAME', 'PropertyName'], type: 'xsd:string', nil: false },
  { typed: ['Timeout', 'Catalog'], type: 'xsd:int', nil: true },
  { typed: [], type: '', nil: true },
];
/** Requests between two changes of data. */
const ROUND = 40;
const CLIENTS = 8;

/** None of the gateway's: ICU compares texts by their weights, not by a folded spelling. */
const collation = new Intl.Collator('de', { sensitivity: 'accent' });
const isSame = (one: string, other: string) => collation.compare(one.trim(), other.trim()) === 0;
const numberOf = (name: string, lists: readonly (readonly [string, ...string[]])[]) =>
  lists.findIndex(([first]) => isSame(first, name));

/** Named by `engine.headers`; the engine takes others, as CGI does, for the same. */
const HEADERS = ['accept-language', 'x-tenant'];
const OTHER_SPELLINGS = ['x_tenant', 'X.Tenant', 'Accept_Language'];
type Sent = Readonly<Record<string, string>>;
const toldByHeaders = (headers: Readonly<NodeJS.Dict<string | string[]>>) =>
  Object.entries(headers)
    .map(([name, value]) => [name.toLowerCase().replaceAll(/[^a-z]/g, '-'), value] as const)
    .filter(([name]) => HEADERS.includes(name))
    .map(([name, value]) => `${name}=${String(value)}`)
    .sort()
    .join();

interface Begun {
  readonly id: string;
  readonly user: string;
  readonly catalog: string | undefined;
}

type Common = Pick<ExecuteSpec, 'properties' | 'session'>;

/** What is asked, and where. */
interface Question {
  readonly own: readonly Property[];
  readonly catalog: string | undefined;
  /** The part of the path that names it; '' for none. */
  readonly project: string;
  readonly session: Begun | undefined;
  readonly toolkit: Toolkit | undefined;
  readonly headers: Sent;
  readonly body: (common: Common) => Buffer;
}

let engine: StubEngine;
let gateway: TestGateway;
/** How often the data of each catalog changed, and that of the cube that is off. */
const data = CATALOGS.map(() => 1);
let live = 1;
const sessions = new Map<string, { properties: readonly Named[]; headers: string }>();
const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });

/** Of this round, so that no body is read twice. */
const readings = new Map<string, EngineRequest>();

function read(body: Buffer): EngineRequest {
  const text = body.toString();
  const asked = readings.get(text) ?? readEngineRequest(body, {});
  readings.set(text, asked);
  return asked;
}

/** What the engine answers at this moment, in the session that is named. */
const told = (seen: Pick<SeenRequest, 'url' | 'body' | 'headers'>) => tellsOf(seen).text;

/** With names and values of the properties that it tells. */
function tellsOf({ url, body, headers }: Pick<SeenRequest, 'url' | 'body' | 'headers'>): {
  readonly text: string;
  readonly properties?: readonly (readonly [name: string, value: string])[];
} {
  const asked = read(body);
  const { method, requestType, restrictions, statement, session } = asked;
  const { properties: begun = [], headers: kept = '' } = sessions.get(session.id) ?? {};
  const named = [...asked.properties, ...begun];
  if (asked.properties.some(([name]) => name === UNKNOWN))
    return { text: `unknown property ${UNKNOWN}` };
  const properties = [asked.properties, begun].map((list) =>
    list
      .map(([name]) => name)
      .sort()
      .join(),
  );
  // Nil is another thing to it than empty, and a type another one than none.
  const forms = formsIn(body);
  const names = [toldByHeaders(headers), kept, ...properties];
  // Ignored ones have no value unless they are sent.
  const unset = (name: string) => (IGNORED.some((one) => isSame(one, name)) ? '' : 'default');
  const valueOf = (name: string) => named.find(([one]) => isSame(one, name))?.[1] ?? unset(name);
  if (requestType === 'DISCOVER_PROPERTIES') {
    // A restriction that it does not know does not count.
    const only = restrictions.filter(([name]) => name === 'PropertyName').map(([, one]) => one);
    const all = [...new Set([...named.map(([name]) => name), 'ProviderVersion'])].sort();
    const list = only.length === 0 ? all : only.map((one) => one.replaceAll(/[<>]/g, ''));
    const text = [...names, forms, ...list.map((name) => `${name}=${valueOf(name)}`)].join(' ');
    return { text, properties: list.map((name) => [name, valueOf(name)]) };
  }
  const inPath = decodeURIComponent(url.split('/')[2] ?? '');
  const restricted = (name: string) => restrictions.find(([one]) => one === name)?.[1] ?? '';
  const catalog =
    method === 'Execute'
      ? [propertyOf(asked, 'Catalog'), valueOf('Catalog'), inPath].find(
          (one) => one.trim() !== '' && one !== 'default',
        )
      : restricted('CATALOG_NAME');
  const at = numberOf(catalog ?? '', CATALOGS);
  const cube =
    method === 'Execute'
      ? (/FROM \[([^\]]*)\]/.exec(statement)?.[1] ?? '')
      : restricted('CUBE_NAME');
  const isLive = at === 0 && numberOf(cube, CUBES) === 0;
  const version = at < 0 ? data.join('+') : isLive ? `live ${live}` : data[at];
  return { text: [...names, forms, statement, at, numberOf(cube, CUBES), version].join(' ') };
}

const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

function answer(seen: SeenRequest): string {
  const { session, method, properties } = read(seen.body);
  const id = session.kind === 'begin' ? `id-${sessions.size}` : session.id;
  if (session.kind === 'begin')
    sessions.set(id, { properties, headers: toldByHeaders(seen.headers) });
  const header = session.kind === 'none' ? '' : `<Session xmlns="${XMLA}" SessionId="${id}"/>`;
  const { text, properties: told = [] } = tellsOf(seen);
  if (text.startsWith('unknown')) return faultAnswer({ header }).replace('cube not found', text);
  const shown = escaped(text);
  if (told.length > 0)
    return propertiesAnswer(
      told.map(([name, value]) => [escaped(name), `(${shown})`, escaped(value)]),
      { header },
    );
  return method === 'Discover'
    ? rowsetAnswer({ header, names: [`(${shown})`] })
    : mddatasetAnswer({ header, members: [`(${shown})`] });
}

beforeAll(async () => {
  engine = await startStubEngine((response, seen) => {
    engine.seen.length = 0;
    response.writeHead(200, { 'content-type': 'text/xml; charset=utf-8' });
    response.end(answer(seen));
  });
  const [[catalog]] = CATALOGS;
  gateway = await startTestGateway({
    engine: {
      url: `${engine.url}/{project}`,
      login: 'service',
      service: { name: 'service', password: 'secret' },
      headers: HEADERS,
    },
    cache: { share: 'everyone', engine_permissions_ignored: true },
    projects: { [catalog]: { cubes: { [LIVE[0]]: 'off' } } },
  });
});
afterAll(async () => {
  agent.destroy();
  await gateway.close();
  await engine.close();
});

test('no answer differs from what the engine would say to the very request', async () => {
  const seed = fuzzSeed();
  const below = randomFrom(seed);
  const pick = <T>(list: readonly T[]) => list[below(list.length)] as T;
  const counts = { seed, compared: 0, hits: 0, faults: 0, stored: 0, purges: 0, hitsInSessions: 0 };
  const wrong: unknown[] = [];
  let begun: readonly Begun[] = [];
  let latest: readonly Question[] = [];
  let left = sizes.particularRequests;

  const ownProperties = () =>
    // Few sets of names, so that requests meet, and each of them with one name more or less.
    [
      ...['Timeout', 'ApplicationContext'].filter(() => below(3) === 0),
      ...(below(15) === 0 ? [pick(IGNORED)] : []),
    ]
      .filter((name, i, all) => all.indexOf(name) === i)
      .map((name) => ({ name, value: pick(VALUES) }));

  const nameAskedFor = () => {
    const names = ['ProviderVersion', 'Timeout', 'Timeout', 'ApplicationContext', pick(IGNORED)];
    const name = pick(names);
    const spelt = pick([(one: string) => one, (one: string) => ` ${one.toUpperCase()}\n`, wide]);
    return below(3) === 0 ? spelt(name) : name;
  };

  /** Mostly its usual name. */
  const spelling = (spellings: readonly [string, ...string[]]) =>
    below(2) === 0 ? spellings[0] : pick(spellings);

  const restrictionsOnNames = () => {
    const plain = (...values: readonly string[]): Restriction => ({
      name: 'PropertyName',
      form: 'plain',
      values,
    });
    return pick<() => readonly Restriction[]>([
      () => [],
      () => [plain(nameAskedFor())],
      () => [plain(nameAskedFor())],
      () => [plain(nameAskedFor(), 'ProviderVersion')],
      () => [{ ...plain(nameAskedFor()), form: 'value' }],
      () => [{ ...plain('Time', 'out'), form: 'value' }],
      () => [{ ...plain('ProviderVersion'), name: 'propertyname' }],
    ])();
  };

  const ownHeaders = (): Sent => {
    const values = HEADERS.filter(() => below(4) === 0).map((name) => [name, pick(['a', 'b', ''])]);
    const others = below(15) === 0 ? [[pick(OTHER_SPELLINGS), 'a']] : [];
    const listed = below(15) === 0 ? [['connection', pick(['x-tenant', 'close, X-Tenant'])]] : [];
    return Object.fromEntries([...values, ...others, ...listed]) as Sent;
  };
  /** What of them may reach the engine. */
  const crossing = ({ connection = '', ...headers }: Sent) =>
    Object.fromEntries(
      Object.entries(headers).filter(
        ([name]) => HEADERS.includes(name) && !connection.toLowerCase().includes(name),
      ),
    );

  function anyQuestion(): Question {
    const catalog = spelling(pick(CATALOGS));
    const cube = spelling(pick(CUBES));
    const bodies: readonly ((common: Common) => Buffer)[] = [
      (common) => execute({ ...common, statement: `SELECT FROM [${cube}]` }),
      (common) =>
        discover({
          ...common,
          requestType: 'MDSCHEMA_CUBES',
          restrictions: { ...(narrowed && { CATALOG_NAME: catalog }), CUBE_NAME: cube },
        }),
      (common) => discover({ ...common, requestType: 'DISCOVER_PROPERTIES', restrictions }),
    ];
    const narrowed = below(5) > 0;
    const restrictions = restrictionsOnNames();
    return {
      // Often enough that no sample is without a Fault.
      own: below(20) === 0 ? [{ name: UNKNOWN, value: 'x' }] : ownProperties(),
      catalog: below(6) === 0 ? undefined : catalog,
      project: below(6) === 0 ? `/${encodeURIComponent(spelling(pick(CATALOGS)))}` : '',
      session: below(4) === 0 ? pick(begun) : undefined,
      toolkit: below(4) === 0 ? pick(TOOLKITS) : undefined,
      headers: ownHeaders(),
      body: pick([...bodies, ...bodies.slice(0, 1)]),
    };
  }

  /** One that was asked lately, with one thing changed. */
  function similarQuestion(): Question {
    const before = pick(latest);
    const values = before.own.map(({ name }) => ({ name, value: pick(VALUES) }));
    const changes: readonly Partial<Question>[] = [
      { own: values },
      { own: values },
      { own: ownProperties() },
      { toolkit: pick([undefined, ...TOOLKITS]) },
      { headers: ownHeaders() },
      { session: before.session && pick(begun), own: values },
    ];
    return { ...before, ...pick(changes) };
  }

  async function ask(): Promise<void> {
    const asked = latest.length > 0 && below(3) > 0 ? similarQuestion() : anyQuestion();
    latest = [asked, ...latest.slice(0, 5)];
    const { own, session } = asked;
    // A session lives in the project, and works in the catalog, in which it was begun.
    const path = session === undefined ? asked.project : '';
    const catalog = session === undefined ? asked.catalog : session.catalog;
    const plain = asked.body({
      properties: [...own, ...(catalog === undefined ? [] : [{ name: 'Catalog', value: catalog }])],
      ...(session && { session: { kind: 'in', id: session.id } }),
    });
    const body = asked.toolkit === undefined ? plain : asToolkit(plain, asked.toolkit);
    const { user } = session ?? { user: pick(['alice', 'bob']) };
    const { headers } = asked;
    const got = await askXmla(gateway.url, body, {
      user,
      path: `/mdx/xmla${path}`,
      agent,
      headers,
    });
    const expected = told({ url: `/xmla${path}`, body, headers: crossing(headers) });
    const said = /\((.*?)\)|(unknown property \w+)/su.exec(got.text);
    const text = (said?.[1] ?? said?.[2] ?? got.text)
      .replaceAll('&lt;', '<')
      .replaceAll('&amp;', '&');
    const status = shortStatus(got);
    if (text !== expected) wrong.push({ status, text, expected, headers, body: body.toString() });
    counts.compared += 1;
    if (status === 'hit') counts.hits += 1;
    if (status === 'miss stored') counts.stored += 1;
    if (said?.[2] !== undefined) counts.faults += 1;
    if (session !== undefined && status === 'hit') counts.hitsInSessions += 1;
  }

  async function beginSome(): Promise<void> {
    latest = [];
    begun = await Promise.all(
      ['alice', 'bob', 'alice', 'bob', 'bob', 'alice'].map(async (user, at) => {
        const own = ownProperties().filter(({ name }) => name !== UNKNOWN);
        const catalog = at < 2 ? undefined : CATALOGS[1][0];
        const properties = {
          ...Object.fromEntries(own.map(({ name, value }) => [name, value])),
          ...(catalog !== undefined && { Catalog: catalog }),
        };
        // Often enough that sessions meet which differ in nothing else.
        const headers = { ...ownHeaders(), ...(below(3) > 0 && { 'x-tenant': pick(['a', 'b']) }) };
        const id = await beginSession(gateway.url, { user, properties, agent, headers });
        return { user, catalog, id };
      }),
    );
  }

  async function changeData(): Promise<void> {
    live += 1;
    const at = below(data.length);
    if (below(6) > 0) return;
    data[at] = (data[at] ?? 0) + 1;
    const { status } = await send(gateway.url, {
      path: `/mdx/xmla/${encodeURIComponent(pick(CATALOGS[at] ?? []))}/clearCache`,
      headers: { authorization: basic('ADMIN') },
      agent,
    });
    expect(status).toBe(200);
    counts.purges += 1;
  }

  async function round(size: number): Promise<void> {
    let inRound = size;
    await Promise.all(
      Array.from({ length: CLIENTS }, async () => {
        while (inRound > 0) {
          inRound -= 1;
          await ask();
        }
      }),
    );
  }

  for (let rounds = 0; left > 0 && wrong.length === 0; rounds += 1) {
    if (rounds % 25 === 0) await beginSome();
    await round(Math.min(ROUND, left));
    left -= ROUND;
    await changeData();
    gateway.events.length = 0;
    readings.clear();
  }
  process.stdout.write(`unkeyed input: ${JSON.stringify(counts)}\n`);
  expect({ seed, wrong: wrong.slice(0, 3) }).toEqual({ seed, wrong: [] });
  expect(counts.compared).toBe(sizes.particularRequests);
  expect(counts.hits).toBeGreaterThan(counts.compared / 10);
  expect(counts.hitsInSessions).toBeGreaterThan(counts.compared / 200);
  expect(counts.faults).toBeGreaterThan(0);
}, 3_600_000);

/** The same text in letters of full width. */
function wide(text: string): string {
  return text.replace(/[!-~]/g, (one) => String.fromCharCode(one.charCodeAt(0) + 0xfee0));
}
