import type { Clock } from './clock.ts';
import { createOwnedTable } from './owned-table.ts';

/**
 * The leases that may be named (ms). While nothing is known of other replicas, a purge waits for
 * the longest.
 */
export const LEASE_LIMITS = { shortest: 100, longest: 2_000 } as const;
/** Factor of the wait for a lease: a tenth more, for clocks that do not run alike. */
export const LEASE_MARGIN = 1.1;
/** Tries of a renewal; one more than needed does no harm. */
export const RENEWAL_TRIES = 3;
/** Between two tries, so that a Redis that restarts has time for it (ms). */
const RENEWAL_PAUSE = 300;

/** Undefined when the store did not confirm it. @param failed told of each try that failed */
export async function tryToRenew<T>(
  renew: () => Promise<T>,
  sleep: (milliseconds: number) => Promise<void>,
  failed: (error: unknown) => void,
  most = RENEWAL_TRIES,
): Promise<T | undefined> {
  for (let tries = 0; tries < most; tries += 1) {
    if (tries > 0) await sleep(RENEWAL_PAUSE);
    try {
      return await renew();
    } catch (error) {
      failed(error);
    }
  }
  return undefined;
}

export type LeaseStart = Readonly<ReturnType<typeof leaseStart>>;
/** One that the store was told, with its length (ms). */
export type Lease = LeaseStart & { readonly length: number };
/** The moment from which a lease is counted, by both clocks. */
export const leaseStart = (clock: Pick<Clock, 'now' | 'wall'>) => ({
  now: clock.now(),
  wall: clock.wall(),
});

/**
 * A lease holds by both clocks, unless the wall clock has stepped back: the other may stand still
 * in a sleep.
 */
export function leaseHolds(start: LeaseStart, length: number, { now, wall }: LeaseStart): boolean {
  return now - start.now < length && wall >= start.wall && wall - start.wall < length;
}

/** How often a question is sent again whose reply a renewal, or its slowness, made worthless. */
const MAX_READS = 4;

/** A value under its lease: one object as long as its name is kept; then it never holds again. */
export interface Leased<V> {
  readonly value: V;
  /** Undefined: it may not be used. */
  readonly since: Lease | undefined;
}
type Kept<V> = { -readonly [K in keyof Leased<V>]: Leased<V>[K] };

/**
 * Values that a gateway has read of a store that others change too. It may use each for at most a
 * lease after the question was *sent*. A change waits longer than that between the store's word and
 * its own answer.
 * @param options.lease of the questions that are asked now (ms)
 * @param options.max of all values; of a quarter of them by one owner
 */
export function createLeaseCache<V>(options: {
  clock: Pick<Clock, 'now' | 'wall'>;
  lease: () => number;
  max: number;
  ownerOf: (value: V) => string;
  onError: (error: unknown) => void;
}) {
  const { clock, lease, ownerOf } = options;
  const entries = createOwnedTable<Kept<V>>(options.max, undefined, (entry) => {
    entry.since = undefined;
  });
  const { watch, overtake } = createWatches();
  const reads = new Map<string, { watch: ReturnType<typeof watch>; result: Promise<unknown> }>();

  const begin = (): Lease => ({ ...leaseStart(clock), length: lease() });
  const holds = ({ since }: Leased<V>, at = leaseStart(clock)) =>
    since !== undefined && leaseHolds(since, since.length, at);
  /** If it may be used at this very moment. */
  function leased(name: string): Leased<V> | undefined {
    const entry = entries.get(name);
    return entry !== undefined && holds(entry) ? entry : undefined;
  }

  async function read<R, T>(
    names: readonly string[],
    ask: () => Promise<R>,
    take: (reply: R, since: Lease) => T | undefined,
  ): Promise<T | undefined> {
    for (let sent = 0; sent < MAX_READS; sent += 1) {
      const since = begin();
      using watching = watch(names);
      try {
        const reply = await ask();
        const taken = watching.overtaken ? undefined : take(reply, since);
        if (taken !== undefined) return taken;
      } catch (error) {
        options.onError(error);
        return undefined;
      }
    }
    return undefined;
  }

  return {
    begin,
    watch,
    /** Asks until the reply counts, or in vain; never rejects. `take` keeps what came in time. */
    read,
    /** Shares a read with callers that come before it ends, and before the names change. */
    readOnce<R, T>(...question: Parameters<typeof read<R, T>>): Promise<T | undefined> {
      const [names] = question;
      // A name may hold anything; all callers ask the same of the same names.
      const key = JSON.stringify(names);
      const running = reads.get(key);
      if (running?.watch.overtaken === false) return running.result as Promise<T | undefined>;
      const watching = watch(names);
      const result = read(...question).finally(() => {
        watching[Symbol.dispose]();
        if (reads.get(key)?.watch === watching) reads.delete(key);
      });
      reads.set(key, { watch: watching, result });
      return result;
    },
    leased,
    /** If it may be used at this very moment. */
    held: (name: string): V | undefined => leased(name)?.value,
    /** Whether what was leased may be used, by default at this very moment. */
    holds,
    /** A value of any age: never for what a request is answered with. */
    last: (name: string) => entries.get(name)?.value,
    /** @param since taken before the store was asked; undefined for what may not be used */
    keep(name: string, value: V, since: Lease | undefined): void {
      const entry = entries.get(name);
      if (entry === undefined || ownerOf(entry.value) !== ownerOf(value)) {
        entries.set(name, ownerOf(value), { value, since });
      } else [entry.value, entry.since] = [value, since];
    },
    /** Changes a value, not for how long it may be used. */
    amend(name: string, change: (value: V) => V): void {
      const entry = entries.get(name);
      if (entry !== undefined) entry.value = change(entry.value);
    },
    /** Nothing of it may be used any more, nor the reply to a question that is under way. */
    forget(names: readonly string[] | 'all'): void {
      overtake(names);
      const forgotten = names === 'all' ? entries.values() : names.map(entries.get);
      for (const entry of forgotten) if (entry !== undefined) entry.since = undefined;
    },
    drop: entries.delete,
    /** Milliseconds since the oldest value in use was asked for. */
    age(): number | undefined {
      // Taken first: what holds a moment later is younger than its lease.
      const now = clock.now();
      const inUse = entries.values().filter((entry) => holds(entry));
      const ages = inUse.map(({ since }) => now - (since?.now ?? now));
      return ages.reduce<number | undefined>((most = 0, age) => Math.max(most, age), undefined);
    },
  };
}

/** Sees whether what a question is about was renewed while it was under way. */
function createWatches() {
  const watches = new Set<{ readonly names: readonly string[]; overtaken: boolean }>();
  return {
    /** Ends when it is disposed of. */
    watch(names: readonly string[]) {
      const stop = () => void watches.delete(watched);
      const watched = { names, overtaken: false, [Symbol.dispose]: stop };
      watches.add(watched);
      return watched;
    },
    overtake(names: readonly string[] | 'all'): void {
      const isOne = (name: string) => names === 'all' || names.includes(name);
      for (const one of watches) one.overtaken ||= one.names.some(isOne);
    },
  };
}
