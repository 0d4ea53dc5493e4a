import type { Clock } from '../common/clock.ts';

/**
 * Port: tasks and notes shared by gateways of one Redis, or workers of one process. Both may be
 * lost at any time: a task is then done twice, or anew. Rejects when the store is late.
 */
export interface FleetStore {
  /**
   * Takes or keeps a task for `life` ms; false while another has it. `isDone` outlasts its gateway.
   */
  hold(task: string, life: number, isDone?: boolean): Promise<boolean>;
  leave(task: string): Promise<void>;
  note(name: string): Promise<string | undefined>;
  /** @param task false, and nothing is written, when this gateway does not have it */
  write(name: string, text: string, task?: string): Promise<boolean>;
}

/** In one process. Returns the part of a holder; after `gone` others go on with its tasks. */
export function createMemoryFleet(clock: Pick<Clock, 'now'>) {
  const tasks = new Map<string, { holder: string; until: number; isDone: boolean }>();
  const notes = new Map<string, string>();
  const holderOf = (task: string) => {
    const { holder, until } = tasks.get(task) ?? { holder: undefined, until: 0 };
    return until > clock.now() ? holder : undefined;
  };
  return (holder: string) =>
    ({
      async hold(task: string, life: number, isDone = false) {
        if ((holderOf(task) ?? holder) !== holder) return false;
        for (const name of tasks.keys()) if (holderOf(name) === undefined) tasks.delete(name);
        tasks.set(task, { holder, until: clock.now() + life, isDone });
        return true;
      },
      async leave(task: string) {
        if (holderOf(task) === holder) tasks.delete(task);
      },
      note: async (name: string) => notes.get(name),
      async write(name: string, text: string, task?: string) {
        if (task && holderOf(task) !== holder) return false;
        notes.set(name, text);
        return true;
      },
      gone() {
        for (const [name, task] of tasks) {
          if (task.holder === holder && !task.isDone) tasks.delete(name);
        }
      },
    }) satisfies FleetStore & { gone(): void };
}

export function fleetOf(
  ask: (method: keyof FleetStore, ...args: readonly unknown[]) => Promise<unknown>,
): FleetStore {
  return {
    hold: async (...task) => (await ask('hold', ...task)) === true,
    leave: async (task) => void (await ask('leave', task)),
    note: async (name) => (await ask('note', name)) as string | undefined,
    write: async (...written) => (await ask('write', ...written)) === true,
  };
}

/** Lets all gateways do a thing once in `life` ms; while the store is away, each of them. */
export function createOnce(fleet: FleetStore, clock: Pick<Clock, 'now'>, life: number) {
  const done = new Map<string, number>();
  return {
    /** True the first time. Never rejects. */
    async begin(name: string): Promise<boolean> {
      const now = clock.now();
      for (const [old, at] of done) if (now - at >= life) done.delete(old);
      if (done.has(name)) return false;
      done.set(name, now);
      const isFirst = await fleet.hold(name, life, true).catch(() => true);
      if (!isFirst) done.delete(name);
      return isFirst;
    },
    /** Call when it was not done. Never rejects. */
    async undo(name: string): Promise<void> {
      done.delete(name);
      await fleet.leave(name).catch(() => undefined);
    },
  };
}

/** Port: reports of gateways that share a Redis, for a while. Rejects when not reached. */
export interface ReportStore {
  set(id: string, report: string): Promise<void>;
  all(): Promise<readonly string[]>;
}
