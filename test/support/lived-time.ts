/** How often the clock ticks (ms). */
const TICK = 10;
/** What counts of the time between two ticks at most (ms). */
const MOST = 2 * TICK;

/**
 * How long something takes of the time in which this process runs (ms): while the machine keeps it from running, it can
 * neither answer nor give up.
 */
export async function livedTime<T>(
  work: () => Promise<T>,
): Promise<{ readonly result: T; readonly lived: number }> {
  let lived = 0;
  let last = performance.now();
  const count = () => {
    const now = performance.now();
    lived += Math.min(now - last, MOST);
    last = now;
  };
  const timer = setInterval(count, TICK);
  try {
    const result = await work();
    count();
    return { result, lived };
  } finally {
    clearInterval(timer);
  }
}
