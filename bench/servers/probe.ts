/**
 * Loaded into a server by `--import`: answers questions of the benchmark over the channel between the two processes.
 * `memory` is what the process holds after garbage collection (needs `--expose-gc`), `delay` how late the event loop
 * was since that was last asked, in milliseconds.
 */

import { monitorEventLoopDelay } from 'node:perf_hooks';

/** Between two looks at the event loop (ms). What is measured holds it, so it is taken off. */
const RESOLUTION = 1;

const delays = monitorEventLoopDelay({ resolution: RESOLUTION });
delays.enable();

const late = (nanoseconds: number) => Math.max(0, nanoseconds / 1e6 - RESOLUTION);

process.on('message', (question: unknown) => {
  if (question === 'memory') {
    for (let pass = 0; pass < 3; pass++) globalThis.gc?.();
    process.send?.({ question, ...process.memoryUsage() });
  } else if (question === 'delay') {
    process.send?.({ question, p99: late(delays.percentile(99)), most: late(delays.max) });
    delays.reset();
  }
});
// The channel alone keeps no server alive.
process.channel?.unref();
