/**
 * Oracle for what DISCOVER_PROPERTIES tells: random questions to gateways in front of engines that answer by all that reaches
 * them, each in its own way. Each answer is held against what the engine would say to the very request at that moment.
 */
import { Agent } from 'node:http';
import { ENGINE_KIND_NAMES, type EngineKind } from '../../../src/common/engine-kinds.ts';
import type { Property, Restriction } from '../../../src/xmla/request/read-request.ts';
import { readEngineRequest } from '../engine-request.ts';
import { discover, execute, type SessionSpec } from '../envelopes.ts';
import { askXmla, send, shortStatus } from '../http-client.ts';
import { randomFrom } from '../mutate.ts';
import { basic, type GatewayProgram, startTestGateway } from '../test-gateway.ts';
import { IGNORED_HERE, type Nature, NATURES, startToldEngine, type ToldEngine } from './engine.ts';

const USERS = ['alice', 'bob'] as const;
const SHARES = ['user', 'everyone', 'roles'] as const;
const CATALOGS = ['Sales', 'Stock'] as const;
const VALUES = ['', '', '10', '3600', 'a b'] as const;
const EVERYWHERE = [
  'DISCOVER_LITERALS',
  'DISCOVER_KEYWORDS',
  'DISCOVER_ENUMERATORS',
  'DISCOVER_SCHEMA_ROWSETS',
] as const;
/** Names that are asked for, most of them often. */
const NAMES = [
  ...['ProviderVersion', 'ProviderVersion', 'DBMSVersion', 'Catalog', 'Catalog', 'UserName'],
  ...[...IGNORED_HERE, ...IGNORED_HERE, 'Format', 'Unheard'],
];
/** Two texts that an engine may read as one. */
const SPLIT = [
  ['Time', 'out'],
  ['Application', 'Context'],
  ['Cata', 'log'],
  ['User', 'Name'],
] as const;
/** Answers of one house: one engine and the gateway in front of it. */
const PER_HOUSE = 250;
/** Houses at one time. */
const AT_ONCE = 4;

interface Begun {
  readonly id: string;
  readonly user: string;
  /** With which it was begun. */
  readonly properties: readonly Property[];
  readonly begun: string;
  /** The last one that was named in it; '' for none. */
  catalog: string;
}

interface Question {
  readonly requestType: string;
  readonly restrictions: readonly Restriction[];
  readonly properties: readonly Property[];
  readonly user: string;
  readonly session: Begun | undefined;
  readonly by: 'envelope' | 'header' | 'both';
  readonly headers: Readonly<Record<string, string>>;
}

export interface Counts {
  compared: number;
  hits: number;
  /** Hits of questions with lists, of questions for ignored properties, and for the current catalog. */
  lists: number;
  ignored: number;
  catalogs: number;
  /** Hits in sessions, and of what is alike everywhere in those that got their catalog later. */
  inSessions: number;
  everywhere: number;
}

type Below = (limit: number) => number;
const pickOf =
  (below: Below) =>
  <T>(list: readonly T[]): T =>
    list[below(list.length)] as T;

/** The same text in letters of full width. */
const wide = (text: string) =>
  text.replace(/[!-~]/g, (one) => String.fromCharCode(one.charCodeAt(0) + 0xfee0));

/** What a house may be drawn with. */
export interface World extends Nature {
  readonly kind: EngineKind;
  readonly share: (typeof SHARES)[number];
}

/**
 * @param given of all houses; the rest is drawn
 * @throws Error at the first answer that its engine would not give
 */
export async function checkToldProperties(
  program: GatewayProgram,
  answers: number,
  seed: number,
  given: Partial<World> = {},
): Promise<Counts> {
  const counts: Counts = {
    ...{ compared: 0, hits: 0, lists: 0, ignored: 0, catalogs: 0, inSessions: 0, everywhere: 0 },
  };
  const agent = new Agent({ keepAlive: true });
  let houses = 0;
  async function keepHouses(): Promise<void> {
    while (houses * PER_HOUSE < answers) {
      houses += 1;
      const own = { seed: seed + houses, answers: Math.min(PER_HOUSE, answers), given };
      await inHouse(program, own, counts, agent);
    }
  }
  try {
    await Promise.all(
      Array.from({ length: AT_ONCE }, () =>
        keepHouses().catch((error: unknown) => {
          houses = Infinity;
          throw error;
        }),
      ),
    );
  } finally {
    agent.destroy();
  }
  return counts;
}

