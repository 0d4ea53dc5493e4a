import type { LRUCache } from 'lru-cache';
import type { Clock } from '../clock.ts';
import type { Emit, Outcome } from '../events.ts';
import type { Gate } from '../gate.ts';
import type { HitSource } from '../reasons.ts';
import { decodeEntry, encodeEntry } from './entry-codec.ts';
import type { CapturedEpochs, Epochs } from './epochs.ts';
import { createExplain, type Explain } from './explain.ts';
import { createFillOrder, type OrderedFill } from './fill-order.ts';
import { fill } from './fill.ts';
import type { Flight, Flights } from './flight.ts';
import { queryKey } from './key.ts';
import type { MemoryTier } from './memory-tier.ts';
import { partDigests } from './part-digests.ts';
import type { Client, Query } from './query.ts';
import { remaining, type StoredAnswer } from './stored-answer.ts';
import type { ValueTier } from './value-tier.ts';

/** How often a look-up begins anew because the epochs changed under it. */
const MAX_LOOKUPS = 3;
/** For how long an answer that could not be shared keeps others from waiting for the next one (ms). */
const UNSHAREABLE_FOR = 5_000;
/** Entries of one moment should not all end in one moment: their ttl varies by this part of it. */
const TTL_JITTER = 0.1;

const EPOCHS_UNKNOWN: Outcome = { kind: 'bypass', detail: 'epochs-unknown' };

export interface QueryCache {
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
  /** The epochs under which the key was made. */
  readonly captured: CapturedEpochs;
}

/** A fill whose answer, or one that began later, is still to be kept in tier 2. */
interface Filled {
  readonly fill: OrderedFill;
  readonly answer: StoredAnswer;
  /** Whether it was asked for as a fresh one, which takes the place of whatever is there. */
  readonly replace: boolean;
}

