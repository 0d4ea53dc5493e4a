import type { Purge } from '../../../src/cache/purge/purge.ts';
import type { Candidate } from '../../../src/features/warm/candidates.ts';
import type { EndingEntry } from '../../../src/features/warm/fill.ts';
import type { WarmLine } from '../../../src/features/warm/lane.ts';
import type { Clock } from '../../../src/common/clock.ts';
import type { Emit, GatewayEvent, Stale } from '../../../src/common/events.ts';
import type { Config } from '../../../src/config/config.ts';
import type { Judge } from '../../../src/line/ports.ts';
import { oneIn, type Random } from '../random.ts';
import type { SimulatedTime } from '../time.ts';
import { createClient, type Got, type Hit } from './client.ts';
import type { Asker, SimulatedEngine } from './engine.ts';
import { EVERY_PLACE, type Ledger, type Places, PROJECTS, WATCHED } from './ledger.ts';
import type { Program } from '../program.ts';
import type { Backing } from './backing.ts';
import { openLine } from './line.ts';
import { createMet, type Met } from './met.ts';
import {
  bodyOf,
  type Control,
  EVERYBODY,
  isUser,
  type Login,
  loginIn,
  OWN_SHARED,
  questionIn,
  type Question,
  QUESTIONS,
  requestOf,
  understood,
  whoseOf,
} from './questions.ts';

/** What a fleet runs. */
export const FLEET_PARTS = [
  ...(['account', 'ahead', 'away', 'believed', 'cache', 'entries', 'errors', 'fill'] as const),
  ...(['flights', 'handler', 'health', 'key', 'link', 'logins', 'principal', 'projects'] as const),
  ...(['purges', 'query', 'replay', 'shared', 'understand', 'warm', 'watch'] as const),
];
export type FleetProgram = Pick<Program, (typeof FLEET_PARTS)[number]>;

/** Of one gateway, until the next reload. Times in ms. */
export interface InForce {
  readonly lease: number;
  readonly ttl: number;
  readonly staleIfError: number;
  readonly timeout: number;
  readonly whenBlind: 'keep' | 'bypass';
  readonly refreshAhead: boolean;
}

/** For how long logins count at all gateways (ms). */
export interface Trust {
  readonly verifiedFor: number;
  readonly believedFor: number;
}

const MEMORY = 200_000;
const ACCOUNT = { in_flight: 2 ** 26, queue: 100 };
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
/** Until a gateway has noted a poll, and until all have read that (ms). */
const NOTED_WITHIN = 700;
const HEARD_WITHIN = 3 * EVERY;
/** Clearing calls are made again after so long (ms). */
export const REPEAT_AFTER = 5_000;

const nameOf = (place: number) => PROJECTS[place] ?? '';
const placesOf = (stale: Stale): Places =>
  stale === 'everything' ? EVERY_PLACE : [PROJECTS.indexOf(stale.project as 'north')];

function configOf(inForce: InForce, isShared: boolean) {
  const { lease, ttl, staleIfError: stale_if_error, timeout, whenBlind } = inForce;
  const engine = { timeout, url: ['simulated'], kind: 'generic' };
  const project = (name: string) => ({
    ...{ cache: 'on', ttl, stale_if_error, functions: [], cubes: new Map(), engine },
    share: OWN_SHARED.includes(name) ? 'user' : 'everyone',
    ...(name === nameOf(WATCHED) && {
      watch: { kind: 'xmla', every: EVERY, min_interval: 0, when_blind: whenBlind },
    }),
  });
  return {
    auth: { provider: 'engine' },
    cache: {
      ...{
        max_entry: 1024 * 1024,
        lease,
        ttl,
        stale_if_error,
        memory: MEMORY,
        key_secret: undefined,
      },
      ...{ share: 'everyone', functions: [], engine_permissions_ignored: true },
      redis: { url: isShared ? ['redis://simulated'] : [], mode: 'standalone' },
    },
    engine,
    projects: new Map(PROJECTS.map((name) => [name, project(name)])),
    limits: { wait: 30_000, body: 1024 * 1024 },
  } as unknown as Config;
}

