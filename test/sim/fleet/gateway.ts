import type { DiscoverRequest } from '../../../src/xmla/request/read-request.ts';
import type { KnownKey, Query } from '../../../src/cache/query.ts';
import type { Purge } from '../../../src/cache/purge/purge.ts';
import type { Candidate } from '../../../src/features/warm/candidates.ts';
import type { WarmLine } from '../../../src/features/warm/lane.ts';
import type { Clock } from '../../../src/common/clock.ts';
import type { Emit, GatewayEvent, Stale } from '../../../src/common/events.ts';
import type { Config } from '../../../src/config/config.ts';
import type { Random } from '../random.ts';
import type { SimulatedTime } from '../time.ts';
import { createClient, type Got } from './client.ts';
import { QUERY_SAMPLE, type SimulatedEngine } from './engine.ts';
import { EVERY_PLACE, type Ledger, type Places, PROJECTS, WATCHED } from './ledger.ts';
import type { Program } from '../program.ts';
import type { Backing } from './backing.ts';

/** What a fleet runs. */
export const FLEET_PARTS = [
  ...(['account', 'cache', 'entries', 'flights', 'health', 'key', 'link'] as const),
  ...(['projects', 'purges', 'shared', 'warm', 'watcher'] as const),
];
export type FleetProgram = Pick<Program, (typeof FLEET_PARTS)[number]>;

/** What a client may ask. */
export interface Question {
  readonly places: Places;
  /** Whose answers may be given for it. */
  readonly identity: string;
  readonly variant: number;
}

const MEMORY = 200_000;
const ACCOUNT = { in_flight: 2 ** 26, queue: 100 };
const TTL = 600_000;
/** Between two polls of a watched source (ms). */
export const EVERY = 2_000;
/** Behind a purge a run of the warm-up begins so late (ms). */
const SETTLE = 100;
/** Between two looks whether one is due (ms). */
const LOOKS = 250;
const WARM = {
  mode: 'auto',
  settle: SETTLE,
  queries: 100,
  concurrency: 2,
  budget: 600_000,
} as const;
const BY_ITSELF = { as: { possible: true, text: 'by itself' } };
/** Clearing calls are made again after so long (ms). */
export const REPEAT_AFTER = 5_000;

const REQUEST: DiscoverRequest = {
  ...{ method: 'Discover', requestType: 'MDSCHEMA_CUBES', restrictions: [], properties: [] },
  ...{ session: { kind: 'none' }, sessionIds: [], sessionToken: false, headers: [], forms: [] },
  ...{ security: false, unexpected: undefined },
};
const nameOf = (place: number) => PROJECTS[place] ?? '';
const placesOf = (stale: Stale): Places =>
  stale === 'everything' ? EVERY_PLACE : [PROJECTS.indexOf(stale.project as 'north')];

const configOf = (lease: number, isShared: boolean) =>
  ({
    cache: {
      ...{ max_entry: 1024 * 1024, lease, ttl: TTL, memory: MEMORY, key_secret: undefined },
      redis: { url: isShared ? ['redis://simulated'] : [], mode: 'standalone' },
    },
    engine: { timeout: 60_000 },
    projects: new Map(),
    limits: { wait: 30_000 },
  }) as unknown as Config;

export type SimulatedGateway = Awaited<ReturnType<typeof openGateway>>;

