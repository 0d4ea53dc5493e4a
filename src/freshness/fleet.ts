import type { Clock } from '../common/clock.ts';

/**
 * Port: tasks and notes that gateways of one Redis, or workers of one process, agree on. Both may
 * be lost at any time: then a task is done twice, or anew. Every method rejects when the store does
 * not answer in time.
 */
export interface FleetStore {
  /**
   * Takes the task for so long (ms), or keeps it. False while another gateway has it.
   * @param isDone whether it counts as done: then it stays taken, also where its gateway is known
   *   to have ended
   */
  hold(task: string, life: number, isDone?: boolean): Promise<boolean>;
  leave(task: string): Promise<void>;
  /** Undefined where there is none. */
  note(name: string): Promise<string | undefined>;
  /** @param task false, and nothing is written, where this gateway does not have it any more */
  write(name: string, text: string, task?: string): Promise<boolean>;
}

/**
 * In the memory of one process. Tasks are dropped when their time is over; the configuration bounds
 * names.
 * @returns what one holder has of it, and `gone`, to be called when that has ended: others go on
 *   with its tasks
 */
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

/** Speaks to the process that keeps them. */
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

/**
 * Lets all gateways together do a thing once in `life` ms. While the store does not answer, each of
 * them does it once. Its users bound how many names there are.
 */
export function createOnce(fleet: FleetStore, clock: Pick<Clock, 'now'>, life: number) {
  /** Done here, the oldest first. */
  const done = new Map<string, number>();
  return {
    /** Whether this is the first time. Never rejects. */
    async begin(name: string): Promise<boolean> {
      const now = clock.now();
      for (const [old, at] of done) if (now - at >= life) done.delete(old);
      if (done.has(name)) return false;
      done.set(name, now);
      const isFirst = await fleet.hold(name, life, true).catch(() => true);
      if (!isFirst) done.delete(name);
      return isFirst;
    },
    /** It was not done after all. Never rejects. */
    async undo(name: string): Promise<void> {
      done.delete(name);
      await fleet.leave(name).catch(() => undefined);
    },
  };
}

/** Port: the reports of gateways that share a Redis, each a text that is forgotten after a while. Rejects when it cannot be reached. */
export interface ReportStore {
  /** In the place of what stood there under the id. */
  set(id: string, report: string): Promise<void>;
  all(): Promise<readonly string[]>;
}
