import type { ServerResponse } from 'node:http';
import type { Outcome } from '../events.ts';
import type { HitSource } from '../reasons.ts';
import { GZIP_FROM, gzipWithSession, type GzipVariant } from '../query-cache/gzip.ts';
import { withSession } from '../query-cache/stored-answer.ts';
import {
  HEADER_VALUE,
  type SessionPlace,
  type StoredAnswer,
} from '../query-cache/stored-answer.ts';

export const TRANSPORT_CAPS = 'x-transport-caps-negotiation-flags';
export const NO_TRANSPORT_CAPS = '0,0,0,0,0';
const SESSION_ID = 'x-as-sessionid';

/** An id that stands in XML as it is, in every encoding whose letters are those of ASCII. */
const PLAIN_ID = /^[\w-]+$/;

/**
 * A body of that many bytes goes out as text, in one piece with the head, which Node.js keeps as text: one write
 * instead of a gathering one saves up to 3 µs of 19. From about 4 KB on the copies cost more than that.
 */
const SHORT = 3 * 1024;

/** How a stored answer is given to one client. */
export interface StoredReply {
  readonly source: HitSource;
  /** Milliseconds for which it may still be used, and since its engine request began. */
  readonly ttl: number;
  readonly age: number;
  /** The caller's own. */
  readonly sessionId: string | undefined;
  /** The compressed variant, for a client that takes it. */
  readonly variant: GzipVariant | undefined;
  /** Whether the client negotiates what it can read (SSAS); it is told: plain text. */
  readonly asksForCaps: boolean;
}

/**
 * Sends a stored answer, head and body, in one call of the system, and ends the response. The bytes of a long one are
 * not copied.
 * @returns the bytes of the body
 * @throws as `withSession` does: then nothing was sent
 */
export function sendStored(
  response: ServerResponse,
  answer: StoredAnswer,
  reply: StoredReply,
): number {
  const { sessionId, variant } = reply;
  const { body, session } = answer;
  const short = variant === undefined ? shortText(answer, sessionId) : undefined;
  if (short !== undefined) {
    response.writeHead(200, headOf(answer, short.length, reply));
    response.end(short, 'latin1');
    return short.length;
  }
  if (variant === undefined && session !== undefined && isPlain(session, sessionId)) {
    const bytes = body.length + sessionId.length;
    response.cork();
    response.writeHead(200, headOf(answer, bytes, reply));
    // As text it goes into one piece with the head.
    response.write(body.toString('latin1', 0, session.at) + sessionId, 'latin1');
    response.end(body.subarray(session.at));
    return bytes;
  }
  // Before the head: nothing of an answer that cannot be given to this client may be sent.
  const pieces =
    variant === undefined
      ? withSession(answer, sessionId)
      : gzipWithSession(variant, answer, sessionId);
  const bytes = pieces.reduce((sum, piece) => sum + piece.length, 0);
  response.cork();
  response.writeHead(200, headOf(answer, bytes, reply));
  for (let i = 0; i < pieces.length - 1; i += 1) response.write(pieces[i]);
  response.end(pieces.at(-1));
  return bytes;
}

/** Each byte of a short answer as one letter; undefined where it is long, or its session takes more than that. */
function shortText({ body, session }: StoredAnswer, id: string | undefined): string | undefined {
  if (body.length > SHORT) return undefined;
  if (session === undefined) return body.toString('latin1');
  if (!isPlain(session, id)) return undefined;
  return body.toString('latin1', 0, session.at) + id + body.toString('latin1', session.at);
}

function isPlain({ encoding }: SessionPlace, id: string | undefined): id is string {
  const isAscii = encoding === 'utf-8' || encoding === 'iso-8859-1';
  return isAscii && id !== undefined && PLAIN_ID.test(id);
}

/** Names and values in turn. */
function headOf(answer: StoredAnswer, bytes: number, reply: StoredReply): string[] {
  const { source, ttl, age, sessionId, variant, asksForCaps } = reply;
  const head = ['content-type', answer.contentType, 'content-length', String(bytes)];
  if (answer.contentLanguage !== undefined) head.push('content-language', answer.contentLanguage);
  if (variant !== undefined) head.push('content-encoding', 'gzip');
  if (answer.body.length >= GZIP_FROM) head.push('vary', 'accept-encoding');
  // A session id of XML may be anything.
  if (answer.sessionHeader && sessionId !== undefined && HEADER_VALUE.test(sessionId)) {
    head.push(SESSION_ID, sessionId);
  }
  head.push('cache-status', cacheStatus({ kind: 'hit', detail: source }, ttl));
  head.push('age', String(Math.floor(age / 1000)));
  if (asksForCaps) head.push(TRANSPORT_CAPS, NO_TRANSPORT_CAPS);
  return head;
}

/**
 * The value of the header Cache-Status (RFC 9211).
 * @param ttl milliseconds for which a hit may still be used
 */
export function cacheStatus(outcome: Outcome, ttl = 0): string {
  switch (outcome.kind) {
    case 'hit':
      return `mdx-gateway; hit; ttl=${Math.floor(ttl / 1000)}; detail=${outcome.detail}`;
    case 'miss': {
      const stored = outcome.stored === true ? '; stored' : '';
      const detail = outcome.detail === undefined ? '' : `; detail=${outcome.detail}`;
      return `mdx-gateway; fwd=miss${stored}${detail}`;
    }
    case 'bypass':
      return `mdx-gateway; fwd=bypass; detail=${outcome.detail}`;
    case 'gateway':
      return `mdx-gateway; detail=${outcome.detail}`;
  }
}
