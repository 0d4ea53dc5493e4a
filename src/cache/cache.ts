import type { Semaphore } from '../common/semaphore.ts';
import type { Clock } from '../common/clock.ts';
import { EngineFailure, GatewayError } from '../common/errors.ts';
import type { Outcome } from '../common/events.ts';
import { createOwnedTable } from '../common/owned-table.ts';
import type { GatewayReason, HitSource, RefusalReason } from '../common/reasons.ts';
import type { CapturedEpochs, Epochs } from '../freshness/freshness.ts';
import { createFills, type FillParts, type Verdict } from './fill.ts';
import { createFillOrder, type Flight, type Flights, type Landing } from './flights.ts';
import {
  createKeys,
  describeEpochs,
  describeParts,
  differingParts,
  type Keys,
  type Named,
  type PartDigests,
  queryKey,
  withoutEpochs,
} from './key.ts';
import { ageOf, isEnding, type MemoryTier, timeLeft } from './memory-tier.ts';
import type { Client, KnownKey, Query } from './query.ts';
import type { Filled, SharedEntries } from './shared-entries.ts';
import type { EndTurn, SharedFlights } from './shared-flights.ts';
import type { StoredAnswer } from './stored-answer.ts';
import { createTimeouts } from './timeouts.ts';

/** Look-ups of one request while the epochs change under it. */
const MAX_LOOKUPS = 3;
/** After an answer that could not be shared, no request waits for the next one this long. */
const UNSHAREABLE_MS = 5_000;
const MAX_UNSHAREABLE = 10_000;
/** Part of a ttl, so that entries of one moment do not end together. */
const TTL_JITTER = 0.1;
const EPOCHS_UNKNOWN: Outcome = { kind: 'bypass', detail: 'epochs-unknown' };
/** They say nothing of the next answer. */
const OF_THIS_ONE = new Set<RefusalReason>(['session-changed', 'no-room']);
/** Any request would have met them. */
const OF_ENGINE: readonly GatewayReason[] = [
  'engine-unreachable',
  'engine-timeout',
  'engine-login',
];
const TIMEOUT: readonly GatewayReason[] = ['engine-timeout'];
const noTurn = () =>
  new GatewayError('overloaded', 'No turn at the engine came in time; try again.', {
    retryAfter: 5,
  });
/** Entries compared with an explained query, which takes some milliseconds. */
const COMPARED = 4_000;
const unavailable = () => 'unavailable' as const;
const NOT_IN_TIME = 'The engine did not answer in time.';
const isOf = (error: unknown, reasons: readonly GatewayReason[]): error is GatewayError =>
  error instanceof GatewayError && reasons.includes(error.reason);

interface Lookup {
  readonly query: Query;
  readonly client: Client;
  readonly key: string;
  /** Undefined while epochs are not known: nothing is kept. */
  readonly captured: CapturedEpochs | undefined;
  readonly digests: () => PartDigests;
  /** An entry counts only if it was asked for later than this (wall clock, ms). */
  readonly after?: number;
}

type QueryCacheParts = FillParts & {
  readonly epochs: Epochs;
  readonly memory: MemoryTier;
  readonly entries: SharedEntries | undefined;
  readonly flights: Flights;
  readonly sharedFlights: SharedFlights | undefined;
  readonly random: () => number;
  readonly purgeTakes: number;
};
export type QueryCache = ReturnType<typeof createQueryCache>;

/**
 * Takes the tokens, makes the key, finds an entry, joins a flight or leads one, asks the engine,
 * keeps the answer. The functions below stand in this order.
 */
