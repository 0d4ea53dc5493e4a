import type { IncomingHttpHeaders } from 'node:http';
import { nameAsRead } from '../proxy/forwarded.ts';
import { SESSION_HEADER } from '../query-cache/answer-sessions.ts';

/** The header by which a client asks SSAS for a token of its session. */
const TOKEN_HEADER = 'x-as-getsessiontoken';

/**
 * Every session that the headers of a request may name, each once: they are forwarded in each spelling that some
 * server takes for the name, and several values as one text with commas between them (RFC 9110 §5.3), which an
 * engine may split or not.
 */
export function sessionsInHeaders(headers: IncomingHttpHeaders): readonly string[] {
  const texts = valuesOf(headers, SESSION_HEADER);
  if (texts.length === 0) return texts;
  const all = [...texts, ...texts.flatMap((text) => text.split(','))].map((id) => id.trim());
  return [...new Set(all.filter((id) => id !== ''))];
}

/** Whether the headers ask for the token of a session, with whatever value. */
export function asksForToken(headers: IncomingHttpHeaders): boolean {
  return valuesOf(headers, TOKEN_HEADER).length > 0;
}

function valuesOf(headers: IncomingHttpHeaders, wanted: string): readonly string[] {
  const found: string[] = [];
  for (const name in headers) {
    // Read in another way a name keeps its length, and few are as long.
    if (name.length !== wanted.length || nameAsRead(name) !== wanted) continue;
    const value = headers[name];
    if (Array.isArray(value)) found.push(...value);
    else if (value !== undefined) found.push(value);
  }
  return found;
}
