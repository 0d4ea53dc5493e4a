import type { Clock } from '../../common/clock.ts';
import type { FleetStore } from '../../freshness/fleet.ts';
import type { WarmRun } from './events.ts';

const PURGE = 'warm:purge';
const RUNS = 'warm:runs';
const TASK = 'warm';
/** Time for which a run outlives the last sign of life of its gateway. */
const LIFE_MS = 10_000;
export const SIGN_MS = 3_000;
const MAX_RUNS = 20;

/** Tracks the latest purge of the fleet. @param onNew called where it is another one */
export function createLatestPurge(fleet: FleetStore, clock: Clock, onNew: () => void) {
  /** `at`: when it became known (monotonic, ms). */
  let latest: { readonly id: string; readonly at: number } | undefined;
  /** Purge made here that the fleet was not told yet. */
  let untold: string | undefined;

  function see(newest: string): void {
    if (newest === latest?.id) return;
    latest = { id: newest, at: clock.now() };
    onNew();
  }

  async function tell(): Promise<void> {
    const telling = untold;
    if (telling === undefined) return;
    await fleet.write(PURGE, telling);
    if (untold === telling) untold = undefined;
  }

  return {
    get: () => latest,
    made(id: string): Promise<void> {
      untold = id;
      see(id);
      return tell();
    },
    async read() {
      await tell();
      const newest = await fleet.note(PURGE);
      if (newest !== undefined && untold === undefined) see(newest);
      return latest;
    },
  };
}

export function createRunNotes(fleet: FleetStore, clock: Pick<Clock, 'wall'>) {
  const now = () => new Date(clock.wall()).toISOString();
  const leave = () => fleet.leave(TASK);
  /** @returns false where another gateway has the task */
  const save = (runs: readonly WarmRun[]) =>
    fleet.write(RUNS, JSON.stringify(runs.slice(0, MAX_RUNS)), TASK);

  async function read(): Promise<WarmRun[]> {
    const text = await fleet.note(RUNS);
    try {
      return text === undefined ? [] : (JSON.parse(text) as WarmRun[]);
    } catch {
      return [];
    }
  }

  /** Ends runs whose gateway, which had the task, is gone. */
  function endLost(runs: readonly WarmRun[]): void {
    for (const one of runs) {
      if (one.ended === null) Object.assign(one, { ended: now(), cut: 'gateway-gone' });
    }
  }

  return {
    now,
    take: () => fleet.hold(TASK, LIFE_MS),
    leave,
    save,
    read,
    endLost,
    /** Reads runs to be shown: one of a killed process is not under way. */
    async readLiving(isRunningHere: () => boolean): Promise<WarmRun[]> {
      const runs = await read();
      const isOpen = runs.some(({ ended }) => ended === null);
      if (!isOpen || isRunningHere() || !(await fleet.hold(TASK, SIGN_MS))) return runs;
      // It may have ended since they were read.
      const latest = await read();
      endLost(latest);
      await save(latest);
      await leave();
      return latest;
    },
  };
}
