import type { Announcement, Listener, Scope } from '../../../src/freshness/freshness-store.ts';
import type { FlightLock, Standing } from '../../../src/cache/shared-flights.ts';
import type { SimulatedTime } from '../time.ts';

/** Who asks, as the scripts of the product are told. */
export interface Caller {
  readonly id: string;
  /** Of what it reads now, and the longest that any gateway may have (ms). */
  readonly lease: number;
  readonly longest: number;
}

interface Lasting<T> {
  readonly value: T;
  /** When it is over (ms). */
  readonly over: number;
}

/** What a snapshot saves. */
const nothing = () => ({
  incarnation: '',
  keySecret: '',
  tokens: new Map<string, Lasting<string>>(),
  /** By id and length: when the note is over. */
  leases: new Map<string, number>(),
  entries: new Map<string, Lasting<Buffer>>(),
  locks: new Map<string, Lasting<string>>(),
  slow: new Map<string, Lasting<number>>(),
  tasks: new Map<string, Lasting<string>>(),
  notes: new Map<string, string>(),
});
type State = ReturnType<typeof nothing>;

/** Keys that a server without memory may drop. */
export const EVICTED = ['entries', 'leases', 'tokens', 'tasks', 'notes', 'locks'] as const;
const COMPLETE = 'complete';
const NOTHING = 'nothing';

export type SimulatedRedis = ReturnType<typeof createRedis>;

/**
 * Redis as the scripts of the product use it (redis/redis-freshness.ts, redis/redis-cache.ts), each call one atomic step. The
 * scripts themselves run in the integration tests and under the oracle of processes.
 */
export function createRedis(options: {
  time: SimulatedTime;
  newToken: () => string;
  /** Whether what is published is lost. */
  isDeaf: () => boolean;
}) {
  const { time, newToken, isDeaf } = options;
  let state = nothing();
  let saved: State | undefined;
  let replid = newToken();
  let skew = 0;
  const listeners = new Map<string, { tell: (run: () => void) => void; listener: Listener }>();
  const now = () => time.clock.now() + skew;

  function held<T>(table: Map<string, Lasting<T>>, key: string): T | undefined {
    const found = table.get(key);
    return found !== undefined && found.over > now() ? found.value : undefined;
  }

  /** The beginning of every script: notices a restart, and notes the lease of the caller. */
  function begin({ id, lease, longest: allowed }: Caller) {
    const { leases, tokens } = state;
    if (state.incarnation !== replid) {
      tokens.set('everything', { value: newToken(), over: Infinity });
      leases.delete(COMPLETE);
    }
    if (!leases.has(COMPLETE))
      leases.set(`lost ${allowed}`, now() + allowed).set(COMPLETE, Infinity);
    state.incarnation = replid;
    for (const [note, over] of leases) {
      if (over > now()) continue;
      leases.delete(note);
      const again = /^\S+ (\S+)$/.exec(note);
      if (again !== null) leases.set(`${note} again`, now() + Number(again[1]));
    }
    leases.set(`${id} ${lease}`, now() + lease * 10);
    let [longest, others] = [0, 0];
    for (const note of leases.keys()) {
      if (note === COMPLETE) continue;
      const [holder, length] = note.split(' ');
      longest = Math.max(longest, Number(length));
      if (holder !== id) others = Math.max(others, Number(length));
    }
    return { lease: longest, others };
  }

  return {
    tokens(mode: 'read' | 'renew', scopes: readonly Scope[], caller: Caller, unusedAfter: number) {
      const leases = begin(caller);
      state.keySecret ||= newToken();
      let known = false;
      const tokens = scopes.map((scope) => {
        const isProject = scope.startsWith('project:');
        const over = isProject ? now() + unusedAfter : Infinity;
        const present = held(state.tokens, scope);
        if (mode === 'renew' && isProject && present === undefined) return '';
        known ||= mode === 'renew' && isProject;
        const value = mode === 'renew' ? newToken() : (present ?? newToken());
        state.tokens.set(scope, { value, over });
        return value;
      });
      return { incarnation: replid, ...leases, keySecret: state.keySecret, known, tokens };
    },
    listen: (id: string, tell: (run: () => void) => void, listener: Listener) =>
      void listeners.set(id, { tell, listener }),
    publish({ purge, scopes }: Announcement, from: string): void {
      for (const [id, { tell, listener }] of listeners) {
        if (isDeaf()) continue;
        tell(() => {
          listener.renewed(scopes);
          const caller = listeners.get(from);
          if (id !== from) caller?.tell(() => caller.listener.forgotten(purge, id));
        });
      }
    },
    leave: (id: string) => void listeners.delete(id),
    get: (key: string) => held(state.entries, key) ?? Buffer.of(),
    /** Bytes 8 to 15 say when it began: what began later stays. */
    set(key: string, value: Buffer, lifetime: number, replace: boolean): void {
      const present = held(state.entries, key);
      const isLater = present && present.readBigUInt64BE(8) > value.readBigUInt64BE(8);
      if (!isLater || replace) state.entries.set(key, { value, over: now() + lifetime });
    },
    enter({ query, key }: FlightLock, token: string, life: number): Standing {
      const expected = held(state.slow, query);
      if (expected === undefined) return { kind: 'fast' };
      const holder = held(state.locks, key);
      if (holder === NOTHING) return { kind: 'nothing' };
      if (holder !== undefined && holder !== token) return { kind: 'wait', expected };
      state.locks.set(key, { value: token, over: now() + life });
      return { kind: 'lead', expected };
    },
    beat({ key }: FlightLock, token: string, life: number): boolean {
      if (held(state.locks, key) !== token) return false;
      state.locks.set(key, { value: token, over: now() + life });
      return true;
    },
    leaveLock({ key }: FlightLock, token: string, forMs: number): void {
      if (held(state.locks, key) !== token) return;
      state.locks.delete(key);
      if (forMs > 0) state.locks.set(key, { value: NOTHING, over: now() + forMs });
    },
    markSlow: (query: string, ms: number, life: number) =>
      void state.slow.set(query, { value: ms, over: now() + life }),
    unmark: (query: string) => void state.slow.delete(query),
    hold(task: string, holder: string, life: number): boolean {
      if ((held(state.tasks, task) ?? holder) !== holder) return false;
      state.tasks.set(task, { value: holder, over: now() + life });
      return true;
    },
    leaveTask(task: string, holder: string): void {
      if (held(state.tasks, task) === holder) state.tasks.delete(task);
    },
    note: (name: string) => state.notes.get(name),
    write(name: string, text: string, holder: string, task?: string): boolean {
      if (task !== undefined && held(state.tasks, task) !== holder) return false;
      state.notes.set(name, text);
      return true;
    },
    /** Notes what a restart may bring back. */
    save: () => void (saved = structuredClone(state)),
    /** Another server, which has a new incarnation; with what was saved, or with nothing. */
    restart(comesBack: 'empty' | 'as it was saved'): void {
      const before = comesBack === 'empty' ? undefined : saved;
      state = before === undefined ? nothing() : structuredClone(before);
      // What structuredClone makes of a Buffer is none.
      for (const [key, { value, over }] of state.entries)
        state.entries.set(key, { value: Buffer.from(value), over });
      replid = newToken();
    },
    evict: (what: (typeof EVICTED)[number]) => state[what].clear(),
    /** Its clock is set forward, or back. */
    stepClock: (ms: number) => void (skew += ms),
  };
}