async function inHouse(
  program: GatewayProgram,
  { seed, answers, given }: { seed: number; answers: number; given: Partial<World> },
  counts: Counts,
  agent: Agent,
): Promise<void> {
  const below = randomFrom(seed);
  const pick = pickOf(below);
  const drawn = Object.entries({ kind: ENGINE_KIND_NAMES, share: SHARES, ...NATURES }).map(
    ([name, all]) => [name, pick<unknown>(all)] as const,
  );
  const { kind, share, ...nature } = { ...(Object.fromEntries(drawn) as never as World), ...given };
  const engine = await startToldEngine({ kind, nature, byUser: share === 'user' });
  const gateway = await startTestGateway(
    {
      engine: { url: engine.url, kind, login: 'forward' },
      cache: { share, engine_permissions_ignored: true },
    },
    { sleep: async () => {} },
    [],
    program,
  );
  try {
    if (share === 'roles') await makeRole(gateway.url, agent);
    const where = JSON.stringify({ seed, kind, share, nature });
    await converse({ engine, url: gateway.url, kind, below, agent, counts, where }, answers);
  } finally {
    await gateway.close();
    await engine.close();
  }
}

async function makeRole(url: string, agent: Agent): Promise<void> {
  const contains = USERS.map((name) => ({ type: 'user', name }));
  const { status, text } = await send(url, {
    agent,
    method: 'POST',
    path: '/api/role',
    headers: { authorization: basic('ADMIN'), 'content-type': 'application/json;charset=utf8' },
    body: JSON.stringify({ name: 'analysts', description: '', contains }),
  });
  if (status !== 200) throw new Error(text);
}

interface House {
  readonly engine: ToldEngine;
  readonly url: string;
  readonly kind: EngineKind;
  readonly below: Below;
  readonly agent: Agent;
  readonly counts: Counts;
  readonly where: string;
}

