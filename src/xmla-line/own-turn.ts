import { setImmediate as nextTurn } from 'node:timers/promises';

/** Reading longer bodies (bytes) takes long enough that several in one turn would be felt. */
const LONG = 64 * 1024;

/** Whether a body should be read in a turn of its own. */
export function isLong(body: Uint8Array): boolean {
  return body.byteLength > LONG;
}

/** When the last of those who wait goes on. */
let last: Promise<unknown> = Promise.resolve();

/**
 * Waits until the event loop has a turn for the caller alone. What came meanwhile is answered between one turn and the
 * next, however many long bodies come at once.
 */
export function ownTurn(): Promise<unknown> {
  last = last.then(() => nextTurn());
  return last;
}