export function createQueryCache(parts: QueryCacheParts) {
  const { epochs, memory, entries, clock } = parts;
  const keys = createKeys(epochs);
  const found = createFinding(parts);
  const unshareable = createUnshareable(clock);
  const timeouts = createTimeouts(clock);
  const asking = createAsking(parts, timeouts, unshareable, failed);
  const sharing = createSharing(parts, found, asking, timeouts, unshareable, failed);
  const { joinOrLead, leadAnew } = sharing;

  /** Tells the client, unless the engine failed and an entry may answer instead. */
  async function failed({ query, client }: Asked, error: unknown): Promise<void> {
    const isOfEngine = error instanceof EngineFailure && query.ifError !== undefined;
    return isOfEngine && !client.signal.aborted ? answer(query, client, error) : client.fail(error);
  }

  /** @param failure of the engine: the query is looked up anew, and past its ttl, but not asked */
  async function answer(query: Query, client: Client, failure?: EngineFailure): Promise<void> {
    for (let lookups = 0; lookups < MAX_LOOKUPS; lookups += 1) {
      const isLate = !query.fresh && (failure !== undefined || query.isAway?.() === true);
      const pastTtl = isLate ? await query.ifError?.() : undefined;
      const captured = epochs.held(query.scopes) ?? (await epochs.obtain(query.scopes));
      if (captured === undefined) break;
      const lookup: Lookup = { query, client, captured, ...keys.nameOf(query.parts, captured) };
      const { key } = lookup;
      const since = clock.now();
      if (!query.fresh) {
        const isAsked = entries !== undefined && memory.get(key) === undefined;
        const brought = isAsked ? await entries.find(key) : undefined;
        // No await from here to the replay, the join or the lead. The one above may have outlived
        // the lease, or brought a purge or the landing of another fill.
        if (!epochs.areCurrent(captured)) continue;
        const past = pastTtl?.() ?? 0;
        // The lease of its session or roles may have ended meanwhile.
        if (failure !== undefined && past <= 0) continue;
        const hit = found.take(lookup, query.ttl, brought, past);
        if (hit !== undefined) {
          found.replay(hit.answer, hit.source, lookup);
          const digests = memory.peek(key)?.digests ?? '';
          const known = { key, captured, ttl: query.ttl, digests };
          return query.found?.(known, hit.ending ? hit.answer : undefined);
        }
      }
      if (failure !== undefined) break;
      // The engine is asked later, so the answer is never older than the epochs of its key. Behind
      // a purge no request looks under that key.
      return joinOrLead(lookup, clock.now() - since);
    }
    if (client.signal.aborted) return;
    if (failure !== undefined) return client.fail(failure);
    // No entry counts now; requests within the time that a purge takes share one to the engine.
    const key = queryKey(query.parts, keys.noEpochs);
    await joinOrLead({ query, client, key, captured: undefined, digests: () => '' }, 0);
  }

  return {
    /** Never rejects for what tiers or engine do; ends early when the client has gone. */
    answer,
    /**
     * Asks for an entry anew, in a flight that others may join when the entry ends. Does nothing
     * where the query has another key by now, or is being asked. Never rejects, like `answer`.
     * @param after when the entry was asked for (wall clock, ms)
     */
    async renew(query: Query, client: Client, key: string, after: number): Promise<void> {
      const captured = epochs.held(query.scopes) ?? (await epochs.obtain(query.scopes));
      if (captured === undefined) return;
      const lookup = { query, client, captured, after, ...keys.nameOf(query.parts, captured) };
      if (lookup.key === key) await leadAnew(lookup);
    },
    /** Takes a later entry than that into memory. @returns whether there is one */
    async takeLater({ key, captured, ttl, digests }: KnownKey, after: number): Promise<boolean> {
      const later = await found.lookAgain(key, ttl, after);
      if (later === undefined || !epochs.areCurrent(captured)) return false;
      found.hold(key, later, digests);
      return true;
    },
    keyOf: keys.keyOf,
    hasTier2: entries !== undefined,
    recall: (known: KnownKey, brought?: StoredAnswer, past?: number) =>
      found.take(known, known.ttl, brought, past),
    /** Brings for `recall` from tier 2. Never rejects. @param besideBytes that the asker takes */
    bring({ key, captured }: KnownKey, besideBytes: number) {
      if (entries === undefined || !epochs.areCurrent(captured)) return undefined;
      return memory.get(key) === undefined ? entries.find(key, besideBytes) : undefined;
    },
    textOf: memory.textOf,
    timedOut: timeouts.list,
    fetch: asking.fetch,
    ...createExplaining(parts, keys, unshareable.why),
  };
}

