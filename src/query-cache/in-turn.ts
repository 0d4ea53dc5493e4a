import type { Gate } from '../gate.ts';

/** Waits for a turn and does the work in it; undefined when the signal aborts before. */
export async function inTurn<T>(
  turns: Gate,
  signal: AbortSignal,
  work: () => T | Promise<T>,
): Promise<T | undefined> {
  const leave = await turns.enter(signal).catch(() => undefined);
  if (leave === undefined) return undefined;
  try {
    return await work();
  } finally {
    leave();
  }
}
