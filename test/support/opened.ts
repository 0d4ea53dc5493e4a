import { afterAll, afterEach, beforeAll } from '@jest/globals';

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

const shares: (() => Promise<unknown>)[] = [];

/**
 * Is opened before the tests of this block, and closed after them, before what was opened earlier. Its members are there when the
 * tests run.
 */
export function shared<T extends { close(): Promise<unknown> }>(open: () => Promise<T>): T {
  let one: T | undefined;
  beforeAll(async () => {
    one = await open();
    shares.push(one.close);
  });
  afterAll(() => shares.pop()?.());
  const opened = () => {
    if (one === undefined) throw new Error('it is not open: tests have not begun');
    return one;
  };
  return new Proxy({} as T, {
    get: (_target, name) => Reflect.get(opened(), name) as unknown,
    set: (_target, name, value) => Reflect.set(opened(), name, value),
  });
}
