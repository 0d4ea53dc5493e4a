import { latestOf } from './memory-purge-log.ts';
import {
  MAX_PURGES,
  type PurgeLine,
  type PurgeLines,
  type PurgeLog,
  type PurgeRecord,
} from './purge-log.ts';

/** Pause before what could not be kept where all see it is tried again (ms). */
const CARRY_INTERVAL = 2_000;

export interface SharedPurgeLog extends PurgeLog {
  /** What could not be kept where all see it, so far. */
  pending(): readonly PurgeLine[];
  /** Carries over what another log of this gateway could not. */
  carry(lines: readonly PurgeLine[]): void;
  close(): void;
}

/**
 * The log that gateways share. What its keeper did not take waits here, and is carried over with the next line or
 * after a while. While the keeper cannot be reached this gateway knows its own purges only.
 *
 * @param options.own keeps the purges of this gateway
 */
export function createSharedPurgeLog(options: {
  lines: PurgeLines;
  own: PurgeLog;
  newLine: () => string;
  onError: (error: unknown) => void;
}): SharedPurgeLog {
  const { own } = options;
  let pending: readonly PurgeLine[] = [];
  let carrying = false;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  /** @returns false when nothing was taken */
  async function carryPending(): Promise<boolean> {
    const carried = new Set(pending);
    try {
      await options.lines.add([...carried], MAX_PURGES);
    } catch (error) {
      options.onError(error);
      return false;
    }
    pending = pending.filter((line) => !carried.has(line));
    return true;
  }

  /** What comes meanwhile is carried after it. */
  async function carryAll(): Promise<void> {
    if (carrying) return;
    carrying = true;
    clearTimeout(timer);
    let taken = true;
    while (taken && pending.length > 0) taken = await carryPending();
    carrying = false;
    if (taken || closed) return;
    timer = setTimeout(() => void carryAll(), CARRY_INTERVAL);
    timer.unref();
  }

  return {
    async add(record) {
      await own.add(record);
      pending = [...pending, { line: options.newLine(), record }].slice(-MAX_PURGES);
      await carryAll();
    },
    async latest(most) {
      try {
        const shared = await options.lines.all(MAX_PURGES);
        return { complete: true, purges: merged([...shared, ...pending], most) };
      } catch (error) {
        options.onError(error);
        const { purges } = await own.latest(most);
        return { complete: false, purges };
      }
    },
    pending: () => pending,
    carry(lines) {
      pending = [...lines, ...pending].slice(-MAX_PURGES);
      void carryAll();
    },
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}

function merged(lines: readonly PurgeLine[], most: number): PurgeRecord[] {
  const distinct = new Map(lines.map(({ line, record }) => [line, record]));
  return latestOf([...distinct.values()], most);
}
