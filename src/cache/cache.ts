import { randomUUID } from 'node:crypto';
import type { Gate } from '../common/body-account.ts';
import { GatewayError } from '../common/errors.ts';
import type { Outcome } from '../common/events.ts';
import { createOwnedTable } from '../common/owned-table.ts';
import type { GatewayReason, HitSource, RefusalReason } from '../common/reasons.ts';
import type { CapturedEpochs, Epochs, KeyEpochs } from '../freshness/freshness.ts';
import { createFills, type Verdict } from './fill.ts';
import { type Awaited, createFillOrder, type Flight, type Flights } from './flights.ts';
import {
  createPartDigests,
  describeEpochs,
  describeParts,
  differingParts,
  type KeyParts,
  type PartDigests,
  partTexts,
  queryKey,
  withoutEpochs,
} from './key.ts';
import { type MemoryTier, remaining } from './memory-tier.ts';
import type { Client, KnownKey, Query } from './query.ts';
import type { Filled, SharedEntries } from './shared-entries.ts';
import type { EndTurn, SharedFlights } from './shared-flights.ts';
import type { StoredAnswer } from './stored-answer.ts';
import { createTimeouts } from './timeouts.ts';

/** How often a look-up begins anew because the epochs changed under it. */
const MAX_LOOKUPS = 3;
/** For how long an answer that could not be shared keeps others from waiting for the next one (ms). */
const UNSHAREABLE_FOR = 5_000;
/** Keys of which that is known, all of one length. */
const MAX_UNSHAREABLE = 10_000;
/** Entries of one moment should not all end in one moment: their ttl is shorter by up to this part of it. */
const TTL_JITTER = 0.1;
/** So many entries are compared with a query that is explained, which takes some milliseconds. */
const COMPARED = 4_000;
const EPOCHS_UNKNOWN: Outcome = { kind: 'bypass', detail: 'epochs-unknown' };
/** These say nothing of the next answer: it may be asked in another session, or find room. */
const OF_THIS_ONE = new Set<RefusalReason>(['session-changed', 'no-room']);
/** Failures that any request would have met; others are of one request alone. */
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
const NOT_IN_TIME = 'The engine did not answer in time.';
const isOf = (error: unknown, reasons: readonly GatewayReason[]): error is GatewayError =>
  error instanceof GatewayError && reasons.includes(error.reason);

/**
 * How a flight failed also for those who waited for it. A query that timed out takes too long at every replica. That the one
 * replica of a session cannot be reached, or broke off, says nothing of another one: only who would have been sent there shares
 * that, and others ask by themselves. A leader without a session has tried all that can be reached.
 */
function failureOf(landed: Exclude<Awaited, string>, { session }: Query) {
  if (landed.kind !== 'failed') return undefined;
  const isSameEngine = landed.replica === undefined || landed.replica === session?.replica;
  return isOf(landed.error, isSameEngine ? OF_ENGINE : TIMEOUT) ? landed.error : undefined;
}
const unavailable = () => 'unavailable' as const;

