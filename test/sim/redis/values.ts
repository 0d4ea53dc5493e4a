import type { FlightLock, Standing } from '../../../src/cache/shared-flights.ts';
import { held, type Server } from './state.ts';

const NOTHING = 'nothing';

/** Entries, flights, tasks and notes, as `src/redis/redis-cache.ts` and its neighbours keep them. */
export function createValues(server: Server) {
  const { state, now, mayWrite } = server;
  const lasting = <T>(value: T, life: number) => ({ value, over: now() + life });
  const holderOf = (key: string) => held(server, state().locks, key);
  const isHeldBy = (task: string, holder: string) => held(server, state().tasks, task) === holder;

  return {
    get: (key: string) => held(server, state().entries, key) ?? Buffer.of(),
    /** Bytes 8 to 15 say when it began: what began later stays. */
    set(key: string, value: Buffer, lifetime: number, replace: boolean): void {
      mayWrite();
      const present = held(server, state().entries, key);
      const isLater = present && present.readBigUInt64BE(8) > value.readBigUInt64BE(8);
      if (!isLater || replace) state().entries.set(key, lasting(value, lifetime));
    },
    enter({ query, key }: FlightLock, token: string, life: number): Standing {
      mayWrite();
      const expected = held(server, state().slow, query);
      if (expected === undefined) return { kind: 'fast' };
      const holder = holderOf(key);
      if (holder === NOTHING) return { kind: 'nothing' };
      if (holder !== undefined && holder !== token) return { kind: 'wait', expected };
      state().locks.set(key, lasting(token, life));
      return { kind: 'lead', expected };
    },
    beat({ key }: FlightLock, token: string, life: number): boolean {
      mayWrite();
      if (holderOf(key) !== token) return false;
      state().locks.set(key, lasting(token, life));
      return true;
    },
    leaveLock({ key }: FlightLock, token: string, forMs: number): void {
      if (holderOf(key) !== token) return;
      state().locks.delete(key);
      if (forMs > 0) state().locks.set(key, lasting(NOTHING, forMs));
    },
    markSlow(query: string, ms: number, life: number): void {
      mayWrite();
      state().slow.set(query, lasting(ms, life));
    },
    unmark: (query: string) => void state().slow.delete(query),
    hold(task: string, holder: string, life: number): boolean {
      mayWrite();
      if ((held(server, state().tasks, task) ?? holder) !== holder) return false;
      state().tasks.set(task, lasting(holder, life));
      return true;
    },
    leaveTask(task: string, holder: string): void {
      if (isHeldBy(task, holder)) state().tasks.delete(task);
    },
    note: (name: string) => state().notes.get(name),
    write(name: string, text: string, holder: string, task?: string): boolean {
      mayWrite();
      if (task !== undefined && !isHeldBy(task, holder)) return false;
      state().notes.set(name, text);
      return true;
    },
  };
}
