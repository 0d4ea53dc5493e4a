import type {
  Announcement,
  FreshnessStore,
  Listener,
  Scope,
} from '../../../src/freshness/freshness-store.ts';
import { ReplyError } from 'ioredis';
import { oneIn, pick, type Random } from '../random.ts';
import { createSessions } from './sessions.ts';
import { type Caller, copyOf, emptyState, held, type Server } from './state.ts';
import { createValues } from './values.ts';

/** Keys of which a server without memory may drop one, or all. */
const EVICTED = ['entries', 'tokens', 'tasks', 'notes', 'locks', 'slow'] as const;

/** Errors of a server that does not write (redis.io, "Key eviction" and "Replication"). */
const REFUSALS = {
  full: "OOM command not allowed when used memory > 'maxmemory'.",
  readOnly: "READONLY You can't write against a read only replica.",
} as const;
export type Refusal = keyof typeof REFUSALS;

/** One hop from the server to who listens. */
type Tell = (run: () => void) => void;
type Store = Pick<FreshnessStore, 'session' | 'renew' | 'read' | 'incarnation'>;
export type RedisModel = ReturnType<typeof createRedisModel>;

/**
 * The scripts of the product (`src/redis`) as they act on one server, in simulated time, each call one atomic step. Held to
 * the contracts of the stores, like the scripts.
 * @param options.longestLease the longest lease that any gateway may have (ms)
 */
export function createRedisModel(options: {
  now: () => number;
  newToken: () => string;
  longestLease: number;
}) {
  const { newToken, longestLease } = options;
  const keySecret = newToken();
  let skew = 0;
  let replid = newToken();
  let state = emptyState();
  let saved = emptyState();
  /** What it says to whatever writes, scripts among them. */
  let refusal: Refusal | undefined;
  const listeners = new Map<string, { readonly tell: Tell; readonly listener: Listener }>();
  const now = () => options.now() + skew;

  function mayWrite(): void {
    if (refusal !== undefined) throw new ReplyError(REFUSALS[refusal]);
  }

  function enter({ id, lease }: Caller) {
    mayWrite();
    if (state.incarnation !== replid) {
      state.tokens.set('everything', { value: newToken(), over: Infinity });
      state.isComplete = false;
    }
    const { leases } = state;
    if (!state.isComplete) {
      const over = now() + longestLease;
      leases.set('lost', { caller: '', length: longestLease, over, isAgain: false });
      state.isComplete = true;
    }
    state.incarnation = replid;
    for (const [key, note] of leases) {
      if (note.over > now()) continue;
      leases.delete(key);
      // What ends is noted once more, for one lease.
      const again = { ...note, over: now() + note.length, isAgain: true };
      if (!note.isAgain) leases.set(`${key} again`, again);
    }
    const over = now() + lease * 10;
    leases.set(`${id} ${lease}`, { caller: id, length: lease, over, isAgain: false });
    let [longest, others] = [0, 0];
    for (const { caller, length } of leases.values()) {
      longest = Math.max(longest, length);
      if (caller !== id) others = Math.max(others, length);
    }
    return { longest, others };
  }

  const server: Server = {
    now,
    newToken,
    state: () => state,
    replid: () => replid,
    enter,
    mayWrite,
  };
  const isProject = (scope: string) => scope.startsWith('project:');

  function setToken(scope: string, value: string, { unusedAfter = Infinity }: Partial<Caller>) {
    state.tokens.set(scope, { value, over: isProject(scope) ? now() + unusedAfter : Infinity });
    return value;
  }
  const tokenOf = (scope: string, caller: Partial<Caller> = {}) =>
    setToken(scope, held(server, state.tokens, scope) ?? newToken(), caller);
  const askSession = createSessions(server, () => tokenOf('sessions'));

  function askTokens(mode: 'read' | 'renew', scopes: readonly Scope[], caller: Caller) {
    const { longest, others } = enter(caller);
    let known = false;
    const tokens = scopes.map((scope) => {
      if (mode === 'read') return tokenOf(scope, caller);
      if (isProject(scope)) {
        if (held(server, state.tokens, scope) === undefined) return '';
        known = true;
      }
      return setToken(scope, newToken(), caller);
    });
    return { incarnation: replid, lease: longest, others, keySecret, known, tokens };
  }

  function evict(random: Random): void {
    if (state.sessions.size > 0 && !oneIn(random, 4)) {
      return void state.sessions.delete(pick(random, [...state.sessions.keys()]));
    }
    const some = EVICTED.map((name) => state[name] as Map<string, unknown>).filter(
      ({ size }) => size > 0,
    );
    const drops = some.map((table) => () => {
      if (oneIn(random, 2)) table.clear();
      else table.delete(pick(random, [...table.keys()]));
    });
    const others = [
      () => void (state.incarnation = undefined),
      () => void Object.assign(state, { leases: new Map(), isComplete: false }),
    ];
    pick(random, [...drops, ...others])();
  }

  return {
    ...createValues(server),
    /** As one gateway asks it now. */
    of: (caller: Caller): Store => ({
      read: async (scopes) => askTokens('read', scopes, caller),
      renew: async (scopes) => askTokens('renew', scopes, caller),
      incarnation: async () => askTokens('read', [], caller).incarnation,
      session: async (name, call) => askSession(name, call, caller),
    }),
    listen: (id: string, tell: Tell, listener: Listener) =>
      void listeners.set(id, { tell, listener }),
    publish({ purge, scopes }: Announcement, from: string): void {
      for (const [id, { tell, listener }] of listeners) {
        tell(() => {
          listener.renewed(scopes);
          const caller = listeners.get(from);
          if (id !== from) caller?.tell(() => caller.listener.forgotten(purge, id));
        });
      }
    },
    leave: (id: string) => void listeners.delete(id),
    /** Notes what `restart` may bring back. */
    save: () => void (saved = copyOf(state)),
    /** Another incarnation, with nothing or with what was saved last. */
    restart(comesBack: 'empty' | 'as it was saved'): void {
      state = comesBack === 'empty' ? emptyState() : copyOf(saved);
      replid = newToken();
    },
    /** Has no room for some of its keys any more. */
    evict,
    /** All of its keys are gone; it is the same server. */
    forget: () => void (state = emptyState()),
    /** Has no memory for what is written, or is the replica of another one now. */
    refuseWrites: (as: Refusal | undefined) => void (refusal = as),
    /** Its clock is set forward, or back (ms). */
    stepClock: (ms: number) => void (skew += ms),
  };
}