interface Lookup {
  readonly query: Query;
  readonly client: Client;
  readonly key: string;
  /** The epochs under which the key was made; undefined while they are not known, when nothing is kept. */
  readonly captured: CapturedEpochs | undefined;
  readonly digests: () => PartDigests;
}
type Slot = Omit<Lookup, 'query' | 'client'>;
export type QueryCache = ReturnType<typeof createQueryCache>;
/** `entries`, `sharedFlights`: with Redis only. `purgeTakes`: what a purge takes at least (ms). */
export function createQueryCache(
  parts: Parameters<typeof createFills>[0] & {
    readonly epochs: Epochs;
    readonly memory: MemoryTier;
    readonly entries: SharedEntries | undefined;
    readonly flights: Flights;
    readonly sharedFlights: SharedFlights | undefined;
    readonly random: () => number;
    readonly purgeTakes: number;
  },
) {
  const { epochs, memory, entries, flights, sharedFlights, purgeTakes, clock, emit } = parts;
  const order = createFillOrder();
  const timeouts = createTimeouts(clock);
  /** Keys whose last answer could not be shared, why, and until when (monotonic ms) that counts. */
  const unshareable = createOwnedTable<{ why: RefusalReason; until: number }>(MAX_UNSHAREABLE);
  /** Keys the flights while the epochs, and with them the shared secret, are not known. */
  const noEpochs = withoutEpochs(randomUUID());
  const partDigests = createPartDigests();
  const beginFill = createFills(parts, (ttl) => ttl * (1 - TTL_JITTER * parts.random()));
  const mayShare = (key: string) => (unshareable.get(key)?.until ?? 0) <= clock.now();
  const ageOf = ({ requestedAt }: StoredAnswer, wall = clock.wall()) =>
    Math.max(0, wall - requestedAt);

  async function answer(query: Query, client: Client): Promise<void> {
    for (let lookups = 0; lookups < MAX_LOOKUPS; lookups += 1) {
      const captured = epochs.held(query.scopes) ?? (await epochs.obtain(query.scopes));
      if (captured === undefined) break;
      const lookup: Lookup = { query, client, captured, ...nameOf(query.parts, captured) };
      const { key } = lookup;
      const since = clock.now();
      if (!query.fresh) {
        const isAsked = entries !== undefined && memory.get(key) === undefined;
        const brought = isAsked ? await entries.find(key) : undefined;
        // No await from here to the replay, the join or the lead. The await above may have outlived
        // the lease, or brought a purge; or the fill of another request may have landed.
        if (!epochs.areCurrent(captured)) continue;
        const found = take(lookup, query.ttl, brought);
        if (found !== undefined) {
          replay(found.answer, found.source, lookup);
          const digests = memory.peek(key)?.digests ?? '';
          return query.found?.({ key, captured, ttl: query.ttl, digests });
        }
      }
      // The engine is asked later, perhaps behind a purge: its answer is never older than the epochs of its key, under which
      // no request looks then.
      return joinOrLead(lookup, clock.now() - since);
    }
    if (client.signal.aborted) return;
    // No entry counts now, but what comes in less time than a purge takes shares an engine request.
    const key = queryKey(query.parts, noEpochs);
    await joinOrLead({ query, client, key, captured: undefined, digests: () => '' }, 0);
  }

  function nameOf(keyParts: KeyParts, captured: KeyEpochs) {
    const texts = () => partTexts(keyParts, captured);
    const digests = () => partDigests(captured, texts(), keyParts.asked.digest);
    return { key: queryKey(keyParts, captured), digests };
  }

  /** Under which an answer would be found now; undefined where the epochs are not known. */
  async function keyOf({ parts: asked, scopes, ttl }: Pick<Query, 'parts' | 'scopes' | 'ttl'>) {
    const captured = epochs.held(scopes) ?? (await epochs.obtain(scopes));
    if (captured === undefined) return undefined;
    const { key, digests } = nameOf(asked, captured);
    return { key, captured, ttl, digests: digests() } satisfies KnownKey;
  }

  /** What memory holds, or keeps now as it came from tier 2, where it may be used in this turn. */
  function take({ key, captured, digests }: Slot | KnownKey, ttl: number, brought?: StoredAnswer) {
    if (captured === undefined || !epochs.areCurrent(captured)) return undefined;
    const wall = clock.wall();
    const inMemory = memory.get(key, true, wall);
    const found = inMemory ?? brought;
    if (found === undefined) return undefined;
    const left = timeLeft(found, ttl, wall);
    if (left <= 0) return undefined;
    if (inMemory === undefined) {
      memory.set(key, found, typeof digests === 'string' ? digests : digests());
    }
    const source: HitSource = inMemory === undefined ? 'redis' : 'memory';
    return { answer: found, source, ttl: left, age: ageOf(found, wall) };
  }

  /**
   * Joins the flight of the key, or leads one. It began under the epochs in force when the request came: a purge that comes
   * meanwhile does not concern it. `spent`: what looking for it in tier 2 took (ms).
   */
  async function joinOrLead(lookup: Lookup, spent: number): Promise<void> {
    const { key, captured, query, client } = lookup;
    const youngerThan = captured === undefined ? purgeTakes : undefined;
    // As long as if it asked by itself: for a place, and for the engine to begin.
    const patience = client.waits() + query.timeout;
    const isJoined = !query.fresh && mayShare(key);
    const landing = isJoined ? flights.join(key, client.signal, patience, youngerThan) : undefined;
    if (landing === undefined) return isRefused(lookup) ? undefined : lead(lookup, spent);
    const since = clock.now();
    const landed = await landing;
    if (landed === 'gone') return;
    if (landed === 'late') return client.fail(new GatewayError('engine-timeout', NOT_IN_TIME));
    if (landed.kind === 'answer') return replay(landed.answer, 'coalesced', lookup);
    const failure = failureOf(landed, query);
    if (failure !== undefined) return client.fail(failure);
    // What the engine took to answer another is not what this one has waited for it.
    if (landed.kind === 'refused') client.waits(clock.now() - since);
    return askInTurn(landed.turns(), lookup);
  }

  /**
   * Tells the client where the query timed out a short time ago. Who may ask for a fresh answer finds out by that whether the
   * engine answers again.
   */
  function isRefused({ key, captured, query, client }: Lookup): boolean {
    const refusal = captured && !query.fresh ? timeouts.refuse(key) : undefined;
    if (refusal !== undefined) client.fail(refusal);
    return refusal !== undefined;
  }

  /** Asks the engine, with a flight that others join in place of one that is under way. */
  async function lead(lookup: Lookup, spent: number): Promise<void> {
    const { key, captured, digests, query, client } = lookup;
    if (client.signal.aborted) return;
    const flight = mayShare(key) ? flights.lead(key) : undefined;
    const wanted = () => !client.signal.aborted || flight?.awaited() === true;
    const isShared = flight !== undefined && captured !== undefined && !query.fresh;
    // Another gateway may be asking the same. All who join this flight wait for that one too.
    const entered = isShared
      ? await sharedFlights?.enter({
          place: { query: queryKey(query.parts, withoutEpochs(captured.keySecret)), key },
          ttl: query.ttl,
          spent,
          patience: client.waits(),
          wanted,
          async find() {
            const found = memory.get(key) ?? (await entries?.find(key));
            return found !== undefined && timeLeft(found, query.ttl) > 0 ? found : undefined;
          },
        })
      : undefined;
    if (entered?.kind === 'answer') {
      if (memory.get(key) === undefined) memory.set(key, entered.answer, digests());
      flight?.land({ ...entered, began: 0 });
      return replay(entered.answer, 'coalesced', lookup);
    }
    // The client may have gone while another gateway was asked.
    if (!wanted()) {
      flight?.land({ kind: 'failed', error: undefined });
      return void entered?.end(undefined, false);
    }
    const filled = await ask(lookup, flight, entered?.end);
    const isKept = await toTier2(key, filled);
    await entered?.end(filled?.answer, isKept);
  }

  /** What a request does whose flight brought nothing for it: an earlier one may have had more luck. */
  async function askInTurn(turns: Gate, lookup: Lookup): Promise<void> {
    const { client } = lookup;
    const late = { after: client.waits(), error: noTurn };
    const leave = await turns.enter(client.signal, late).catch(client.fail.bind(client));
    if (leave === undefined) return;
    const isTold = () => replayKept(lookup) || isRefused(lookup);
    const ended = Promise.try(() => (isTold() ? undefined : ask(lookup)));
    await toTier2(lookup.key, await ended.finally(leave));
  }

  /** Asks the engine, and keeps its answer in memory. Undefined when tier 2 may not keep it. */
  async function ask(lookup: Lookup, flight?: Flight, endTurn?: EndTurn) {
    const { key, captured, query, client } = lookup;
    const fill = order.enter(key);
    const unwanted = () => flight?.unwanted(client.signal) ?? client.signal;
    const told: Query = {
      ...query,
      async ask(...given) {
        const answer = await query.ask(...given);
        flight?.answers();
        return answer;
      },
    };
    const asked = beginFill(told, client, unwanted, captured ? undefined : EPOCHS_UNKNOWN);
    const verdict = await asked.verdict;
    // Without epochs no purge would end it.
    if (captured !== undefined) noteEnd(lookup, verdict);
    // In one turn: the answer is in memory when the flight is off the map.
    if (verdict.kind === 'answer') {
      query.answered?.();
      fill.landed(verdict.answer, verdict.began);
      if (captured !== undefined) keep(lookup, fill.latest() ?? verdict.answer, verdict.answer);
    } else {
      void endTurn?.(undefined, false);
      const why = verdict.kind === 'refused' ? verdict.reason : undefined;
      if (why !== undefined && !OF_THIS_ONE.has(why) && captured !== undefined) {
        const until = clock.now() + UNSHAREABLE_FOR;
        unshareable.set(key, query.parts.identity, { why, until });
      }
    }
    flight?.land(verdict, query.session?.replica);
    await asked.finish(entries !== undefined || flight?.awaited() === true);
    if (verdict.kind === 'answer' && captured !== undefined) {
      return { fill, answer: verdict.answer, tokens: captured.tokens, replace: query.fresh };
    }
    fill.end();
    return undefined;
  }

  /** Whatever else than a timeout ends a request, the next one may be answered. */
  function noteEnd({ key, query }: Lookup, verdict: Verdict): void {
    if (verdict.kind !== 'failed' || !isOf(verdict.error, TIMEOUT)) return timeouts.forget(key);
    const { asked, identity } = query.parts;
    timeouts.note(key, identity, { digest: asked.digest, project: query.project });
  }

  /** `latest`: of the fills of the key that are under way, this one included. */
  function keep({ key, digests, query }: Lookup, latest: StoredAnswer, own: StoredAnswer): void {
    unshareable.delete(key);
    // Another fill has kept what began later, or has left there what only seems to be newer still.
    if (latest !== own && !query.fresh) return;
    const how = query.background ? 'warm' : 'usual';
    memory.set(key, latest, digests(), query.fresh ? 'fresh' : how);
    emit({ type: 'stored', project: query.project, bytes: own.body.length });
  }

  /** Its client does not wait for this. Returns whether other gateways find the answer there. */
  async function toTier2(key: string, filled: Filled | undefined): Promise<boolean> {
    if (filled === undefined) return false;
    const letGo = memory.hold(filled.answer.body);
    const isKept = await entries?.keep(key, filled);
    filled.fill.end();
    letGo();
    return isKept ?? false;
  }

  /** Milliseconds, also when the ttl was shortened after the answer was stored. */
  const timeLeft = (answer: StoredAnswer, ttl: number, wall = clock.wall()) =>
    Math.min(remaining(answer, wall), answer.requestedAt + ttl - wall);

  function replay(answer: StoredAnswer, source: HitSource, { key, query, client }: Lookup): void {
    query.answered?.();
    client.replay(answer, {
      outcome: { kind: 'hit', detail: source },
      ttl: Math.max(0, timeLeft(answer, query.ttl)),
      age: ageOf(answer),
      sessionId: query.session?.id,
      text: (compressed) => memory.textOf(key, answer, compressed),
    });
  }

  /** Replays what the fill of another request has brought meanwhile, if it may be used. */
  function replayKept(lookup: Lookup): boolean {
    const found = take(lookup, lookup.query.ttl);
    if (found !== undefined) replay(found.answer, 'coalesced', lookup);
    return found !== undefined;
  }

  /** An entry of a tier: milliseconds, bytes of the body. With a ttl of 0 it is too old. */
  function factsOf(answer: StoredAnswer | undefined, ttl: number, left = Infinity) {
    if (answer === undefined) return null;
    return {
      age_ms: Math.round(ageOf(answer)),
      ttl_ms: Math.round(Math.max(0, Math.min(left, timeLeft(answer, ttl)))),
      bytes: answer.body.length,
      engine_ms: Math.round(answer.engineMilliseconds),
    };
  }

  /**
   * The usable entry of those used most recently whose key differs in the fewest parts; of several the youngest. After a
   * purge it is the earlier entry, which differs in `epochs`.
   */
  function nearest(digests: PartDigests) {
    const alike = memory.peekRecent(COMPARED).flatMap(({ answer, left, digests: others }) => {
      const differs = left > 0 ? differingParts(digests, others) : undefined;
      return differs === undefined ? [] : [{ differs, age_ms: Math.round(ageOf(answer)) }];
    });
    const [best] = alike.sort((a, b) => a.differs.length - b.differs.length || a.age_ms - b.age_ms);
    return best ?? null;
  }

  return {
    /** Never rejects for what tiers or engine do; a client that goes away ends it early. */
    answer,
    keyOf,
    /** For this turn: what memory has under a key that was made earlier, or now keeps as brought. */
    recall: (known: KnownKey, brought?: StoredAnswer) => take(known, known.ttl, brought),
    /** For `recall`: what tier 2 has and memory has not. Never rejects. `beside`: bytes of the asker. */
    bring({ key, captured }: KnownKey, beside: number) {
      if (entries === undefined || !epochs.areCurrent(captured)) return undefined;
      return memory.get(key) === undefined ? entries.find(key, beside) : undefined;
    },
    textOf: memory.textOf,
    /** Queries that timed out a short time ago. */
    timedOut: timeouts.list,
    /**
     * What a query would be answered from now, and under which key and epochs; undefined where the epochs are not known. Changes
     * nothing. Never rejects.
     */
    async entryOf(query: Parameters<typeof keyOf>[0]) {
      const known = await keyOf(query);
      if (known === undefined) return undefined;
      const { key, captured, ttl } = known;
      const kept = memory.peek(key);
      const inMemory = kept !== undefined && kept.left > 0 ? kept.answer : undefined;
      const answer = inMemory ?? (await entries?.peek(key).catch(() => undefined));
      // A purge may have come meanwhile.
      const counts = epochs.areCurrent(captured) && answer && timeLeft(answer, ttl) > 0;
      const source: HitSource = inMemory === undefined ? 'redis' : 'memory';
      const entry = counts ? { answer, source, age: ageOf(answer) } : undefined;
      return { key, epochs: describeEpochs(captured), entry };
    },
    /**
     * Asks the engine, past tiers and flights, and keeps nothing. What may be stored is given to `use`, and has its room in
     * the account until that has settled.
     * @returns what that resolves to, or why nothing may be stored
     */
    async fetch<T>(query: Query, client: Client, use: (answer: StoredAnswer) => Promise<T>) {
      const asked = beginFill(query, client, () => client.signal, undefined);
      const verdict = await asked.verdict;
      if (verdict.kind !== 'answer') return verdict;
      try {
        return { kind: 'used' as const, value: await use(verdict.answer) };
      } finally {
        await asked.finish(false);
      }
    },
    /** What would become of a query, for JSON. Changes nothing; reads unknown epochs. */
    async explain({ parts: asked, scopes, ttl }: Pick<Query, 'parts' | 'scopes' | 'ttl'>) {
      const captured = epochs.held(scopes) ?? (await epochs.obtain(scopes));
      // Without epochs the cache cannot be used, and the key is the one of its flights only.
      const { key, digests: digest } = nameOf(asked, captured ?? noEpochs);
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
        /** All gateways of a namespace make the same digests. */
        parts: describeParts(digests),
        epochs: captured ? describeEpochs(captured) : ('unknown' as const),
        memory: inMemory,
        redis,
        /** Whether the answer of another request would be waited for, were there no entry. */
        flight,
        /** Why the last answer to this query was not stored; null where it was, or that is not known. */
        not_stored: unshareable.get(key)?.why ?? null,
        nearest: flight || hits ? null : nearest(digests),
      };
    },
  };
}
