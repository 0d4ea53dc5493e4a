import { afterEach } from '@jest/globals';

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

/** Is called after the test, before what was named earlier. */
export const closedLater = (close: () => Promise<unknown>): void => void closers.push(close);

/** Is closed after the test, before what was opened earlier. */
export async function opened<T extends { close(): Promise<void> }>(
  opening: Promise<T> | T,
): Promise<T> {
  const one = await opening;
  closedLater(one.close);
  return one;
}

/** Closes at once what was opened last. */
export const closeLatest = (): Promise<unknown> | undefined => closers.pop()?.();