function createFinding({ epochs, memory, entries, clock }: QueryCacheParts) {
  function take(
    { key, captured, digests }: Pick<Lookup, 'key' | 'captured' | 'digests'> | KnownKey,
    ttl: number,
    brought?: StoredAnswer,
    past = 0,
  ) {
    if (captured === undefined || !epochs.areCurrent(captured)) return undefined;
    const wall = clock.wall();
    const inMemory = memory.get(key, true, wall, past);
    const isBrought = brought && !(inMemory && inMemory.requestedAt >= brought.requestedAt);
    const found = isBrought ? brought : inMemory;
    if (found === undefined) return undefined;
    const left = timeLeft(found, ttl, wall);
    if (left + past <= 0) return undefined;
    if (isBrought) hold(key, found, digests);
    const tier = isBrought ? 'redis' : 'memory';
    const source: HitSource = left > 0 ? tier : 'engine-away';
    const ending = left > 0 && isEnding(found, ttl, left);
    return { answer: found, source, ttl: left, age: ageOf(found, wall), ending };
  }

  function hold(key: string, answer: StoredAnswer, digests: PartDigests | Lookup['digests']): void {
    if (memory.get(key) === answer) return;
    memory.set(key, answer, typeof digests === 'string' ? digests : digests());
  }

  function replay(answer: StoredAnswer, source: HitSource, { key, query, client }: Lookup): void {
    const wall = clock.wall();
    const left = timeLeft(answer, query.ttl, wall);
    query.answered?.();
    client.replay(answer, {
      outcome: { kind: 'hit', detail: source },
      ttl: source === 'engine-away' ? left : Math.max(0, left),
      age: ageOf(answer, wall),
      sessionId: query.session?.id,
      text: (compressed) => memory.textOf(key, answer, compressed),
    });
  }

  function replayKept(lookup: Lookup): boolean {
    const kept = take(lookup, lookup.query.ttl);
    if (kept !== undefined) replay(kept.answer, 'coalesced', lookup);
    return kept !== undefined;
  }

  async function lookAgain(
    key: string,
    ttl: number,
    after = -Infinity,
  ): Promise<StoredAnswer | undefined> {
    const wanted = (one: StoredAnswer | undefined) =>
      one && one.requestedAt > after && timeLeft(one, ttl, clock.wall()) > 0 ? one : undefined;
    return wanted(memory.get(key)) ?? wanted(await entries?.find(key));
  }

  return { take, hold, replay, replayKept, lookAgain };
}

function createUnshareable(clock: Clock) {
  const keys = createOwnedTable<{ why: RefusalReason; until: number }>(MAX_UNSHAREABLE);

  return {
    mayShare: (key: string) => (keys.get(key)?.until ?? 0) <= clock.now(),
    why: (key: string) => keys.get(key)?.why,
    note: (key: string, owner: string, why: RefusalReason) =>
      keys.set(key, owner, { why, until: clock.now() + UNSHAREABLE_MS }),
    forget: keys.delete,
  };
}
type Asked = Pick<Lookup, 'query' | 'client'>;
type Failed = (asked: Asked, error: unknown) => Promise<void>;
type Unshareable = ReturnType<typeof createUnshareable>;
type Timeouts = ReturnType<typeof createTimeouts>;

/**
 * Failure that those who waited for a flight share. A timeout counts for every replica. A replica
 * that cannot be reached or broke off says nothing of others: only requests bound to it share that.
 * A leader without a session has tried all that can be reached.
 */
