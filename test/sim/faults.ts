import type { Replacement } from './mutants.ts';
import { FLEET, LOOK_UPS, REQUESTS, ROLES } from './simulations.ts';
import { type Simulation, within } from './simulation.ts';

/** A fault, and the worlds that show it best. */
export interface Fault {
  readonly replacements: readonly Replacement[];
  readonly simulation: Simulation;
  /** The first seed that is tried: one unless given. Soon afterwards it is found. */
  readonly seed?: number;
}

/** One place of a source, with something else in it. */
const instead = (file: string, find: string, put = ''): readonly Replacement[] => [
  { file, find, put },
];

const REDIS = { form: 'redis' } as const;
/** Without announcements there is nothing but epochs and leases. */
const DEAF = { troubles: ['announcements are lost'] };
const WORKERS = { ...DEAF, form: 'workers', lease: 200 } as const;
/** What a worker is told comes late. */
const LATE = { hopMs: 20, slowOneIn: 2, slowMs: 200, loseOneIn: 0 };
const KEEPS = `memory.set(key, latest, digests(), query.fresh ? 'fresh' : how);`;

const CACHE = 'cache/cache.ts';
const FILL = 'cache/fill.ts';
/** The engine comes and goes … */
const COMES_AND_GOES = {
  form: 'redis',
  troubles: ['the engine is away', 'the engine breaks off', 'the engine fails', 'a reload'],
  timeout: 1_500,
} as const;
/** … while entries end soon and are kept for long. */
const AWAY = { ...COMES_AND_GOES, ttl: 1_000, staleIfError: 3_600_000 } as const;
/** Entries of a slow engine end while few loads purge them. */
const AHEAD = {
  ...({ form: 'redis', ttl: 2_000, engineMs: 300, loaders: 1, timeout: 60_000 } as const),
  troubles: [],
};
const REFRESH = 'features/warm/refresh-ahead.ts';
/** Passwords change, and no login counts for long. */
const LOGINS = {
  troubles: ['passwords change', 'the engine is away'],
  trust: { verifiedFor: 1_500, believedFor: 5_000 },
};
const UNNOTED = 'freshness/unnoted.ts';
const SESSIONS = 'sessions/sessions.ts';
const LEASES = 'common/leases.ts';
const AS_IT_IS: Replacement = {
  file: UNNOTED,
  find: `    await store.session(name, { do: 'put', token, data: record, dirty: true });`,
  put: `    await store.session(name, { do: 'claim', token });
    await store.session(name, { do: 'put', token, data: record, dirty: record.dirty });`,
};

