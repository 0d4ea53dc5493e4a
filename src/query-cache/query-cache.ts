import type { LRUCache } from 'lru-cache';
import type { BodyAccount } from '../body-account.ts';
import type { Clock } from '../clock.ts';
import type { Emit } from '../events.ts';
import type { HitSource } from '../reasons.ts';
import type { BodiesInUse } from './entries/bodies-in-use.ts';
import type { CapturedEpochs, Epochs } from './purge/epochs.ts';
import { createExplain, type Explain } from './explain.ts';
import { createFillOrder } from './fill/fill-order.ts';
import { fill, type FillJob } from './fill/fill.ts';
import type { Flight, Flights } from './flight.ts';
import { createInspections } from './fill/inspections.ts';
import { inTurn } from './in-turn.ts';
import { partTexts, queryKey, type PartTexts } from './key/key.ts';
import { createKnownAnswers, type FetchedQuery, type KnownAnswers } from './known-answers.ts';
import type { MemoryTier } from './entries/memory-tier.ts';
import { partDigests } from './key/part-digests.ts';
import type { Client, Query } from './query.ts';
import type { Filled, SharedEntries } from './entries/shared-entries.ts';
import type { SharedFlights } from './shared-flights.ts';
import { remaining, type StoredAnswer } from './entries/stored-answer.ts';
import { createAnswerWithoutEpochs } from './without-epochs.ts';

/** How often a look-up begins anew because the epochs changed under it. */
const MAX_LOOKUPS = 3;
/** For how long an answer that could not be shared keeps others from waiting for the next one (ms). */
const UNSHAREABLE_FOR = 5_000;
/** Entries of one moment should not all end in one moment: their ttl varies by this part of it. */
const TTL_JITTER = 0.1;

export interface QueryCache extends KnownAnswers {
  /**
   * Answers a cacheable query: from memory, from tier 2, from a flight, or from the engine. Never rejects
   * for what the cache or the engine do; a client that goes away ends it early.
   */
  answer(query: Query, client: Client): Promise<void>;
  /** Says what would become of a query, and changes nothing. */
  readonly explain: Explain;
}

/** Where an answer is looked for and kept. */
interface Place {
  readonly key: string;
  /** What the key was made of. */
  readonly texts: PartTexts;
  /** The epochs under which it was made. */
  readonly captured: CapturedEpochs;
  /** What looking for it in tier 2 took (ms). */
  readonly spent: number;
}