function failureOf(landed: Exclude<Landing, string>, { session }: Query) {
  if (landed.kind !== 'failed') return undefined;
  const isSameEngine = landed.replica === undefined || landed.replica === session?.replica;
  return isOf(landed.error, isSameEngine ? OF_ENGINE : TIMEOUT) ? landed.error : undefined;
}

function createSharing(
  { memory, flights, sharedFlights, purgeTakes, clock }: QueryCacheParts,
  found: ReturnType<typeof createFinding>,
  { ask, toTier2 }: ReturnType<typeof createAsking>,
  timeouts: Timeouts,
  { mayShare }: Unshareable,
  failed: Failed,
) {
  /** A flight began under the epochs of this request: no later purge concerns it. */
  async function joinOrLead(lookup: Lookup, spentMs: number): Promise<void> {
    const { key, captured, query, client } = lookup;
    const youngerThan = captured === undefined ? purgeTakes : undefined;
    const patience = client.waits() + query.timeoutMs;
    const isJoined = !query.fresh && mayShare(key);
    const landing = isJoined ? flights.join(key, client.signal, patience, youngerThan) : undefined;
    if (landing === undefined) return lead(lookup, spentMs);
    const since = clock.now();
    const landed = await landing;
    if (landed === 'gone') return;
    if (landed === 'late') return client.fail(new GatewayError('engine-timeout', NOT_IN_TIME));
    if (landed.kind === 'answer') return found.replay(landed.answer, 'coalesced', lookup);
    const failure = failureOf(landed, query);
    if (failure !== undefined) return failed(lookup, failure);
    // The time that the engine took for another is no wait.
    if (landed.kind === 'refused') client.waits(clock.now() - since);
    return askInTurn(landed.turns(), lookup);
  }

  async function leadAnew(lookup: Lookup): Promise<void> {
    const { key, after = 0 } = lookup;
    const isLater = (memory.get(key)?.requestedAt ?? 0) > after;
    if (!isLater && !flights.underWay(key)) await lead(lookup, 0);
  }

  const refusalOf = ({ key, captured, query }: Lookup) =>
    captured && !query.fresh ? timeouts.refuse(key) : undefined;

  async function lead(lookup: Lookup, spentMs: number): Promise<void> {
    const { key, captured, digests, query, client, after } = lookup;
    const refusal = refusalOf(lookup);
    if (refusal !== undefined) return failed(lookup, refusal);
    if (client.signal.aborted) return;
    const flight = mayShare(key) ? flights.lead(key) : undefined;
    const wanted = () => !client.signal.aborted || flight?.awaited() === true;
    const isMeeting = flight !== undefined && captured !== undefined && !query.fresh;
    // All who join this flight wait for another gateway that asks the same, too.
    const entered = isMeeting
      ? await sharedFlights?.enter({
          lock: { query: queryKey(query.parts, withoutEpochs(captured.keySecret)), key },
          ttl: query.ttl,
          spentMs,
          patience: client.waits(),
          wanted,
          find: () => found.lookAgain(key, query.ttl, after),
        })
      : undefined;
    if (entered?.kind === 'answer') {
      found.hold(key, entered.answer, digests);
      flight?.land({ ...entered, began: 0 });
      return found.replay(entered.answer, 'coalesced', lookup);
    }
    if (!wanted()) {
      flight?.land({ kind: 'failed', error: undefined });
      return void entered?.end(undefined, false);
    }
    const filled = await ask(lookup, flight, entered?.end);
    const isKept = await toTier2(key, filled);
    await entered?.end(filled?.answer, isKept);
  }

  /** Asks behind a flight that brought nothing; an earlier turn may have found more. */
  async function askInTurn(turns: Semaphore, lookup: Lookup): Promise<void> {
    const { client } = lookup;
    const late = { after: client.waits(), error: noTurn };
    const leave = await turns.acquire(client.signal, late).catch(client.fail.bind(client));
    if (leave === undefined) return;
    const ended = Promise.try(async () => {
      if (found.replayKept(lookup)) return undefined;
      const refusal = refusalOf(lookup);
      return refusal === undefined ? ask(lookup) : void (await failed(lookup, refusal));
    });
    await toTier2(lookup.key, await ended.finally(leave));
  }

  return { joinOrLead, leadAnew };
}