/** A whole gateway below HTTP: its caches, purges, watcher and warm-up, as the composition root wires them. */
export async function openGateway(options: {
  name: string;
  program: FleetProgram;
  backing: Backing;
  lease: number;
  engine: SimulatedEngine;
  ledger: Ledger;
  time: SimulatedTime;
  random: Random;
}) {
  const { name, program, backing, engine, ledger, time, random } = options;
  const died = Promise.withResolvers<void>();
  const clients = new Set<() => void>();
  let isAlive = true;
  let ahead = 0;
  /** Nothing that was planned happens once the process is dead. */
  const living = (act: () => void) => () => void (isAlive && act());
  const clock: Clock = {
    now: time.clock.now,
    wall: () => time.clock.wall() + ahead,
    after: (ms, act) => time.after(ms, living(act)),
    every: (ms, act) => time.clock.every(ms, living(act)),
  };
  const sleep = (ms: number) => new Promise<void>((resolve) => void clock.after(ms, resolve));
  const counts = { hits: 0, warmed: 0 };
  const { isShared } = backing;

  const heard: Emit[] = [];
  const emit = (event: GatewayEvent) => {
    for (const one of heard) one(event);
  };
  const parts = {
    ...{ clock, sleep, emit, holdMs: 50 },
    random: () => random(1_000_000) / 1_000_000,
    randomBytes: (bytes: number) => Buffer.from(Array.from({ length: bytes }, () => random(256))),
    ...(backing.primary && { primary: backing.primary(program, clock) }),
  };
  const account = program.account.createBodyAccount(() => ACCOUNT, clock);
  const clearing = {
    async clear(stale: Stale) {
      const ok = await engine.clear(placesOf(stale));
      return [{ replica: 'replica', ok }];
    },
    asksAsCaller: () => false,
  };
  const names = { find: () => undefined };
  const config = configOf(options.lease, isShared);
  const create = program.cache.createCache;
  const cache = backing.open
    ? await create(config, parts, account, clearing, names, async (_redis, ground) =>
        (backing.open as NonNullable<Backing['open']>)(ground),
      )
    : await create(config, parts, account, clearing, names);
  const { queryCache, fleet } = cache;
  const purging = program.purges.createPurging(cache.purges, () => REPEAT_AFTER, clock, emit);

  /** A purge that the ledger knows: what it promises counts when it was acknowledged. */
  const noted =
    (through: string): Purge =>
    async (stale, order) => {
      const promised = ledger.promise(placesOf(stale), `${name} by ${through}`);
      const outcome = await purging.purge(stale, order);
      // Nobody hears what a dead process says.
      if (!isAlive) return outcome;
      if (outcome.ok) promised.acknowledged();
      else promised.failed(outcome.failed);
      return outcome;
    };

  function queryOf({ places, identity, variant }: Question, background: boolean): Query {
    const spans = places.length > 1;
    const asked = askedOf(program, spans ? undefined : nameOf(places[0] ?? 0), variant);
    return {
      ...QUERY_SAMPLE,
      parts: { asked, identity, session: null },
      scopes: program.projects.entryScopes(spans ? [] : places.map(nameOf), spans),
      project: spans ? '' : nameOf(places[0] ?? 0),
      session: undefined,
      fresh: false,
      background,
      ask: () => engine.ask(clock, identity, places),
    };
  }

  /** False where the process dies before. */
  const untilDead = (work: Promise<boolean>) =>
    Promise.race([work, died.promise.then(() => false)]);

  /** As a remembered request finds its answer: without its key being made again. */
  const remembered = new Map<string, KnownKey>();

  async function ask(question: Question, how: { fresh?: boolean; leaves?: boolean }): Promise<Got> {
    const word = `${question.identity} ${question.places.join()} ${question.variant}`;
    const known = how.fresh ? undefined : remembered.get(word);
    if (known !== undefined) {
      const brought = await queryCache.bring(known, 1_000);
      const found = queryCache.recall(known, brought);
      if (found !== undefined) return { text: found.answer.body.toString(), how: 'hit recalled' };
      remembered.delete(word);
    }
    const { client, got, leave } = createClient(time, random);
    const query: Query = {
      ...queryOf(question, false),
      fresh: how.fresh === true,
      found: (key) => void remembered.set(word, key),
    };
    clients.add(leave);
    const over = queryCache.answer(query, client);
    over.catch((error: unknown) => ledger.accuse(`the cache of ${name} throws: ${String(error)}`));
    if (how.leaves === true) void time.sleep(random(60)).then(leave);
    return got.finally(() => clients.delete(leave));
  }

  /** Asks ahead, as the line does for a run of the warm-up. */
  const warmLine: WarmLine = {
    forwards: () => false,
    open: ({ cut }) => ({
      async ask({ candidate }) {
        const question = JSON.parse(candidate.digest) as Question;
        const { client, got, leave } = createClient(time, random);
        cut.addEventListener('abort', leave, { once: true });
        void queryCache.answer(queryOf(question, true), client).catch(() => {});
        const { text, how } = await got;
        cut.removeEventListener('abort', leave);
        if (cut.aborted || text === undefined) return [{ result: 'overtaken', ms: 0 }];
        if (how.startsWith('hit')) return [{ result: 'there', ms: 0 }];
        counts.warmed += 1;
        return [{ result: 'stored', ms: 1 }];
      },
      async close() {},
    }),
  };
  const warmUp = program.warm.createWarmUp({
    ...{ id: name, fleet, clock, sleep, emit, line: () => warmLine },
    newId: () => `${name} ${random(2 ** 30)}`,
    candidates: {
      configure() {},
      list: async () => ({ candidates: WORTH.map(candidateOf), beginnings: [] }),
    } as never,
  });
  warmUp.configure({ ...WARM, ...BY_ITSELF, isShared });
  heard.push(warmUp.on);
  clock.every(LOOKS, () => void warmUp.look());

  const closing = new AbortController();
  const watcher = program.watcher.createWatcher({
    name: nameOf(WATCHED),
    watch: { every: EVERY, min_interval: 0 },
    source: 'simulated',
    signature: engine.signature,
    purge: noted('watcher'),
    enter: async () => () => {},
    ...{ fleet, clock, emit },
  });
  async function watch(): Promise<void> {
    await watcher.begin();
    while (!closing.signal.aborted) await sleep(Math.max(100, await watcher.poll(closing.signal)));
  }
  void watch();

  return {
    name,
    link: backing.link,
    counts,
    ask,
    isAlive: () => isAlive,
    /** As clients and hooks ask for it. */
    purge: (stale: Stale, cause: 'clear-cache' | 'hook') =>
      untilDead(noted(cause)(stale, { principal: 'ADMIN', cause }).then(({ ok }) => ok)),
    invalidate: (...order: Parameters<typeof purging.invalidate>) =>
      untilDead(purging.invalidate(...order)),
    isBlind: watcher.isBlind,
    owes: () => cache.owed().length > 0,
    /** The wall clock is set forward, or back. */
    stepClock: (ms: number) => void (ahead += ms),
    /** A reload brings another lease (ms). */
    reload: (lease: number) => cache.configure(configOf(lease, isShared)),
    /** Dies between two turns. */
    kill(): void {
      isAlive = false;
      closing.abort();
      backing.close();
      for (const leave of clients) leave();
      died.resolve();
    },
  };
}

