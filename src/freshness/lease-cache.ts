import { leaseHolds, leaseStart, type Clock, type Lease } from '../common/clock.ts';
import { createOwnedTable } from '../common/owned-table.ts';

/** How often a question is sent again because a renewal, or its slowness, made its reply worthless. */
const MAX_READS = 4;

/** Sees whether what a question is about was renewed while it was under way. */
export interface Watch {
  overtaken(): boolean;
  stop(): void;
}

/**
 * What a gateway has read of a store that others change too, and for how long it may use it: for at most a lease after
 * the question was *sent*. A change waits longer than that between the store's word and its own answer.
 */
export interface LeaseCache<V> {
  /** The lease of a question that is sent in this turn. */
  begin(): Lease;
  /** What may be used at this very moment. */
  held(name: string): V | undefined;
  /** What was known last, of whatever age: never for what a request is answered with. */
  last(name: string): V | undefined;
  /** @param since taken before the store was asked; undefined for what may not be used */
  keep(name: string, value: V, since: Lease | undefined): void;
  /** Changes a value where there is one, and not for how long it may be used. */
  amend(name: string, change: (value: V) => V): void;
  /** Nothing of it may be used any more, and the reply to a question that is under way is worthless. */
  forget(names: readonly string[] | 'all'): void;
  /** Forgets it, and what was known last. */
  drop(name: string): void;
  /**
   * Asks until the reply was not overtaken and is young enough. Never rejects.
   * @param take keeps the reply; undefined when it came too late to be used
   * @returns undefined when every reply was worthless, or none came
   */
  read<R, T>(
    names: readonly string[],
    ask: () => Promise<R>,
    take: (reply: R, since: Lease) => T | undefined,
  ): Promise<T | undefined>;
  /** The same; callers that come while it is under way, and before the next change of the names, share it. */
  readOnce: LeaseCache<V>['read'];
  watch(names: readonly string[]): Watch;
  /** Milliseconds since the oldest value in use was asked for; undefined when none is held. */
  age(): number | undefined;
}

interface Entry<V> {
  readonly value: V;
  readonly since: Lease | undefined;
  /** Counts how often everything was forgotten before. */
  readonly era: number;
}

/**
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
}): LeaseCache<V> {
  const { clock, lease, ownerOf } = options;
  const entries = createOwnedTable<Entry<V>>(options.max);
  const watches = new Set<{ readonly names: readonly string[]; overtaken: boolean }>();
  const reads = new Map<string, { readonly asked: readonly string[]; result: Promise<unknown> }>();
  let era = 0;

  const begin = (): Lease => ({ ...leaseStart(clock), length: lease() });

  const holds = ({ since, era: keptIn }: Entry<V>) =>
    since !== undefined && keptIn === era && leaseHolds(since, since.length, clock);

  function watch(names: readonly string[]): Watch {
    const watched = { names, overtaken: false };
    watches.add(watched);
    return {
      overtaken: () => watched.overtaken,
      stop: () => void watches.delete(watched),
    };
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
    begin,
    watch,
    read,
    readOnce<R, T>(...question: Parameters<typeof read<R, T>>) {
      const [asked] = question;
      // A name may hold anything, also what would join two.
      const key = JSON.stringify(asked);
      const running = reads.get(key);
      // All callers of one cache ask the same of the same names.
      if (running !== undefined) return running.result as Promise<T | undefined>;
      const result = read(...question).finally(() => {
        if (reads.get(key) === started) reads.delete(key);
      });
      const started = { asked, result };
      reads.set(key, started);
      return result;
    },
    held(name) {
      const entry = entries.get(name);
      return entry !== undefined && holds(entry) ? entry.value : undefined;
    },
    last: (name) => entries.get(name)?.value,
    keep: (name, value, since) => entries.set(name, ownerOf(value), { value, since, era }),
    amend(name, change) {
      const entry = entries.get(name);
      if (entry === undefined) return;
      const value = change(entry.value);
      entries.set(name, ownerOf(value), { ...entry, value });
    },
    forget(names) {
      const concerns = (asked: readonly string[]) =>
        names === 'all' || asked.some((name) => names.includes(name));
      for (const one of watches) if (concerns(one.names)) one.overtaken = true;
      for (const [key, { asked }] of reads) if (concerns(asked)) reads.delete(key);
      if (names === 'all') era += 1;
      for (const name of names === 'all' ? [] : names) {
        const entry = entries.get(name);
        if (entry === undefined) continue;
        entries.set(name, ownerOf(entry.value), { ...entry, since: undefined });
      }
    },
    drop: entries.delete,
    age() {
      let oldest: number | undefined;
      for (const entry of entries.values()) {
        if (entry.since === undefined || !holds(entry)) continue;
        oldest = Math.max(oldest ?? 0, clock.now() - entry.since.now);
      }
      return oldest;
    },
  };
}
