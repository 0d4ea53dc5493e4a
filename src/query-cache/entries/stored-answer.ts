import type { TextEncoding } from '../../xml/text-encoding.ts';

/** Where a session id goes into a stored body. */
export interface SessionPlace {
  /** Bytes of the body in front of it. */
  readonly at: number;
  /** In which the id is written there. */
  readonly encoding: TextEncoding;
}

/**
 * An answer of the engine that passed inspection, as it is kept and replayed. What is not here (cookies,
 * connection headers, ids of the engine's own) is never replayed.
 */
export interface StoredAnswer {
  /**
   * The exact bytes that the engine sent, less the id of the session. Never changed, so that it may be shared by
   * all who read it.
   */
  readonly body: Buffer;
  /** Where the caller's session id belongs; undefined when the answer shows none. */
  readonly session: SessionPlace | undefined;
  /** Whether the engine answered with the header X-AS-SessionID, which then carries the caller's id as well. */
  readonly sessionHeader: boolean;
  /** The exact header. */
  readonly contentType: string;
  readonly contentLanguage: string | undefined;
  /** Wall clock (ms) when the engine request began: age counts from here (RFC 9111 §4.2.3). */
  readonly requestedAt: number;
  /** Milliseconds from `requestedAt` for which it may be used. */
  readonly lifetime: number;
  /** Milliseconds that the engine needed. */
  readonly engineMilliseconds: number;
}

/**
 * What may stand in a header and arrives as it was sent (RFC 9110 §5.5): no control characters, no white space at
 * the ends.
 */
export const HEADER_VALUE =
  /^[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?$/;

/** How far the wall clocks of two gateways may differ (ms). */
const CLOCK_TOLERANCE = 60_000;

/**
 * Milliseconds for which the answer may still be used; 0 or less when it is too old. One from the future is
 * too old as well: some clock is wrong, and nobody knows by how much.
 */
export function remaining(answer: StoredAnswer, wall: number): number {
  if (answer.requestedAt > wall + CLOCK_TOLERANCE) return 0;
  return answer.requestedAt + answer.lifetime - wall;
}
