import type { Clock } from './clock.ts';
import { createOwnedTable } from './owned-table.ts';

/** What a lease is waited out with: a tenth more, for clocks that do not run alike. */
export const LEASE_MARGIN = 1.1;
export type LeaseStart = Readonly<ReturnType<typeof leaseStart>>;
/** One that was told to the store with the question that it began with; its length in milliseconds. */
type Lease = LeaseStart & { readonly length: number };
/** The moment from which a lease is counted, by both clocks. */
export const leaseStart = (clock: Clock) => ({ now: clock.now(), wall: clock.wall() });

/**
 * Whether a lease of `length` milliseconds still holds: by both clocks, and the wall clock has not stepped back. The
 * monotonic clock may stand still while a machine sleeps, and the wall clock may be set.
 */
export function leaseHolds(start: LeaseStart, length: number, clock: Clock): boolean {
  const wall = clock.wall();
  return clock.now() - start.now < length && wall >= start.wall && wall - start.wall < length;
}

/** How often a question is sent again because a renewal, or its slowness, made its reply worthless. */
const MAX_READS = 4;

interface Entry<V> {
  value: V;
  /** Undefined: it may not be used. */
  since: Lease | undefined;
}

/**
 * What a gateway has read of a store that others change too, and for how long it may use it: for at most a lease after
 * the question was *sent*. A change waits longer than that between the store's word and its own answer.
 * @param options.max of so many values at most, and of a quarter of them by one owner; the others are read again
 * @param options.ownerOf whose a value is
 * @param options.onError told of every question that failed
 */
export function createLeaseCache<V>(options: {
  clock: Clock;
  /** That of the questions that are asked now (ms). */
  lease: () => number;
  max: number;
  ownerOf: (value: V) => string;
  onError: (error: unknown) => void;
}) {
  const { clock, lease, ownerOf } = options;
  const entries = createOwnedTable<Entry<V>>(options.max);
  const watches = new Set<{ readonly names: readonly string[]; overtaken: boolean }>();
  const reads = new Map<string, { watch: ReturnType<typeof watch>; result: Promise<unknown> }>();

  const begin = (): Lease => ({ ...leaseStart(clock), length: lease() });

  const holds = ({ since }: Entry<V>) =>
    since !== undefined && leaseHolds(since, since.length, clock);

  /** Sees whether what a question is about was renewed while it was under way. */
  function watch(names: readonly string[]) {
    const watched = { names, overtaken: false };
    watches.add(watched);
    return { overtaken: () => watched.overtaken, stop: () => void watches.delete(watched) };
  }

  async function read<R, T>(
    names: readonly string[],
    ask: () => Promise<R>,
    take: (reply: R, since: Lease) => T | undefined,
  ): Promise<T | undefined> {
    for (let sent = 0; sent < MAX_READS; sent += 1) {
      const since = begin();
      const watching = watch(names);
      try {
        const reply = await ask();
        const taken = watching.overtaken() ? undefined : take(reply, since);
        if (taken !== undefined) return taken;
      } catch (error) {
        options.onError(error);
        return undefined;
      } finally {
        watching.stop();
      }
    }
    return undefined;
  }

  return {
    /** The lease of a question that is sent in this turn. */
    begin,
    watch,
    /**
     * Asks until the reply was not overtaken and is young enough. Never rejects.
     * @param take keeps the reply; undefined when it came too late to be used
     * @returns undefined when every reply was worthless, or none came
     */
    read,
    /** The same; callers that come while it is under way, and before the next change of the names, share it. */
    readOnce<R, T>(...question: Parameters<typeof read<R, T>>): Promise<T | undefined> {
      const [names] = question;
      // A name may hold anything, also what would join two.
      const key = JSON.stringify(names);
      const running = reads.get(key);
      // All callers of one cache ask the same of the same names.
      if (running?.watch.overtaken() === false) return running.result as Promise<T | undefined>;
      const watching = watch(names);
      const result = read(...question).finally(() => {
        watching.stop();
        if (reads.get(key)?.watch === watching) reads.delete(key);
      });
      reads.set(key, { watch: watching, result });
      return result;
    },
    /** What may be used at this very moment. */
    held(name: string): V | undefined {
      const entry = entries.get(name);
      return entry !== undefined && holds(entry) ? entry.value : undefined;
    },
    /** What was known last, of whatever age: never for what a request is answered with. */
    last: (name: string) => entries.get(name)?.value,
    /** @param since taken before the store was asked; undefined for what may not be used */
    keep: (name: string, value: V, since: Lease | undefined) =>
      entries.set(name, ownerOf(value), { value, since }),
    /** Changes a value where there is one, and neither its owner nor for how long it may be used. */
    amend(name: string, change: (value: V) => V): void {
      const entry = entries.get(name);
      if (entry !== undefined) entry.value = change(entry.value);
    },
    /** Nothing of it may be used any more; the reply to a question that is under way is worthless. */
    forget(names: readonly string[] | 'all'): void {
      const isOne = (name: string) => names === 'all' || names.includes(name);
      for (const one of watches) one.overtaken ||= one.names.some(isOne);
      const forgotten = names === 'all' ? entries.values() : names.map(entries.get);
      for (const entry of forgotten) if (entry !== undefined) entry.since = undefined;
    },
    /** Forgets it, and what was known last. */
    drop: entries.delete,
    /** Milliseconds since the oldest value in use was asked for; undefined when none is held. */
    age(): number | undefined {
      const starts = entries.values().map((entry) => (holds(entry) ? entry.since?.now : undefined));
      const oldest = starts.reduce<number>(
        (first, now = Infinity) => Math.min(first, now),
        Infinity,
      );
      return oldest === Infinity ? undefined : clock.now() - oldest;
    },
  };
}