function createAsking(
  parts: QueryCacheParts,
  timeouts: Timeouts,
  unshareable: Unshareable,
  failed: Failed,
) {
  const { memory, entries, emit } = parts;
  const order = createFillOrder();
  const beginFill = createFills(parts, (ttl) => ttl * (1 - TTL_JITTER * parts.random()));

  /** Keeps the answer in memory. Undefined when tier 2 may not keep it. */
  async function ask(lookup: Lookup, flight?: Flight, endTurn?: EndTurn) {
    const { key, captured, query, client } = lookup;
    const fill = order.enter(key);
    const unwanted = () => flight?.unwanted(client.signal) ?? client.signal;
    const announced: Query = {
      ...query,
      async ask(...given) {
        const answer = await query.ask(...given);
        flight?.answers();
        return answer;
      },
    };
    const bypass = captured ? undefined : EPOCHS_UNKNOWN;
    const begun = beginFill(announced, client, unwanted, bypass, failed.bind(null, lookup));
    const verdict = await begun.verdict;
    // Without epochs no purge would end the note.
    if (captured !== undefined) noteEnd(lookup, verdict);
    // In one turn: the answer is in memory when the flight is off the map.
    if (verdict.kind === 'answer') {
      query.answered?.();
      fill.landed(verdict.answer, verdict.began);
      if (captured !== undefined) keep(lookup, fill.latest() ?? verdict.answer, verdict.answer);
    } else {
      void endTurn?.(undefined, false);
      const why = verdict.kind === 'refused' ? verdict.reason : undefined;
      const isLasting = why !== undefined && !OF_THIS_ONE.has(why);
      if (isLasting && captured !== undefined) unshareable.note(key, query.parts.identity, why);
    }
    flight?.land(verdict, query.session?.replica);
    await begun.finish(entries !== undefined || flight?.awaited() === true);
    if (verdict.kind === 'answer' && captured !== undefined) {
      return { fill, answer: verdict.answer, tokens: captured.tokens, replace: query.fresh };
    }
    fill.end();
    return undefined;
  }

  /** After any other end the next request may be answered. */
  function noteEnd({ key, query }: Lookup, verdict: Verdict): void {
    if (verdict.kind !== 'failed' || !isOf(verdict.error, TIMEOUT)) return timeouts.forget(key);
    const { asked, identity } = query.parts;
    timeouts.note(key, identity, { digest: asked.digest, project: query.project }, verdict.error);
  }

  function keep({ key, digests, query }: Lookup, latest: StoredAnswer, own: StoredAnswer): void {
    unshareable.forget(key);
    // A later fill owns this entry, or one with a clock ahead of ours.
    if (latest !== own && !query.fresh) return;
    const how = query.background ? 'warm' : 'usual';
    memory.set(key, latest, digests(), query.fresh ? 'fresh' : how);
    emit({ type: 'stored', project: query.project, bytes: own.body.length });
  }

  /** Returns whether other gateways find it in tier 2. Its client does not wait. */
  async function toTier2(key: string, filled: Filled | undefined): Promise<boolean> {
    if (filled === undefined) return false;
    const letGo = memory.hold(filled.answer.body);
    const isKept = await entries?.keep(key, filled);
    filled.fill.end();
    letGo();
    return isKept ?? false;
  }

  /**
   * Asks past tiers and flights, and keeps nothing. The answer has its room until `use` has
   * settled.
   * @returns what `use` resolves to, or why nothing may be stored
   */
  async function fetch<T>(query: Query, client: Client, use: (answer: StoredAnswer) => Promise<T>) {
    const begun = beginFill(query, client, () => client.signal, undefined);
    const verdict = await begun.verdict;
    if (verdict.kind !== 'answer') return verdict;
    try {
      return { kind: 'used' as const, value: await use(verdict.answer) };
    } finally {
      await begun.finish(false);
    }
  }

  return { ask, toTier2, fetch };
}