/** The faults that the simulations have to find. */
export const FAULTS: Readonly<Record<string, Fault>> = {
  'the epochs are captured after the fetch': {
    replacements: instead(
      'cache/cache.ts',
      KEEPS,
      `const late = parts.epochs.held(query.scopes);
    const lateKey = late === undefined ? key : queryKey(query.parts, late);
    memory.set(lateKey, latest, digests(), query.fresh ? 'fresh' : how);`,
    ),
    simulation: FLEET,
    seed: 3,
  },
  'a run of the warm-up outlives a purge, and what it read before is kept under the epochs behind it':
    {
      replacements: [
        { file: 'features/warm/warm-up.ts', find: `runs.running()?.cut('purge');`, put: `` },
        {
          file: 'cache/cache.ts',
          find: KEEPS,
          put: `const late = query.background ? parts.epochs.held(query.scopes) : undefined;
    const lateKey = late === undefined ? key : queryKey(query.parts, late);
    memory.set(lateKey, latest, digests(), query.fresh ? 'fresh' : how);`,
        },
      ],
      simulation: within(FLEET, { ...REDIS, troubles: [], engineMs: 300, clients: 4, lease: 100 }),
      seed: 3,
    },
  'a purge does not wait for the lease': {
    replacements: instead(
      'cache/purge/purge.ts',
      `if (lease > 0) await options.sleep(lease * LEASE_MARGIN);`,
      ``,
    ),
    simulation: within(FLEET, { ...DEAF, ...REDIS }),
  },
  'entries in memory do not carry epochs': {
    replacements: [
      {
        file: 'cache/key.ts',
        find: "  return hash('sha512-256', `${epochs.keySecret}\\0${encoded}`, 'base64url');",
        put: `  const digest = (text: string) => hash('sha512-256', epochs.keySecret + text, 'base64url');
  const key = digest(encoded);
  (globalThis.bareKeys ??= new Map()).set(key, digest(JSON.stringify([parts.asked.hash, ...others.slice(0, -1)])));
  return key;`,
      },
      {
        file: 'cache/memory-tier.ts',
        find: `new LRUCache<string, MemoryEntry>({`,
        put: `new (class extends LRUCache<string, MemoryEntry> {
    override get = (key: string) => super.get(globalThis.bareKeys.get(key) ?? key);
    override peek = (key: string) => super.peek(globalThis.bareKeys.get(key) ?? key);
    override set = (key: string, entry: MemoryEntry) => super.set(globalThis.bareKeys.get(key) ?? key, entry);
  })({`,
      },
    ],
    simulation: FLEET,
    seed: 5,
  },
  'a purge shares one that began before it came': {
    replacements: [
      {
        file: 'cache/purge/purge.ts',
        find: `return begin(acted).finally(acted);`,
        put: `const run = begin(acted).finally(acted).finally(() => begun.delete(key));
    begun.set(key, run);
    return run;`,
      },
      {
        file: 'cache/purge/purge.ts',
        find: `  function start(key: string, begin: Begin<T>): Promise<T> {`,
        put: `  const begun = new Map<string, Promise<T>>();
  function start(key: string, begin: Begin<T>): Promise<T> {`,
      },
      {
        file: 'cache/purge/purge.ts',
        find: `if (!acting.has(key)) return start(key, begin);`,
        put: `if (acting !== undefined) return begun.get(key) ?? start(key, begin);`,
      },
    ],
    simulation: FLEET,
    seed: 2,
  },
  'a watcher forgets the second purge': {
    replacements: instead(
      'features/watch/watcher.ts',
      `due: note.due || (same === SETTLED && note.same < SETTLED)`,
      `due: note.due`,
    ),
    simulation: within(FLEET, { steps: 200, troubles: [] }),
  },
  'a watcher takes a purge that did not hold for done': {
    replacements: instead(
      'features/watch/watcher.ts',
      `if (ok) note = { ...note, due: false, purged };`,
      `note = { ...note, due: false, purged };
      if (ok) return every;`,
    ),
    simulation: within(FLEET, { steps: 200, troubles: [] }),
  },
  'a hit does not ask whether its tokens are in force': {
    replacements: [
      {
        file: 'cache/cache.ts',
        find: `if (captured === undefined || !epochs.areCurrent(captured)) return undefined;`,
        put: `if (captured === undefined) return undefined;`,
      },
    ],
    simulation: FLEET,
    seed: 3,
  },
  'engines clear their caches behind the new tokens': {
    replacements: instead(
      'cache/purge/purge.ts',
      `      const cleared = clears ? await engineClearing.clear(stale, authorization) : [];
      return { id: run, engines: cleared, passed: await renewForAll(scopes, run, acted) };`,
      `      const passed = await renewForAll(scopes, run, acted);
      const cleared = clears ? await engineClearing.clear(stale, authorization) : [];
      return { id: run, engines: cleared, passed };`,
    ),
    simulation: FLEET,
    seed: 2,
  },
  'without epochs a request joins a flight that began before a purge': {
    replacements: instead(
      'cache/cache.ts',
      `captured === undefined ? purgeTakes : undefined;`,
      `undefined;`,
    ),
    simulation: within(FLEET, { ...REDIS, troubles: ['rough links', 'a link is away'] }),
    seed: 2,
  },
  'a change is not dropped behind it': {
    replacements: instead(
      'compose/purges.ts',
      `    const { ok } = await drop(stale);`,
      `    const ok = true;`,
    ),
    simulation: FLEET,
  },
  'a worker uses epochs after its lease': {
    replacements: instead(
      'common/leases.ts',
      `return now - start.now < length && wall >= start.wall && wall - start.wall < length;`,
      `return now - start.now < 100 * length && wall >= start.wall;`,
    ),
    simulation: within(FLEET, WORKERS),
    seed: 3,
  },
  'a purge of workers does not wait for the lease': {
    replacements: instead(
      'cache/purge/purge.ts',
      `if (lease > 0) await options.sleep(lease * LEASE_MARGIN);`,
      ``,
    ),
    simulation: within(FLEET, WORKERS),
  },
  'the primary process forgets the leases of all workers but the one that asks': {
    replacements: instead(
      'freshness/memory-store.ts',
      `[leases.longest(), leases.longest(holder.id)]`,
      `[holder.lease, leases.longest(holder.id)]`,
    ),
    simulation: within(FLEET, { ...DEAF, form: 'workers' }),
  },
  'a worker counts its lease from the answer': {
    replacements: instead(
      'common/leases.ts',
      `      const since = begin();
      using watching = watch(names);
      try {
        const reply = await ask();`,
      `      using watching = watch(names);
      try {
        const reply = await ask();
        const since = begin();`,
    ),
    simulation: within(FLEET, {
      ...WORKERS,
      troubles: [...DEAF.troubles, 'rough links'],
      links: LATE,
      lease: 100,
    }),
    seed: 2,
  },
  'a session that begins while Redis is away is kept, and noted, as a clean one': {
    replacements: [
      ...instead(SESSIONS, `{ ...data, dirty: true, version`, `{ ...data, dirty: false, version`),
      AS_IT_IS,
    ],
    simulation: REQUESTS,
  },
  'a session that begins while Redis is away is not noted': {
    replacements: instead(UNNOTED, `    await note(session);\n`),
    simulation: REQUESTS,
    seed: 11,
  },
  'a name that is taken when Redis is back stays what it was': {
    replacements: instead(
      UNNOTED,
      `    const { version } = record;\n`,
      `    const { version } = record;
    if ((await store.session(name, { do: 'peek' })).record !== undefined) return;\n`,
    ),
    simulation: within(REQUESTS, { weather: 'outages' }),
    seed: 3,
  },
  'a session that Redis has lost is noted as it was known last': {
    replacements: [
      ...instead(SESSIONS, `{ ...last, settles, dirty: true };`, `{ ...last, settles };`),
      AS_IT_IS,
    ],
    simulation: REQUESTS,
  },
  'a session that Redis has lost is noted without a wait for the lease of others': {
    replacements: instead(UNNOTED, `    if (shared) await sleep(lease * LEASE_MARGIN);\n`),
    simulation: within(REQUESTS, { weather: 'restarts' }),
    seed: 6,
  },
  'a catalog that another request has noted goes to the engine before the lease of others is over':
    {
      replacements: instead(
        'line/session-step.ts',
        `  if (named !== undefined) await sessions.settled(named);\n`,
      ),
      simulation: within(REQUESTS, { weather: 'beginnings' }),
      seed: 6,
    },
  'a session whose id is given out again does not wait for the lease of others': {
    replacements: instead(
      SESSIONS,
      `await waitOut((await change(key, put)).lease, sleep);`,
      `await change(key, put);`,
    ),
    simulation: REQUESTS,
    seed: 5_000,
  },
  'a change does not wait for the lease of others': {
    replacements: instead(SESSIONS, `if (lease > 0) await sleep(lease * LEASE_MARGIN);`),
    simulation: LOOK_UPS,
  },
  'a change of the catalog does not wait for the lease of others': {
    replacements: instead(SESSIONS, `        await waitOut(lease, sleep);\n`),
    simulation: LOOK_UPS,
  },
  'a change of all sessions does not wait for the lease of others': {
    replacements: instead(SESSIONS, `      await waitOut(renewed.others, sleep);\n`),
    simulation: LOOK_UPS,
  },
  'a change of all sessions leaves what its gateway holds': {
    replacements: instead(SESSIONS, `      known.forget('all');\n`),
    simulation: LOOK_UPS,
    seed: 3,
  },
  'a lease is waited out with no more than its length': {
    replacements: instead(LEASES, `LEASE_MARGIN = 1.1;`, `LEASE_MARGIN = 1;`),
    simulation: within(LOOK_UPS, { faults: ['skewed clocks'] }),
  },
  'a lease is counted from the answer': {
    replacements: instead(
      LEASES,
      `      const since = begin();
      using watching = watch(names);
      try {
        const reply = await ask();`,
      `      using watching = watch(names);
      try {
        const reply = await ask();
        const since = begin();`,
    ),
    simulation: within(LOOK_UPS, { faults: ['slow links'] }),
    seed: 8,
  },
  'a record is used after its lease': {
    replacements: instead(
      LEASES,
      `return now - start.now < length && wall >= start.wall && wall - start.wall < length;`,
      `return now - start.now < 9 * length && wall >= start.wall;`,
    ),
    simulation: LOOK_UPS,
  },
  'a catalog that the store does not confirm is taken to the engine': {
    replacements: instead(SESSIONS, `return dirty([key]);`, `return true;`),
    simulation: within(LOOK_UPS, { faults: ['outages'] }),
  },
  'a catalog that another gateway has noted is not waited for': {
    replacements: instead(SESSIONS, `      if (left > 0) await sleep(left);\n`),
    simulation: LOOK_UPS,
  },
  'a change of a session that others may know does not ask for their leases': {
    replacements: instead(UNNOTED, `(isRenewal && !shared)`, `isRenewal`),
    simulation: within(LOOK_UPS, { form: 'redis', faults: ['restarts'] }),
    seed: 4,
  },
  'the primary process does not note who uses a session': {
    replacements: instead(
      'freshness/memory-store.ts',
      `    if (!record.dirty) session.holders.note(holder.id, holder.lease);\n`,
    ),
    simulation: within(LOOK_UPS, { form: 'workers' }),
  },
  'the primary process lets the second of two catalogs pass': {
    replacements: instead(
      'freshness/memory-store.ts',
      ` else if (!isSameWork(session.data, call.data)) session.renewed = true;`,
    ),
    simulation: within(LOOK_UPS, { form: 'workers' }),
    seed: 2,
  },
  'what is held of a session is used while its catalog is being noted': {
    replacements: instead(SESSIONS, `    taking.set(key, over);\n`),
    simulation: within(LOOK_UPS, {
      form: 'workers',
      gateways: 2,
      actors: 16,
      faults: ['slow links'],
    }),
  },
  'the reply of a read counts that a change has overtaken': {
    replacements: instead(
      LEASES,
      `const taken = watching.overtaken ? undefined : take(reply, since);`,
      `const taken = take(reply, since);`,
    ),
    simulation: within(LOOK_UPS, { form: 'redis', faults: ['reordered messages', 'slow links'] }),
    seed: 3,
  },
  'the reply of a change counts that another one has overtaken': {
    replacements: instead(
      SESSIONS,
      `if (reply.record === undefined || !overtaken) keep(key, reply, since);`,
      `keep(key, reply, since);`,
    ),
    simulation: within(LOOK_UPS, { form: 'redis', faults: ['reordered messages', 'slow links'] }),
    seed: 43,
  },
  'what a gateway knows of a session that Redis has lost does not count': {
    replacements: instead(
      SESSIONS,
      `if (last === undefined || last.incarnation === reply.incarnation) return reply;`,
      `if (last === undefined || reply !== undefined) return reply;`,
    ),
    simulation: within(REQUESTS, { weather: 'restarts' }),
  },
  'an old answer is taken under the epochs of before the failure': {
    replacements: [
      {
        file: CACHE,
        find: `async function failed({ query, client }: Asked, error: unknown): Promise<void> {`,
        put: `async function failed(lookup: Asked, error: unknown): Promise<void> {
    const { query, client } = lookup;
    const past = error instanceof EngineFailure ? await query.ifError?.() : undefined;
    const old = past && memory.get(lookup.key, true, clock.wall(), past());
    const isOver = old && old.requestedAt + old.lifetime <= clock.wall();
    if (isOver && !client.signal.aborted) return found.replay(old, 'engine-away', lookup);`,
      },
    ],
    simulation: within(FLEET, AWAY),
  },
  'an old answer is given though the watcher of its project is blind': {
    replacements: instead(
      'features/watch/watch.ts',
      `const barred = isOld ? unseen : blind;`,
      `const barred = blind;`,
    ),
    simulation: within(FLEET, AWAY),
  },
  'behind a failure of the engine the key is not made anew': {
    replacements: [
      {
        file: CACHE,
        find: `async function failed({ query, client }: Asked, error: unknown): Promise<void> {`,
        put: `async function failed({ query, client, key }: Asked, error: unknown): Promise<void> {`,
      },
      {
        file: CACHE,
        find: `answer(query, client, error) :`,
        put: `answer(query, client, error, key) :`,
      },
      {
        file: CACHE,
        find: `failure?: EngineFailure): Promise<void> {`,
        put: `failure?: EngineFailure, before?: string): Promise<void> {`,
      },
      {
        file: CACHE,
        find: `...keys.nameOf(query.parts, captured) };
      const { key } = lookup;`,
        put: `...keys.nameOf(query.parts, captured), ...(before && { key: before }) };
      const { key } = lookup;`,
      },
    ],
    simulation: within(FLEET, AWAY),
  },
  'a purge does not reach what is kept past its ttl': {
    replacements: [
      {
        file: CACHE,
        find: `if (failure !== undefined && past <= 0) continue;`,
        put: `if (failure !== undefined && past <= 0) continue;
        const bare = JSON.stringify([query.parts.asked.hash, query.parts.identity]);
        const old = past > 0 ? memory.kept.get(bare) : undefined;
        const isOver = old && old.requestedAt + old.lifetime <= clock.wall();
        if (isOver) return found.replay(old, 'engine-away', lookup);`,
      },
      {
        file: CACHE,
        find: `memory.set(key, latest, digests(), query.fresh ? 'fresh' : how);`,
        put: `memory.set(key, latest, digests(), query.fresh ? 'fresh' : how);
    (memory.kept ??= new Map()).set(JSON.stringify([query.parts.asked.hash, query.parts.identity]), latest);`,
      },
      {
        file: CACHE,
        find: `  const found = createFinding(parts);`,
        put: `  const found = createFinding(parts);
  memory.kept = new Map();`,
      },
    ],
    simulation: within(FLEET, AWAY),
  },
  'an old answer follows bytes of a new one': {
    replacements: [
      {
        file: FILL,
        find: `return out.fail(state.breakOff(error, abort.signal.aborted));`,
        put: `return out.fail(state.breakOff(error, abort.signal.aborted), failed);`,
      },
      {
        file: FILL,
        find: `    fail(error: unknown): void {
      cancel();`,
        put: `    fail(error: unknown, failed: (error: unknown) => void): void {
      cancel();`,
      },
      {
        file: FILL,
        find: `      held = undefined;
      client.fail(error);`,
        put: `      const isOut = held === undefined;
      held = undefined;
      if (isOut) failed(new EngineFailure('engine-unreachable', BROKEN_OFF));
      else client.fail(error);`,
      },
      {
        file: FILL,
        find: `import { GatewayError } from '../common/errors.ts';`,
        put: `import { EngineFailure, GatewayError } from '../common/errors.ts';`,
      },
    ],
    simulation: within(FLEET, { ...AWAY, troubles: ['the engine breaks off'] }),
  },
  'an answer that broke off counts as a failure of the engine': {
    replacements: instead(
      CACHE,
      `error instanceof EngineFailure && query.ifError`,
      `error instanceof GatewayError && query.ifError`,
    ).concat(
      instead(
        FILL,
        `      held = undefined;
      client.fail(error);`,
        `      const isOut = held === undefined;
      held = undefined;
      if (isOut) client.fail(error);
      else failed(error);`,
      ),
      instead(
        FILL,
        `  clock: Clock,
  holdMs = HOLD_MS,`,
        `  clock: Clock,
  holdMs = HOLD_MS,
  failed,`,
      ),
      instead(
        FILL,
        `state.outcome, clock, parts.holdMs);`,
        `state.outcome, clock, parts.holdMs, failed);`,
      ),
    ),
    simulation: within(FLEET, AWAY),
  },
  'a Fault counts as a failure of the engine': {
    replacements: instead(
      CACHE,
      `    if (landed.kind === 'refused') client.waits(clock.now() - since);`,
      `    if (landed.kind === 'refused') return failed(lookup, new EngineFailure('engine-unreachable', ''));`,
    ),
    simulation: within(FLEET, {
      ...AWAY,
      troubles: ['the engine fails'],
      engineMs: 300,
      clients: 24,
    }),
  },
  'a full queue counts as a failure of the engine': {
    replacements: instead(
      CACHE,
      `error instanceof EngineFailure && query.ifError`,
      `error instanceof GatewayError && query.ifError`,
    ),
    simulation: within(FLEET, AWAY),
    seed: 5,
  },
  'an old answer is judged by the ttl with which it was kept': {
    replacements: instead(
      CACHE,
      `    const left = timeLeft(found, ttl, wall);
    if (left + past`,
      `    const left = found.requestedAt + found.lifetime - wall;
    if (left + past`,
    ),
    simulation: within(FLEET, { ...COMES_AND_GOES, staleIfError: 3_600_000 }),
  },
  'an old answer is judged by no stale_if_error but that it is kept': {
    replacements: instead(
      CACHE,
      `const past = pastTtl?.() ?? 0;`,
      `const past = (pastTtl?.() ?? 0) && 1e9;`,
    ),
    simulation: within(FLEET, { ...COMES_AND_GOES, ttl: 1_000 }),
    seed: 5,
  },
  'an old answer is given to who wants a new one': {
    replacements: [
      ...instead(
        'line/handler.ts',
        `control === 'none' && query.staleIfError > 0`,
        `query.staleIfError > 0`,
      ),
      ...instead(CACHE, `!query.fresh && (failure`, `(failure`),
      ...instead(
        CACHE,
        `      if (!query.fresh) {
        const isAsked`,
        `      if (!query.fresh || isLate) {
        const isAsked`,
      ),
    ],
    simulation: within(FLEET, AWAY),
  },
  'an old answer is given though its login has ended': {
    replacements: [
      ...instead(
        'line/replay.ts',
        `    const isRight = () => proof !== undefined &&`,
        `    const isRight = () => true ||`,
      ),
      ...instead(
        'line/replay.ts',
        `if (!head.login.countsForHits()) return false;`,
        `if (!isOld && !head.login.countsForHits()) return false;`,
      ),
    ],
    simulation: within(FLEET, { ...AWAY, ...LOGINS }),
    seed: 3,
  },
  'an engine that is away is never tried again': {
    replacements: instead(
      'engine/away.ts',
      `clock.now() - triedAt < TRY_MS;`,
      `triedAt <= clock.now();`,
    ),
    simulation: within(FLEET, AWAY),
  },
  'every request tries an engine that is away': {
    replacements: instead(
      'engine/away.ts',
      `clock.now() - triedAt < TRY_MS;`,
      `clock.now() < triedAt;`,
    ),
    simulation: within(FLEET, AWAY),
    seed: 9,
  },
  'a believed login is good for all': {
    replacements: instead(
      'line/handler.ts',
      `const failure = await check().then(() => undefined, asEngineFailure);`,
      `const failure = undefined;`,
    ),
    simulation: within(FLEET, LOGINS),
  },
  'a login is believed from its last use': {
    replacements: instead(
      'auth/verified-credentials.ts',
      `verifiedFor > 0 && clock.now() < checkedAt + believedFor;`,
      `verifiedFor > 0 && clock.now() < usedAt + believedFor;`,
    ).concat(
      instead(
        'auth/verified-credentials.ts',
        `const isBelieved = ({ checkedAt }: Verified) =>`,
        `const isBelieved = ({ usedAt }: Verified) =>`,
      ),
      instead(
        'auth/verified-credentials.ts',
        `countsForHits: () => isStill() && (isVerified(entry) || isBelieved(entry)),`,
        `countsForHits: () => isStill() && (isVerified(entry) || isBelieved(entry)) && (entry.usedAt = clock.now()) > 0,`,
      ),
    ),
    simulation: within(FLEET, { ...AWAY, ...LOGINS }),
  },
  'a wrong password leaves the login as it was': {
    replacements: instead(
      'auth/authenticator.ts',
      `if (outcome === 'wrong') verified.forget(digest);`,
    ),
    simulation: within(FLEET, LOGINS),
  },
  'a refresh begins without tokens': {
    replacements: instead(
      CACHE,
      KEEPS,
      `const late = lookup.after === undefined ? undefined : parts.epochs.held(query.scopes);
    const lateKey = late === undefined ? key : queryKey(query.parts, late);
    memory.set(lateKey, latest, digests(), query.fresh ? 'fresh' : how);`,
    ).concat(
      instead(
        CACHE,
        `function keep({ key, digests, query }: Lookup, latest`,
        `function keep(lookup: Lookup, latest`,
      ),
      instead(
        CACHE,
        `    unshareable.forget(key);
    // A later`,
        `    const { key, digests, query } = lookup;
    unshareable.forget(key);
    // A later`,
      ),
    ),
    simulation: within(FLEET, AHEAD),
    seed: 3,
  },
  'a refresh that failed lengthens the entry': {
    replacements: instead(
      CACHE,
      `if (lookup.key === key) await leadAnew(lookup);`,
      `if (lookup.key === key) await leadAnew(lookup);
      const kept = memory.get(key);
      const longer = { ...kept, requestedAt: clock.wall() };
      if (kept?.requestedAt === after) memory.set(key, longer, lookup.digests(), 'usual');`,
    ),
    simulation: within(FLEET, {
      ...AHEAD,
      timeout: 1_500,
      troubles: ['the engine is away', 'the engine breaks off'],
    }),
  },
  'a refresh is begun for a believed login': {
    replacements: [
      ...instead('line/replay.ts', `else if (recalled.ending) {`, `if (recalled.ending) {`),
      ...instead(REFRESH, `      if (!login?.counts()) return;\n`),
      ...instead(REFRESH, `if (!isOn || !login?.counts()) return`, `if (!isOn) return`),
    ],
    simulation: within(FLEET, { ...AHEAD, timeout: 1_500, ...LOGINS }),
  },
  'two gateways refresh one entry': {
    replacements: instead(
      REFRESH,
      `fleet.hold(task, life).catch(lost);`,
      `fleet.hold(task, life).then(() => true, lost);`,
    ),
    simulation: within(FLEET, AHEAD),
    seed: 2,
  },
  'a refresh does not look for that of another gateway': {
    replacements: instead(
      'features/warm/fill.ts',
      `if (await cache.takeLater(known, after)) return`,
      `if (false) return`,
    ),
    simulation: within(FLEET, { ...AHEAD, ttl: 5_000 }),
  },
  // Not found by 90,000 answers and 300,000 look-ups: that an old answer does not ask in the turn that sends it whether its
  // tokens are in force (see test/unit/cache/cache/stale-answers.test.ts), that a purge does not ask whether Redis was replaced
  // meanwhile, that what is made dirty while it begins begins as clean, and that the primary process begins what was dirty as
  // clean. The last one is in the contract of session stores.
  'a change of a role does not wait for the lease of others': {
    replacements: [
      {
        file: 'api/roles.ts',
        find: `    if (lease > 0) await sleep(lease * LEASE_MARGIN);\n`,
        put: ``,
      },
    ],
    simulation: ROLES,
  },
  'a change that an earlier attempt has made is answered at once': {
    replacements: [
      {
        file: 'api/roles.ts',
        find: `if (!refused || soAlready.includes(result)) await outlive();`,
        put: `if (!refused) await outlive();`,
      },
    ],
    simulation: ROLES,
  },
  'a lease of roles is waited out with no more than its length': {
    replacements: [
      { file: 'common/leases.ts', find: `LEASE_MARGIN = 1.1;`, put: `LEASE_MARGIN = 1;` },
    ],
    simulation: ROLES,
    seed: 5,
  },
  'roles of a user are remembered under every token': {
    replacements: [
      { file: 'roles/role-sets.ts', find: `known && known.token === token &&`, put: `known &&` },
    ],
    simulation: ROLES,
    seed: 5,
  },
  'the token of the roles is used after its lease': {
    replacements: [
      {
        file: 'common/leases.ts',
        find: `return now - start.now < length && wall >= start.wall && wall - start.wall < length;`,
        put: `return now - start.now < 9 * length && wall >= start.wall;`,
      },
    ],
    simulation: ROLES,
  },
};