export type SimulatedGateway = Awaited<ReturnType<typeof openGateway>>;

/** A whole gateway below HTTP: its caches, purges, watcher and warm-up, as the composition root wires them. */
export async function openGateway(options: {
  name: string;
  program: FleetProgram;
  backing: Backing;
  inForce: InForce;
  trust: Trust;
  engine: SimulatedEngine;
  ledger: Ledger;
  time: SimulatedTime;
  random: Random;
  /** Told of a request that no user waits for; what is returned tells of its end. */
  asksAhead: (gateway: { name: string; met: Met }, word: string, user: string) => () => void;
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
  const config = configOf(options.inForce, isShared);
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

  const met = createMet(time.clock.now);
  const away = program.away.createAway(parts);
  const { EngineFailure, GatewayError } = program.errors;
  const asker: Asker = {
    ...{ clock, met, away },
    failure: (reason) => new EngineFailure(reason, 'simulated'),
    overloaded: () => new GatewayError('overloaded', 'simulated'),
  };
  const authenticator = program.logins.createEngineAuthenticator({
    ...{ clock, emit, random: parts.randomBytes, ...options.trust },
    askLeave: async () => async () => 0,
    async tryLogin(authorization) {
      const { user, password } = loginIn(authorization);
      const found = met.checks(authorization);
      const outcome = await engine.logIn(user, password);
      if (isUser(user)) found(outcome);
      else met.refusesMadeUp();
      return outcome;
    },
  });
  const judges = new Set<Judge>();
  const refreshing = program.ahead.createRefreshAhead({
    ...{ clock, fleet, emit, newId: () => `${name} ${random(2 ** 30)}` },
    list: async () => ({ candidates: [], beginnings: [] }),
    line: () => ({ account, patience: () => 30_000, open: openLane }) as never,
  });
  refreshing.configure(options.inForce.refreshAhead);

  /** As the line walks it for a refresh: now and then a user needs the place at the engine. */
  function openLane({ as, cut, since }: Parameters<WarmLine['open']>[0]) {
    const slots = program.fill.createSlots(async (overtake, signal) => {
      signal.throwIfAborted();
      if (oneIn(random, 10)) time.after(random(400), overtake);
      return () => {};
    });
    return {
      async renew({ way, ...entry }: EndingEntry) {
        const question = questionIn(Buffer.from(way.body, 'latin1'));
        const query = await queryOf(question, as.principal.name, slots.leave);
        if (query === undefined) return program.fill.skipped('cache-off');
        const filling = { cache: queryCache, memory: cache.memory, clock, slots, cut, since };
        return program.fill.renew(query, entry, filling);
      },
      close: async () => {},
    };
  }

  const lineUnder = (next: Config) =>
    openLine({
      ...{ program, cache, account, clock, emit, authenticator, judges, engine, asker },
      seen: refreshing,
      asksAhead: options.asksAhead.bind(null, { name, met }),
      config: next,
    });
  let line = lineUnder(config);
  const inForce = [{ ...options.inForce, until: Infinity }];

  /** False where the process dies before. */
  const untilDead = (work: Promise<boolean>) =>
    Promise.race([work, died.promise.then(() => false)]);

  /** One request. @param how.heard told of an answer that was kept, in the turn that sends it */
  async function ask(
    question: Question,
    login: Login,
    how: { control: Control; leaves: boolean; heard: (hit: Hit) => void },
  ): Promise<Got> {
    const request = requestOf(question, login, how.control);
    const { client, got, leave } = createClient({ time, random, request, heard: how.heard });
    clients.add(leave);
    line.handle(request, client);
    if (how.leaves) void time.sleep(random(60)).then(leave);
    return got.finally(() => clients.delete(leave));
  }

  /** As the line makes it of a request of that user. */
  async function queryOf(
    question: Question,
    user: string,
    admitted?: () => undefined | (() => void),
  ) {
    const [place] = question.places;
    const project = question.places.length > 1 ? undefined : nameOf(place ?? 0);
    const to = line.destinationFor(project, user);
    const destination = { ...to, addressee: { ...to.addressee, admitted } };
    const body = bodyOf(question);
    const asked = understood(program, body);
    const query = await line.queryOf({
      ...{ asked, destination, principal: program.principal.principalOf(user), body },
      ...{ session: undefined, fresh: false },
    });
    return typeof query === 'string' ? undefined : query;
  }

  /** Asks ahead, as the line does for a run of the warm-up. */
  const warmLine: WarmLine = {
    forwards: () => false,
    open: ({ cut }) => ({
      async ask({ candidate }) {
        const question = QUESTIONS[Number(candidate.digest)] as Question;
        const { client, got, leave } = createClient({ time, random });
        cut.addEventListener('abort', leave, { once: true });
        const query = await queryOf(question, EVERYBODY);
        if (query === undefined) return [{ result: 'overtaken', ms: 0 }];
        void queryCache.answer({ ...query, background: true }, client).catch(() => {});
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
      list: async () => ({ candidates: CANDIDATES, beginnings: [] }),
    } as never,
  });
  warmUp.configure({ ...WARM, ...BY_ITSELF, isShared });
  heard.push(warmUp.on);
  clock.every(LOOKS, () => void warmUp.look());

  const watch = program.watch.watch(
    { fleet, clock, emit, judges, purge: noted('watcher') } as never,
    () => () => engine.signature(name),
  );
  watch.configure?.(config);

  return {
    name,
    link: backing.link,
    breakOne: backing.breakOne,
    counts,
    ask,
    isAlive: () => isAlive,
    /** As clients and hooks ask for it. */
    purge: (stale: Stale, cause: 'clear-cache' | 'hook') =>
      untilDead(noted(cause)(stale, { principal: 'ADMIN', cause }).then(({ ok }) => ok)),
    invalidate: (...order: Parameters<typeof purging.invalidate>) =>
      untilDead(purging.invalidate(...order)),
    met,
    /** Whether the latest poll of its watcher has failed, and it has had the time to hear of that. */
    isBlindFor(places: Places): boolean {
      const { by, at, failingSince } = engine.polled();
      if (failingSince === undefined || !places.includes(WATCHED)) return false;
      const [since, heardWithin] = by === name ? [at, NOTED_WITHIN] : [failingSince, HEARD_WITHIN];
      return time.clock.now() - since > heardWithin && !backing.link.failedSince(since - LOOKS);
    },
    /** What was in force at any moment since then (ms). */
    inForceSince: (since: number) => inForce.filter(({ until }) => until >= since),
    /** The wall clock is set forward, or back. */
    stepClock: (ms: number) => void (ahead += ms),
    reload(next: InForce): void {
      const reloaded = configOf(next, isShared);
      const now = time.clock.now();
      for (const one of inForce) one.until = Math.min(one.until, now);
      inForce.push({ ...next, until: Infinity });
      cache.configure(reloaded);
      line = lineUnder(reloaded);
      refreshing.configure(next.refreshAhead);
      watch.configure?.(reloaded);
    },
    /** Dies between two turns. */
    kill(): void {
      isAlive = false;
      void authenticator.close();
      void watch.close?.();
      void refreshing.close();
      backing.close();
      for (const leave of clients) leave();
      died.resolve();
    },
  };
}

/** Numbers of the queries that the warm-up asks ahead: of single projects that all share. */
const WORTH = QUESTIONS.keys().filter((number) => {
  const { places, variant } = QUESTIONS[number] as Question;
  return variant === 0 && places.length === 1 && whoseOf('', places) === EVERYBODY;
});
const CANDIDATES = WORTH.map(candidateOf).toArray();

function candidateOf(number: number): Candidate {
  const way = { project: null, query: [], headers: {}, body: '', session: null, part: '' };
  return {
    ...{ digest: String(number), subject: '', project: '', catalogs: [], asks: 2 },
    ...{ last: Number.MAX_SAFE_INTEGER, before: Number.MAX_SAFE_INTEGER, ms: 100, bytes: 10 },
    ...{ users: [], ways: [way] },
  };
}