/** Explains queries. Changes nothing, never rejects; reads epochs not known. */
function createExplaining(
  { epochs, memory, entries, flights, purgeTakes, clock }: QueryCacheParts,
  keys: Keys,
  whyUnshareable: (key: string) => RefusalReason | undefined,
) {
  /** With a ttl of 0 or less it is too old. */
  function factsOf(answer: StoredAnswer | undefined, ttl: number, left = Infinity) {
    if (answer === undefined) return null;
    const wall = clock.wall();
    const age = ageOf(answer, wall);
    return {
      age_ms: Math.round(age),
      ttl_ms: Math.round(Math.max(-age, Math.min(left, timeLeft(answer, ttl, wall)))),
      bytes: answer.body.length,
      engine_ms: Math.round(answer.engineMilliseconds),
    };
  }

  /**
   * Nearest of the usable entries used last: fewest parts differ, then the youngest. After a purge
   * it is the earlier entry, which differs in `epochs`.
   */
  function nearest(digests: PartDigests) {
    const wall = clock.wall();
    const alike = memory.peekRecent(COMPARED).flatMap(({ answer, left, digests: others }) => {
      const differs = left > 0 ? differingParts(digests, others) : undefined;
      return differs === undefined ? [] : [{ differs, age_ms: Math.round(ageOf(answer, wall)) }];
    });
    const [best] = alike.sort((a, b) => a.differs.length - b.differs.length || a.age_ms - b.age_ms);
    return best ?? null;
  }

  return {
    async entryOf(query: Named) {
      const known = await keys.keyOf(query);
      if (known === undefined) return undefined;
      const { key, captured, ttl } = known;
      const kept = memory.peek(key);
      const inMemory = kept !== undefined && kept.left > 0 ? kept.answer : undefined;
      const answer = inMemory ?? (await entries?.peek(key).catch(() => undefined));
      const wall = clock.wall();
      const counts = epochs.areCurrent(captured) && answer && timeLeft(answer, ttl, wall) > 0;
      const source: HitSource = inMemory === undefined ? 'redis' : 'memory';
      const entry = counts ? { answer, source, age: ageOf(answer, wall) } : undefined;
      return { key, epochs: describeEpochs(captured), entry };
    },
    async explain({ parts: asked, scopes, ttl }: Named) {
      const captured = epochs.held(scopes) ?? (await epochs.obtain(scopes));
      // Without epochs it is the key of flights only.
      const { key, digests: digest } = keys.nameOf(asked, captured ?? keys.noEpochs);
      const digests = digest();
      const inTier2 = captured && entries?.peek(key).then((one) => factsOf(one, ttl), unavailable);
      const redis = entries === undefined ? 'off' : await (inTier2 ?? unavailable());
      const entry = memory.peek(key);
      const inMemory = factsOf(entry?.answer, ttl, entry?.left);
      const flight = flights.underWay(key, captured ? undefined : purgeTakes);
      const ofTier2 = typeof redis === 'string' ? null : redis;
      const hits = (inMemory?.ttl_ms ?? 0) > 0 || (ofTier2?.ttl_ms ?? 0) > 0;
      return {
        key,
        parts: describeParts(digests),
        epochs: captured ? describeEpochs(captured) : ('unknown' as const),
        memory: inMemory,
        redis,
        /** Without an entry, another request's answer would be waited for. */
        flight,
        not_stored: whyUnshareable(key) ?? null,
        nearest: flight || hits ? null : nearest(digests),
      };
    },
  };
}
