import type { Outcome } from '../../events.ts';
import type { AnswerHead, Client } from '../query.ts';

/** A short answer is held back until it is whole, so that its head can say whether it was stored … */
const HOLD_BYTES = 64 * 1024;
/** … but never for longer than a person would notice (ms). */
const HOLD_TIME = 50;

/** The way of an engine's answer to the client that leads a flight. */
export interface HeldBack {
  /** Passes the next bytes on, now or when the answer is opened. False when the client is slow. */
  write(chunk: Buffer): boolean;
  /** Ends the answer; opens it before, if it was still held back. */
  end(): void;
  /** The answer broke off: an error if it was still held back, else a broken connection. */
  fail(error: unknown): void;
}

/**
 * @param outcome what the head says, asked when the answer is opened; `whole` tells it whether the answer has
 *   ended by then
 */
export function holdBack(
  client: Client,
  head: AnswerHead,
  outcome: (whole: boolean) => Outcome,
): HeldBack {
  let held: Buffer[] | undefined = [];
  let heldBytes = 0;
  // What has arrived by then counts: a process that was kept from running sees its end before it opens.
  const timer = setTimeout(() => setImmediate(open, false), HOLD_TIME);

  function open(whole: boolean): boolean {
    clearTimeout(timer);
    if (held === undefined) return true;
    const chunks = held;
    held = undefined;
    client.open(head, outcome(whole), whole ? heldBytes : undefined);
    return chunks.map((chunk) => client.write(chunk)).every(Boolean);
  }

  return {
    write(chunk) {
      if (held === undefined) return client.write(chunk);
      held.push(chunk);
      heldBytes += chunk.length;
      return heldBytes < HOLD_BYTES || open(false);
    },
    end() {
      open(true);
      client.end();
    },
    fail(error) {
      clearTimeout(timer);
      held = undefined;
      client.fail(error);
    },
  };
}