/** Queries that the warm-up asks ahead. */
const WORTH: readonly Question[] = EVERY_PLACE.map((place) => ({
  places: [place],
  identity: 'everyone',
  variant: 0,
}));

function candidateOf(question: Question): Candidate {
  const way = { project: null, query: [], headers: {}, body: '', session: null, part: '' };
  return {
    ...{ digest: JSON.stringify(question), subject: '', project: '', catalogs: [], asks: 2 },
    ...{ last: Number.MAX_SAFE_INTEGER, before: Number.MAX_SAFE_INTEGER, ms: 100, bytes: 10 },
    ...{ users: [], ways: [way] },
  };
}

const made = new WeakMap<FleetProgram, Map<string, Query['parts']['asked']>>();

/** What is asked, made once. */
function askedOf(program: FleetProgram, project: string | undefined, variant: number) {
  const all = made.get(program) ?? new Map<string, Query['parts']['asked']>();
  made.set(program, all);
  const name = `${project} ${variant}`;
  const found = all.get(name);
  if (found !== undefined) return found;
  const asked = program.key.askedOf({
    ...{ engine: 'engine', project: project ?? null, query: [`variant=${variant}`] },
    ...{ userAgentClass: null, accept: 'text/xml', contentType: 'text/xml' },
    ...{ soapAction: '"urn:schemas-microsoft-com:xml-analysis:Discover"', namedHeaders: undefined },
    request: REQUEST,
  });
  all.set(name, asked);
  return asked;
}
