import { once } from 'node:events';
import type { Clock } from '../../common/clock.ts';
import type { Emit } from '../../common/events.ts';
import type { FleetStore } from '../../freshness/fleet.ts';
import { HEAD_LIMIT, markOf, readHead, readMarks } from '../shared-entries.ts';

/** Pause between batches (ms), for Redis and this process. */
const PAUSE = 20;
/** Pause between looks for the end of another gateway's sweep (ms). */
const TASK_PAUSE = 1_000;
const MOST_SCANNED = 5_000_000;
const MOST_TIME = 15 * 60_000;
/** Task of one gateway for all; outlives a sign of life this long (ms). */
const SWEEP = 'sweep';
const TASK_LIFE = 30_000;
export interface SweepStore {
  tokens(): AsyncIterable<readonly string[]>;
  heads(bytes: number): AsyncIterable<readonly { readonly name: string; readonly head: Buffer }[]>;
  drop(entries: readonly string[]): Promise<number>;
}

/** Drops what no look-up can reach, so that a purge makes room. No promise depends on it. */
export function createSweep(options: {
  store: SweepStore;
  fleet: Pick<FleetStore, 'hold' | 'leave'>;
  clock: Clock;
  sleep: (milliseconds: number) => Promise<void>;
  emit: Emit;
}) {
  const { store, fleet, clock, emit } = options;
  const closing = new AbortController();
  const { signal } = closing;
  const closed = once(signal, 'abort');
  let requested = false;
  let running: Promise<void> | undefined;
  const pause = (milliseconds: number) => Promise.race([options.sleep(milliseconds), closed]);

  async function takeTask(): Promise<boolean> {
    // Counts tries too: a clock may stand still.
    for (let tries = 0; tries * TASK_PAUSE < MOST_TIME && !signal.aborted; tries += 1) {
      if (await fleet.hold(SWEEP, TASK_LIFE)) return true;
      await pause(TASK_PAUSE);
    }
    return false;
  }

  async function run(): Promise<void> {
    while (requested && !signal.aborted) {
      requested = false;
      try {
        if (!(await takeTask())) continue;
        // This sweep does what was requested until now, even if it fails.
        requested = false;
        await sweep().finally(() => fleet.leave(SWEEP));
      } catch (error) {
        if (!signal.aborted) emit({ type: 'redis-failed', operation: 'sweep', error });
      }
    }
    // In the turn of that check: a later request begins another.
    running = undefined;
  }

  async function sweep(): Promise<void> {
    const started = clock.now();
    const before = clock.wall();
    let scanned = 0;
    let unlinked = 0;

    async function isOver(): Promise<boolean> {
      await pause(PAUSE);
      const isEnough = scanned >= MOST_SCANNED || clock.now() - started >= MOST_TIME;
      return signal.aborted || isEnough || !(await fleet.hold(SWEEP, TASK_LIFE));
    }

    const marks = new Set<string>();
    for await (const tokens of store.tokens()) {
      for (const token of tokens) marks.add(markOf(token));
      // With only some of the tokens good entries would be dropped.
      if (await isOver()) return;
    }
    for await (const batch of store.heads(HEAD_LIMIT)) {
      const unreachable = batch.filter(({ head }) => isUnreachable(head, marks, before));
      scanned += batch.length;
      if (unreachable.length > 0) unlinked += await store.drop(unreachable.map(({ name }) => name));
      if (await isOver()) break;
    }
    emit({ type: 'swept', scanned, unlinked });
  }

  return {
    request(): void {
      if (signal.aborted) return;
      requested = true;
      running ??= run();
    },
    async close(): Promise<void> {
      closing.abort();
      await running;
    },
  };
}

/** Keeps entries of other layouts, and those since the sweep began: their epoch may be newer. */
function isUnreachable(bytes: Buffer, marks: ReadonlySet<string>, before: number): boolean {
  const head = readHead(bytes);
  if (typeof head === 'string' || head.requestedAt >= before) return false;
  return !readMarks(bytes, head).every((mark) => marks.has(mark));
}
