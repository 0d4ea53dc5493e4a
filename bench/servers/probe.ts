/**
 * Loaded into a server by `--import`: answers questions of the benchmark over the channel between the two processes.
 * `memory` is what the process holds after garbage collection (needs `--expose-gc`), `delay` how late the event loop
 * was since that was last asked, in milliseconds. `turn` begins to measure turns of the event loop, or ends it: the
 * answer is the CPU time that the longest one took (ms). `fill` fills the memory tier of a gateway that runs from its
 * sources.
 */

import { registerHooks } from 'node:module';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type * as Fillable from './fillable-memory.ts';

/** Between two looks at the event loop (ms). What is measured holds it, so it is taken off. */
const RESOLUTION = 1;
const FILLED = 300_000;
const TIER = /\/src\/cache\/memory-tier\.ts$/;
const FILLABLE = new URL('fillable-memory.ts', import.meta.url).href;

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context);
    const isOwn = context.parentURL === FILLABLE;
    return TIER.test(found.url) && !isOwn ? { ...found, url: FILLABLE } : found;
  },
});

const delays = monitorEventLoopDelay({ resolution: RESOLUTION });
delays.enable();

const late = (nanoseconds: number) => Math.max(0, nanoseconds / 1e6 - RESOLUTION);

let longest: number | undefined;

/** Measures from turn to turn, of this thread alone, and lets none pass without work. */
function measureTurns(before = process.threadCpuUsage()): void {
  setImmediate(() => {
    if (longest === undefined) return;
    const { user, system } = process.threadCpuUsage(before);
    longest = Math.max(longest, (user + system) / 1_000);
    measureTurns();
  });
}

process.on('message', async (question: unknown) => {
  if (question === 'memory') {
    for (let pass = 0; pass < 3; pass++) globalThis.gc?.();
    process.send?.({ question, ...process.memoryUsage() });
  } else if (question === 'delay') {
    process.send?.({ question, p99: late(delays.percentile(99)), most: late(delays.max) });
    delays.reset();
  } else if (question === 'turn') {
    const most = longest ?? 0;
    longest = longest === undefined ? 0 : undefined;
    if (longest !== undefined) measureTurns();
    process.send?.({ question, most });
  } else if (question === 'fill') {
    const { fillMemory } = (await import(FILLABLE)) as typeof Fillable;
    const entries = fillMemory(FILLED);
    for (let pass = 0; pass < 3; pass++) globalThis.gc?.();
    process.send?.({ question, entries });
  }
});
// The channel alone keeps no server alive.
process.channel?.unref();