export function createQueryCache(options: {
  epochs: Epochs;
  memory: MemoryTier;
  /** Tier 2; undefined without Redis. */
  values: ValueTier | undefined;
  flights: Flights;
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
  emit: Emit;
}): QueryCache {
  const { epochs, memory, values, flights, unshareable, clock, emit } = options;
  const order = createFillOrder();
  const withoutEpochs: CapturedEpochs = {
    scopes: [],
    tokens: [],
    keySecret: options.processSecret,
  };

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
    const key = queryKey(query.parts, captured);
    const at = { key, captured };
    if (query.fresh) {
      await lead(at, query, client);
      return true;
    }
    const outside = memory.get(key) === undefined && values !== undefined;
    const inValues = outside ? await fromValues(values, key) : undefined;
    // No await from here to the replay, the join or the lead: what is decided holds when it happens. The
    // await above may have outlived the lease, or brought a purge.
    if (!epochs.areCurrent(captured)) return false;
    // Another request's fill may have landed since the first look: without this second one, two requests
    // that come one after the other could both ask the engine.
    const inMemory = memory.get(key);
    const found = inMemory ?? inValues;
    if (found !== undefined && timeLeft(found, query) > 0) {
      if (inMemory === undefined) memory.set(key, found, partDigests(query.parts, captured));
      replay(found, inMemory === undefined ? 'redis' : 'memory', key, query, client);
      return true;
    }
    const landing = mayShare(key) ? flights.join(key, client.signal) : undefined;
    if (landing === undefined) await lead(at, query, client);
    else await afterLanding(await landing.catch(() => 'gone' as const), at, query, client);
    return true;
  }

  function mayShare(key: string): boolean {
    return (unshareable.get(key) ?? 0) <= clock.now();
  }

  /** Asks the engine, with a flight for those who come later. One that is under way is no longer joined then. */
  async function lead(at: Place, query: Query, client: Client): Promise<void> {
    const flight = mayShare(at.key) ? flights.lead(at.key) : undefined;
    await toValues(at.key, await fillAndKeep(at, query, client, flight));
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
      return toValues(key, await fillAndKeep(at, query, client, undefined));
    }
    // It was joined under the epochs in force when this request came, and its engine request began under
    // them: that is all the promise asks. A purge that came while it waited does not concern it.
    if (landed.kind === 'answer') return replay(landed.answer, 'coalesced', key, query, client);
    const filled = await inTurn(landed.turns, client, () => {
      const found = memory.get(key);
      const usable = found !== undefined && timeLeft(found, query) > 0;
      if (!usable || !epochs.areCurrent(at.captured)) {
        return fillAndKeep(at, query, client, undefined);
      }
      replay(found, 'coalesced', key, query, client);
      return undefined;
    });
    await toValues(key, filled);
  }

  /** Asks the engine and keeps its answer in memory. Undefined when it may not be kept. */
  async function fillAndKeep(
    { key, captured }: Place,
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
      memory.set(key, latest, partDigests(query.parts, captured), replace ? 'fresh' : 'usual');
      emit({ type: 'stored', project: query.project, bytes: answer.body.length });
    };
    const refused = () => void unshareable.set(key, clock.now() + UNSHAREABLE_FOR);
    const result = await fill({ query, client, flight, keep, refused }, fillOptions);
    if (result !== undefined && typeof result !== 'string') {
      return { fill: ordered, answer: result, replace };
    }
    ordered.end();
    return undefined;
  }

  /**
   * While nothing says which entries are true, every query goes to the engine; those that arrive in less time
   * than a purge takes still share one engine request.
   */
  async function answerWithoutEpochs(query: Query, client: Client): Promise<void> {
    if (client.signal.aborted) return;
    const key = queryKey(query.parts, withoutEpochs);
    const joined = query.fresh ? undefined : flights.join(key, client.signal, options.purgeTakes);
    const flight = joined === undefined ? flights.lead(key) : undefined;
    const landed = await joined?.catch(() => 'gone' as const);
    if (landed === 'gone') return;
    const pass = () =>
      fill({ query, client, flight, keep: undefined, bypass: EPOCHS_UNKNOWN }, fillOptions);
    if (landed === undefined || landed === 'late') await pass();
    else if (landed.kind === 'nothing') await inTurn(landed.turns, client, pass);
    else replay(landed.answer, 'coalesced', key, query, client);
  }

  const fillOptions = {
    maxEntry: options.maxEntry,
    lifetime: (ttl: number) => ttl * (1 - TTL_JITTER + 2 * TTL_JITTER * options.random()),
    clock,
    emit,
  };

  /** Milliseconds for which the answer may be used, also when the ttl was shortened after it was stored. */
  function timeLeft(answer: StoredAnswer, query: Pick<Query, 'ttl'>): number {
    const lifetime = Math.min(answer.lifetime, query.ttl * (1 + TTL_JITTER));
    return remaining({ ...answer, lifetime }, clock.wall());
  }

  function replay(
    answer: StoredAnswer,
    source: HitSource,
    key: string,
    query: Query,
    client: Client,
  ): void {
    client.replay(answer, {
      outcome: { kind: 'hit', detail: source },
      ttl: Math.max(0, timeLeft(answer, query)),
      age: Math.max(0, clock.wall() - answer.requestedAt),
      sessionId: query.session?.id,
      gzip: memory.gzipOf(key, answer),
    });
  }

  async function fromValues(tier: ValueTier, key: string): Promise<StoredAnswer | undefined> {
    try {
      const value = await tier.get(key);
      if (value === undefined) return undefined;
      const decoded = await decodeEntry(key, value, options.maxEntry);
      if (decoded.ok) return decoded.answer;
      emit({ type: 'entry-rejected', why: decoded.why });
    } catch (error) {
      emit({ type: 'redis-failed', operation: 'get', error });
    }
    return undefined;
  }

  /**
   * Keeps the answer in tier 2. Its client has it already, nobody waits for this. Also when the lease of its
   * epochs ran out meanwhile: whether they are still in force is asked by those who look for it.
   */
  async function toValues(key: string, filled: Filled | undefined): Promise<void> {
    if (filled === undefined) return;
    try {
      if (values !== undefined) await writeLatest(values, key, filled);
    } catch (error) {
      emit({ type: 'redis-failed', operation: 'set', error });
    } finally {
      filled.fill.end();
    }
  }

  /** What began later must not be overwritten: whether something has is looked at in the turn that sends the value. */
  async function writeLatest(tier: ValueTier, key: string, { fill: ordered, ...filled }: Filled) {
    let answer: StoredAnswer;
    let value: Buffer;
    do {
      answer = ordered.latest() ?? filled.answer;
      // Its own fill writes it; but in the usual way, which a clock that runs ahead can hinder.
      if (answer !== filled.answer && !filled.replace) return;
      value = await encodeEntry(key, answer);
    } while ((ordered.latest() ?? answer) !== answer);
    const lifetime = remaining(answer, clock.wall());
    await tier.set(key, value, lifetime, { replace: filled.replace });
  }

  return { answer, explain: createExplain({ ...options, withoutEpochs, timeLeft }) };
}

/** Waits for a turn and does the work in it; undefined when the client went away before. */
async function inTurn<T>(
  turns: Gate,
  client: Client,
  work: () => T | Promise<T>,
): Promise<T | undefined> {
  const leave = await turns.enter(client.signal).catch(() => undefined);
  if (leave === undefined) return undefined;
  try {
    return await work();
  } finally {
    leave();
  }
}