async function converse(house: House, answers: number): Promise<void> {
  const { engine, url, below, agent, counts, where } = house;
  const draw = questions(below);
  const pick = pickOf(below);
  let sessions: Begun[] = [];
  let answered = 0;
  let latest: readonly Question[] = [];

  async function begin(): Promise<Begun> {
    const user = pick(USERS);
    // Often like another one but for values that are not in the key.
    const twin = below(2) === 0 ? sessions[below(6)] : undefined;
    const catalog = twin?.begun ?? (below(2) === 0 ? '' : pick(CATALOGS));
    const drawn = below(2) === 0 ? draw.ignored() : draw.properties();
    const own = twin === undefined ? drawn : draw.others(twin.properties);
    const properties = [...own, ...(catalog === '' ? [] : [{ name: 'Catalog', value: catalog }])];
    const body = execute({ statement: '', properties, session: { kind: 'begin' } });
    const { text } = await askXmla(url, body, { user, agent });
    const [, id = ''] = /SessionId="([^"]*)"/.exec(text) ?? [];
    return { id, user, catalog, begun: catalog, properties: own };
  }

  async function end({ id, user }: Begun): Promise<void> {
    const body = execute({ statement: '', session: { kind: 'end', id } });
    await askXmla(url, body, { user, agent });
    latest = latest.filter(({ session }) => session?.id !== id);
    sessions = sessions.filter((one) => one.id !== id);
  }

  function sent({ requestType, restrictions, properties, session, by, headers }: Question) {
    const inEnvelope: SessionSpec | undefined =
      session !== undefined && by !== 'header' ? { kind: 'in', id: session.id } : undefined;
    const body = discover({
      ...{ requestType, restrictions, properties },
      ...(inEnvelope && { session: inEnvelope }),
    });
    const byHeader =
      session !== undefined && by !== 'envelope' ? { 'x-as-sessionid': session.id } : {};
    return { body, headers: { ...headers, ...byHeader }, byHeader };
  }

  async function ask(question: Question, before?: string): Promise<void> {
    const { user, session, requestType, properties } = question;
    const { body, headers, byHeader } = sent(question);
    const got = await askXmla(url, body, { user, agent, headers });
    // Of its own headers a query gives the engine none but that of the session.
    const read = readEngineRequest(body, { authorization: basic(user), ...byHeader });
    const named = properties.find(({ name }) => name === 'Catalog')?.value ?? '';
    if (session !== undefined && named !== '') session.catalog = named;
    const status = shortStatus(got);
    const rows = /<row>.*<\/row>/su.exec(got.text)?.[0] ?? '';
    const expected = engine.told(read);
    const masked = (text: string) =>
      status === 'hit' ? text : text.replaceAll(/made-\d+/g, 'made');
    const isRight = [expected, before].some(
      (one) => one !== undefined && masked(one) === masked(rows),
    );
    if (got.status !== 200 || /<faultstring>/.test(got.text) || !isRight) {
      const told = { status, text: got.text, expected, user, headers, session, body: `${body}` };
      throw new Error(`a wrong answer in ${where}: ${JSON.stringify(told, null, 1)}`);
    }
    answered += 1;
    counts.compared += 1;
    if (status === 'hit') count(question, requestType);
  }

  function count({ restrictions, session, properties }: Question, requestType: string): void {
    const asked = restrictions.flatMap(({ values }) => values.map((one) => one.trim()));
    const isOfProperties = requestType === 'DISCOVER_PROPERTIES';
    counts.hits += 1;
    if (isOfProperties && restrictions.some(({ form }) => form === 'value')) counts.lists += 1;
    if (asked.some((name) => IGNORED_HERE.includes(name))) counts.ignored += 1;
    if (asked.includes('Catalog')) counts.catalogs += 1;
    if (session === undefined) return;
    counts.inSessions += 1;
    const isInherited =
      session.catalog !== '' && properties.every(({ name }) => name !== 'Catalog');
    if (!isOfProperties && isInherited) counts.everywhere += 1;
  }

  /** A request that names the first catalog is on its way when another asks what is the current one. */
  async function race(): Promise<void> {
    const session = { ...(await begin()) };
    if (session.catalog !== '') return;
    const common = { user: session.user, session, by: 'envelope', headers: {} } as const;
    const plain = { name: 'PropertyName', form: 'plain', values: ['Catalog'] } as const;
    const asks = {
      ...{ ...common, requestType: 'DISCOVER_PROPERTIES', properties: [] },
      restrictions: [plain],
    };
    const mark = `mark-${below(1e9)}`;
    const arrive = engine.delay(mark);
    const naming = discover({
      requestType: 'MDSCHEMA_CUBES',
      restrictions: { CUBE_NAME: mark },
      properties: { Catalog: 'Sales' },
      session: { kind: 'in', id: session.id },
    });
    const named = askXmla(url, naming, { user: session.user, agent });
    // The gateway has noted it by then, or not: both must be right.
    await new Promise((resolve) => void setTimeout(resolve, below(8)));
    const before = engine.told(
      readEngineRequest(sent(asks).body, { authorization: basic(session.user) }),
    );
    await ask(asks, before).finally(arrive);
    await named;
    session.catalog = 'Sales';
    await ask(asks);
    sessions = [session, ...sessions].slice(0, 8);
  }

  /** Asks the same in each session, and without one by each user, twice with other values. */
  async function sweep(): Promise<void> {
    const question = draw.any([]);
    const all = IGNORED_HERE.map((name) => ({ name, value: '' }));
    const withValue = { ...question, properties: draw.others(all) };
    const places = [...sessions, ...USERS.map((user) => ({ user, none: true }))];
    for (const place of places) {
      const isSession = !('none' in place);
      const where = { user: place.user, session: isSession ? place : undefined };
      await ask({ ...question, ...where, properties: [] });
      await ask({ ...withValue, ...where });
      await ask({ ...withValue, ...where, properties: draw.others(withValue.properties) });
    }
  }

  while (answered < answers) {
    while (sessions.length < 6) sessions.push(await begin());
    const chance = below(100);
    if (chance === 0) await end(pick(sessions));
    else if (chance === 1) await race();
    else if (chance < 6) await sweep();
    const question: Question =
      latest.length > 0 && below(6) > 0 ? draw.similar(pick(latest), sessions) : draw.any(sessions);
    latest = [question, ...latest.slice(0, 11)];
    await ask(question);
  }
}

