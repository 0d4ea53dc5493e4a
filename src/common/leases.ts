import type { Clock } from './clock.ts';
import { createOwnedTable } from './owned-table.ts';

/** Range of leases (ms). A purge waits for the longest while other replicas are not known. */
export const LEASE_LIMITS = { shortest: 100, longest: 2_000 } as const;
/** A tenth more, for clocks that do not run alike. */
export const LEASE_MARGIN = 1.1;
/** Tries; one more than needed does no harm. */
export const RENEWAL_TRIES = 3;
/** Pause between tries (ms), in which Redis may restart. */
const RENEWAL_PAUSE = 300;

/** Undefined when the store did not confirm it. */
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
export type Lease = LeaseStart & { readonly length: number };
export const leaseStart = (clock: Pick<Clock, 'now' | 'wall'>) => ({
  now: clock.now(),
  wall: clock.wall(),
});

/** Checks both clocks: the monotonic one may stand still in a sleep. */
export function leaseHolds(start: LeaseStart, length: number, { now, wall }: LeaseStart): boolean {
  return now - start.now < length && wall >= start.wall && wall - start.wall < length;
}

/** Reads of one question whose reply a renewal, or slowness, made worthless. */
const MAX_READS = 4;
/** Times that a name is read beside others, though it is not used. */
const MOST_UNUSED = 10;

/** One object while its name is kept; afterwards it never holds again. */
export interface Leased<V> {
  readonly name: string;
  readonly value: V;
  readonly since: Lease | undefined;
}
type Kept<V> = { -readonly [K in keyof Leased<V>]: Leased<V>[K] };

/**
 * Values read from a store that others change. A gateway may use each for at most a lease after it
 * *sent* the question. A change waits longer than that between the store's word and its own answer.
 * @param options.lease of questions asked now (ms)
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
    uses.end(entry);
  });
  const { watch, overtake } = createWatches();
  const uses = createUses<V>(clock);

  const begin = (): Lease => ({ ...leaseStart(clock), length: lease() });
  const holds = ({ since }: Leased<V>, at = leaseStart(clock)) =>
    since !== undefined && leaseHolds(since, since.length, at);
  function leased(name: string): Leased<V> | undefined {
    const entry = entries.get(name);
    return entry !== undefined && holds(entry) ? entry : undefined;
  }

  /** @param since before the store was asked; undefined: not to be used */
  function keep(name: string, value: V, since: Lease | undefined): void {
    const entry = entries.get(name);
    if (entry === undefined || ownerOf(entry.value) !== ownerOf(value)) {
      return entries.set(name, ownerOf(value), { name, value, since });
    }
    [entry.value, entry.since] = [value, since];
  }

  return {
    begin,
    watch,
    ...createReads(begin, watch, options.onError),
    leased,
    held: (name: string): V | undefined => leased(name)?.value,
    holds,
    use: uses.begin,
    inUse: uses.list,
    /** Never for an answer to a request: it may be of any age. */
    last: (name: string) => entries.get(name)?.value,
    keep,
    /** Keeps what was read beside others, unless the lease of `before` is another now. */
    keepInstead(before: Leased<V>, value: V, since: Lease): void {
      const entry = entries.get(before.name);
      if (entry === undefined || entry.since !== before.since) return;
      keep(before.name, value, since);
      uses.age(entry);
    },
    amend(name: string, change: (value: V) => V): void {
      const entry = entries.get(name);
      if (entry !== undefined) entry.value = change(entry.value);
    },
    /** Ends leases, and discards replies under way. */
    forget(names: readonly string[] | 'all'): void {
      overtake(names);
      const forgotten = names === 'all' ? entries.values() : names.map(entries.get);
      for (const entry of forgotten) if (entry !== undefined) entry.since = undefined;
    },
    drop: entries.delete,
    age(): number | undefined {
      // Taken first: what holds later is younger than its lease.
      const now = clock.now();
      let longest: number | undefined;
      for (const entry of entries.values()) {
        if (holds(entry)) longest = Math.max(longest ?? 0, now - (entry.since?.now ?? now));
      }
      return longest;
    },
  };
}

function createReads(
  begin: () => Lease,
  watch: ReturnType<typeof createWatches>['watch'],
  onError: (error: unknown) => void,
) {
  const reads = new Map<string, { watch: ReturnType<typeof watch>; result: Promise<unknown> }>();

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
        onError(error);
        return undefined;
      }
    }
    return undefined;
  }

  return {
    /** Asks again until a reply counts; undefined when none does. Never rejects. */
    read,
    /** Shares a read with callers that come before it ends and before the names change. */
    readOnce<R, T>(...question: Parameters<typeof read<R, T>>): Promise<T | undefined> {
      const [names] = question;
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
  };
}

function createUses<V>(clock: Pick<Clock, 'now'>) {
  /** Times that each was read beside others since its last use. */
  const unused = new Map<Leased<V>, number>();
  const end = (entry: Leased<V>): void => void unused.delete(entry);

  return {
    begin: (entry: Leased<V>): void => void unused.set(entry, 0),
    end,
    age(entry: Leased<V>): void {
      const times = (unused.get(entry) ?? 0) + 1;
      if (times > MOST_UNUSED) end(entry);
      else unused.set(entry, times);
    },
    /** Lists those in use whose leases are half over, or over for less than a lease. */
    list(isWanted: (name: string) => boolean, most: number): readonly Leased<V>[] {
      const now = clock.now();
      const found: Leased<V>[] = [];
      for (const entry of unused.keys()) {
        const { name, since } = entry;
        const leases = since === undefined ? Infinity : (now - since.now) / since.length;
        if (leases > 2) end(entry);
        else if (leases >= 1 / 2 && isWanted(name)) found.push({ ...entry });
        if (found.length === most) break;
      }
      return found;
    },
  };
}

function createWatches() {
  const watches = new Set<{ readonly names: readonly string[]; overtaken: boolean }>();
  return {
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