export function createQueryCache(options: {
  epochs: Epochs;
  memory: MemoryTier;
  /** Tier 2; undefined without Redis. */
  entries: SharedEntries | undefined;
  flights: Flights;
  /** Undefined without Redis. */
  sharedFlights: SharedFlights | undefined;
  /** Keys whose last answer could not be shared, with the moment (monotonic ms) until which that counts. */
  unshareable: LRUCache<string, number>;
  clock: Clock;
  /** In [0, 1). */
  random: () => number;
  /** No purge is acknowledged in less (ms); 0 where a purge waits for nobody. */
  purgeTakes: number;
  /** Bytes. */
  maxEntry: number;
  /** Keys the flights while the epochs, and with them the shared secret, are not known. */
  processSecret: string;
  /** The memory of what is fetched, and of what is held beside tier 1. */
  account: Pick<BodyAccount, 'open'>;
  inUse: Pick<BodiesInUse, 'hold'>;
  emit: Emit;
}): QueryCache {
  const { epochs, memory, entries, flights, sharedFlights, unshareable, clock, emit } = options;
  const order = createFillOrder();
  const unknownEpochs = withoutEpochs(options.processSecret);

  async function answer(query: Query, client: Client): Promise<void> {
    for (let lookups = 0; lookups < MAX_LOOKUPS; lookups += 1) {
      const captured = epochs.held(query.scopes) ?? (await epochs.obtain(query.scopes));
      if (captured === undefined) break;
      if (await answerUnder(captured, query, client)) return;
    }
    await answerWithoutEpochs(query, client);
  }

  /** False when the captured epochs went out of force before an answer began. */
  async function answerUnder(
    captured: CapturedEpochs,
    query: Query,
    client: Client,
  ): Promise<boolean> {
    const texts = partTexts(query.parts, captured);
    const key = queryKey(query.parts, captured, texts);
    if (query.fresh) {
      await lead({ key, texts, captured, spent: 0 }, query, client);
      return true;
    }
    const outside = memory.get(key) === undefined;
    const since = clock.now();
    const inValues = outside ? await entries?.find(key) : undefined;
    const at = { key, texts, captured, spent: clock.now() - since };
    // No await from here to the replay, the join or the lead: what is decided holds when it happens. The
    // await above may have outlived the lease, or brought a purge.
    if (!epochs.areCurrent(captured)) return false;
    // Another request's fill may have landed since the first look: without this second one, two requests
    // that come one after the other could both ask the engine.
    const inMemory = memory.get(key);
    const found = inMemory ?? inValues;
    if (found !== undefined && timeLeft(found, query) > 0) {
      if (inMemory === undefined) memory.set(key, found, partDigests(query.parts, captured, texts));
      replay(found, inMemory === undefined ? 'redis' : 'memory', key, query, client);
      query.found?.({ key, captured, ttl: query.ttl, digests: memory.peek(key)?.digests ?? '' });
      return true;
    }
    // The engine is asked later: it may let a request wait, and a purge may come meanwhile. Its answer is newer than the
    // epochs under which it is kept, never older, and after the purge nobody looks for it or joins its flight.
    const landing = mayShare(key) ? flights.join(key, client.signal) : undefined;
    if (landing === undefined) await lead(at, query, client);
    else await afterLanding(await landing.catch(() => 'gone' as const), at, query, client);
    return true;
  }

  /**
   * Its client has the answer already, nobody waits for this.
   * @returns whether other gateways find it there
   */
  async function toTier2(key: string, filled: Filled | undefined): Promise<boolean> {
    if (filled === undefined) return false;
    const letGo = options.inUse.hold(filled.answer.body);
    const kept = await entries?.keep(key, filled);
    filled.fill.end();
    letGo();
    return kept ?? false;
  }

  function mayShare(key: string): boolean {
    return (unshareable.get(key) ?? 0) <= clock.now();
  }

  /** Asks the engine, with a flight for those who come later. One that is under way is no longer joined then. */
  async function lead(at: Place, query: Query, client: Client): Promise<void> {
    const flight = mayShare(at.key) ? flights.lead(at.key) : undefined;
    if (flight === undefined || query.fresh || sharedFlights === undefined) {
      await toTier2(at.key, await fillAndKeep(at, query, client, flight));
    } else await leadAmongGateways(sharedFlights, flight, at, query, client);
  }

  /**
   * Another gateway may be asking the same. The flight of this one is up already, and is not bound to the client that
   * leads: what it waits for is waited for by all who joined.
   */
  async function leadAmongGateways(
    shared: SharedFlights,
    flight: Flight,
    at: Place,
    query: Query,
    client: Client,
  ): Promise<void> {
    const { key, texts, captured } = at;
    const entered = await shared.enter({
      place: { query: queryKey(query.parts, withoutEpochs(captured.keySecret)), key },
      ttl: query.ttl,
      spent: at.spent,
      wanted: () => !client.signal.aborted || flight.awaited(),
      async find() {
        const found = memory.get(key) ?? (await entries?.find(key));
        return found !== undefined && timeLeft(found, query) > 0 ? found : undefined;
      },
    });
    if (entered.kind === 'unwanted') return flight.land(undefined);
    if (entered.kind === 'ask') {
      const { turn } = entered;
      const filled = await fillAndKeep(at, query, client, turn.watched(flight));
      return turn.end(filled?.answer, await toTier2(key, filled));
    }
    const { answer } = entered;
    if (memory.get(key) === undefined)
      memory.set(key, answer, partDigests(query.parts, captured, texts));
    flight.land(answer);
    replay(answer, 'coalesced', key, query, client);
  }

  /** What a request does that waited for a flight. */
  async function afterLanding(
    landed: Awaited<ReturnType<Flights['join']>> | 'gone',
    at: Place,
    query: Query,
    client: Client,
  ): Promise<void> {
    const { key } = at;
    if (landed === 'gone' || landed === undefined) return;
    if (landed === 'late') {
      await toTier2(key, await fillAndKeep(at, query, client, undefined));
      return;
    }
    // It was joined under the epochs in force when this request came, and its engine request began under
    // them: that is all the promise asks. A purge that came while it waited does not concern it.
    if (landed.kind === 'answer') return replay(landed.answer, 'coalesced', key, query, client);
    const filled = await inTurn(landed.turns, client.signal, () => {
      const found = memory.get(key);
      const usable = found !== undefined && timeLeft(found, query) > 0;
      if (!usable || !epochs.areCurrent(at.captured)) {
        return fillAndKeep(at, query, client, undefined);
      }
      replay(found, 'coalesced', key, query, client);
      return undefined;
    });
    await toTier2(key, filled);
  }

  /** Asks the engine and keeps its answer in memory. Undefined when it may not be kept. */
  async function fillAndKeep(
    { key, texts, captured }: Place,
    query: Query,
    client: Client,
    flight: Flight | undefined,
  ): Promise<Filled | undefined> {
    const ordered = order.enter(key);
    const replace = query.fresh;
    const keep = (answer: StoredAnswer, began: number) => {
      ordered.landed(answer, began);
      unshareable.delete(key);
      const latest = ordered.latest() ?? answer;
      // Another fill has kept what began later; but it may have left in its place what only seems to be newer still.
      if (latest !== answer && !replace) return;
      const digests = partDigests(query.parts, captured, texts);
      memory.set(key, latest, digests, replace ? 'fresh' : 'usual');
      emit({ type: 'stored', project: query.project, bytes: answer.body.length });
    };
    const refused = () => void unshareable.set(key, clock.now() + UNSHAREABLE_FOR);
    const result = await fillFrom({ query, client, flight, keep, refused });
    if (result !== undefined && typeof result !== 'string') {
      return { fill: ordered, answer: result, tokens: captured.tokens, replace };
    }
    ordered.end();
    return undefined;
  }

  const fillOptions = {
    maxEntry: options.maxEntry,
    lifetime: (ttl: number) => ttl * (1 - TTL_JITTER + 2 * TTL_JITTER * options.random()),
    clock,
    account: options.account,
    inUse: options.inUse,
    inspections: createInspections(),
    emit,
  };
  const fillFrom = (job: FillJob) => fill(job, fillOptions);

  /** Milliseconds for which the answer may be used, also when the ttl was shortened after it was stored. */
  function timeLeft(answer: StoredAnswer, query: Pick<Query, 'ttl'>): number {
    const wall = clock.wall();
    const shortened = answer.requestedAt + query.ttl * (1 + TTL_JITTER) - wall;
    return Math.min(remaining(answer, wall), shortened);
  }

  function replay(
    answer: StoredAnswer,
    source: HitSource,
    key: string,
    query: FetchedQuery,
    client: Client,
  ): void {
    query.answered?.();
    client.replay(answer, {
      outcome: { kind: 'hit', detail: source },
      ttl: Math.max(0, timeLeft(answer, query)),
      age: Math.max(0, clock.wall() - answer.requestedAt),
      sessionId: query.session?.id,
      gzip: memory.gzipOf(key, answer),
    });
  }

  const answerWithoutEpochs = createAnswerWithoutEpochs({
    ...options,
    withoutEpochs: unknownEpochs,
    askEngine: fillFrom,
    replay: (answered, ...rest) => replay(answered, 'coalesced', ...rest),
  });

  return {
    answer,
    ...createKnownAnswers({ epochs, memory, entries, clock, timeLeft, replay }),
    explain: createExplain({ ...options, withoutEpochs: unknownEpochs, timeLeft }),
  };
}

/** Stands for the epochs in the key of what does not depend on them. */
function withoutEpochs(keySecret: string): CapturedEpochs {
  return { scopes: [], tokens: [], keySecret };
}
