import { expect } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';

/** What a command may take at the very most, far beyond its deadline. */
const LONG = 20_000;

/** Resolves to how it ended; rejects when it does not end for long. */
export async function ending(work: () => Promise<unknown>): Promise<'done' | 'refused'> {
  const timer = new AbortController();
  const late = delay(LONG, undefined, { signal: timer.signal }).then(() => {
    throw new Error(`a command has not ended after ${LONG} ms`);
  });
  try {
    return await Promise.race([
      work().then(
        () => 'done' as const,
        () => 'refused' as const,
      ),
      late,
    ]);
  } finally {
    timer.abort();
    late.catch(() => {});
  }
}

/**
 * All that is asked of a silent server, one after another, is refused. On a slow machine another server has taken its
 * place before the last.
 */
export async function allRefused(
  isMaster: () => Promise<boolean>,
  works: readonly (() => Promise<unknown>)[],
): Promise<void> {
  for (const work of works) {
    if ((await ending(work)) === 'done') expect(await isMaster()).toBe(false);
  }
}