/** Draws questions, and such as differ from another one in little. */
function questions(below: Below) {
  const pick = pickOf(below);

  const properties = (): readonly Property[] =>
    [...IGNORED_HERE, 'Format']
      .filter(() => below(5) === 0)
      .map((name) => ({ name, value: pick(VALUES) }));

  const ignored = (): readonly Property[] => [{ name: pick(IGNORED_HERE), value: pick(VALUES) }];

  /** The same with other values of ignored properties. */
  const others = (own: readonly Property[]): readonly Property[] =>
    own.map((one) => (IGNORED_HERE.includes(one.name) ? { ...one, value: pick(VALUES) } : one));

  const catalogIn = (session: Begun | undefined): readonly Property[] => {
    const known = session?.catalog || pick(CATALOGS);
    const value = below(12) === 0 ? pick([...CATALOGS, '']) : known;
    return below(2) === 0 ? [] : [{ name: 'Catalog', value }];
  };

  const nameAsked = () => {
    const name = pick(NAMES);
    const spell = pick([(one: string) => ` ${one}\n`, wide, (one: string) => one.toUpperCase()]);
    return below(4) === 0 ? spell(name) : name;
  };

  function restrictions(): readonly Restriction[] {
    const plain = (...values: readonly string[]): Restriction => ({
      ...{ name: 'PropertyName', form: 'plain', values },
    });
    const list = (...values: readonly string[]): Restriction => ({
      ...{ name: 'PropertyName', form: 'value', values },
    });
    return pick<() => readonly Restriction[]>([
      () => [plain(nameAsked())],
      () => [plain(nameAsked())],
      () => [plain(nameAsked()), plain(nameAsked())],
      () => [list(nameAsked())],
      () => [list(nameAsked(), nameAsked())],
      () => [list(nameAsked(), nameAsked(), nameAsked())],
      () => [list(...pick(SPLIT))],
      () => [plain(nameAsked()), list(nameAsked(), nameAsked())],
      () => (below(4) === 0 ? [] : [plain('ProviderVersion')]),
      () => [{ ...plain(nameAsked()), name: pick(['propertyname', 'Value']) }],
    ])();
  }

  const headers = (): Question['headers'] =>
    below(6) > 0 ? {} : { [pick(['x-as-activityid', 'x-as-requestid', 'x-timeout'])]: 'a' };

  function any(sessions: readonly Begun[]): Question {
    const session = below(2) === 0 ? undefined : sessions[below(sessions.length || 1)];
    const isOfProperties = below(8) > 0;
    return {
      requestType: isOfProperties ? 'DISCOVER_PROPERTIES' : pick([...EVERYWHERE, 'MDSCHEMA_CUBES']),
      restrictions: isOfProperties ? restrictions() : [],
      properties: [...properties(), ...catalogIn(session)],
      user: session?.user ?? pick(USERS),
      session,
      by: pick(['envelope', 'envelope', 'header', 'both']),
      headers: headers(),
    };
  }

  /** In another session, by another user, or with other values. */
  function similar(question: Question, sessions: readonly Begun[]): Question {
    const { session, properties: own } = question;
    const changed = others(own);
    const other = session && pick(sessions);
    const moved = { session: other, user: other?.user ?? pick(USERS), properties: changed };
    const one = pick<Partial<Question>>([
      moved,
      moved,
      { properties: changed },
      { properties: [...properties(), ...catalogIn(session)] },
      { headers: headers() },
      {},
      {},
      {},
    ]);
    return { ...question, ...one };
  }

  return { any, similar, properties, ignored, others };
}
