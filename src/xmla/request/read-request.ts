import { lettersOf } from './body-letters.ts';
import { compatibilityTextMisplaced } from './compatibility-text.ts';
import { ENCODING_STYLE, isElement, noteAttributes, noteText, shown } from './element-shape.ts';
import type { Note } from './element-shape.ts';
import { SOAP } from '../namespaces.ts';
import { readHeaders } from './read-header.ts';
import { readMethod } from './read-method.ts';
import { areCertain, sessionIdsIn, sessionIdsInBytes, sessionIdsInUnread } from './session-ids.ts';
import type { SessionIds } from './session-ids.ts';
import { decodeText } from '../../xml/text-encoding.ts';
import type { DecodedText, TextEncoding } from '../../xml/text-encoding.ts';
import { readTree } from '../../xml/read-tree.ts';
import type { XmlElement } from '../../xml/read-tree.ts';
import type { XmlaRequest } from './xmla-request.ts';

/**
 * What became of a request body. `detail` and `unexpected` are short words for the log; they may hold names
 * that the client chose.
 */
export type RequestReading =
  | {
      readonly kind: 'understood';
      readonly request: XmlaRequest;
      readonly encoding: TextEncoding;
      /** Whether the XML declaration names the encoding. */
      readonly declared: boolean;
    }
  /** Passed through as it is and never answered from the cache. */
  | {
      readonly kind: 'not-understood';
      readonly reason: 'malformed' | 'encoding' | 'unknown-shape' | 'long-request';
      readonly detail: string;
      /** `unknown` for a long request: `sessionIdsInLong` looks for them. */
      readonly sessionIds: SessionIds;
    }
  /** Must not reach an engine: a document type declaration, or nesting over MAX_DEPTH. */
  | { readonly kind: 'refused'; readonly detail: string };

/** Longer bodies would hold the event loop up for more than a moment (bytes). No client's query is so long. */
const MAX_BODY = 1024 * 1024;

/**
 * Reads the body of a POST as one XMLA request in a SOAP 1.1 envelope (XMLA 1.1). The content coding must be
 * removed before. Never throws.
 *
 * Two bodies that give equal requests, both with `unexpected` undefined, say the same to every engine: what
 * is not in the request and could make a difference makes it unexpected.
 */
export function readRequest(body: Uint8Array, contentType: string | undefined): RequestReading {
  if (body.byteLength > MAX_BODY) {
    const detail = 'a long body';
    if (mentionsDtd(lettersOf(body))) return refusedDtd(detail);
    return { kind: 'not-understood', reason: 'long-request', detail, sessionIds: 'unknown' };
  }
  const decoded = decodeText(body, contentType);
  if (!decoded.ok) {
    const detail = 'an unknown or contradictory text encoding';
    if (mentionsDtd(lettersOf(body))) return refusedDtd(detail);
    const sessionIds = sessionIdsInBytes(body, contentType);
    return { kind: 'not-understood', reason: 'encoding', detail, sessionIds };
  }
  const parsed = readTree(decoded.utf8);
  switch (parsed.kind) {
    case 'refused':
      return parsed;
    case 'malformed':
    case 'unread':
      if (mentionsDtd(lettersOf(body))) return refusedDtd('a body that is no XML');
      return {
        kind: 'not-understood',
        reason: parsed.kind === 'malformed' ? 'malformed' : 'unknown-shape',
        detail: parsed.detail,
        sessionIds: sessionIdsInUnread(body, contentType, decoded),
      };
    case 'tree':
      return readEnvelope(parsed.root, parsed.oddity, decoded);
  }
}

function readEnvelope(
  root: XmlElement,
  oddity: string | undefined,
  { utf8, encoding, declared }: Extract<DecodedText, { readonly ok: true }>,
): RequestReading {
  const sessionIds = sessionIdsIn(root);
  if (!areCertain(sessionIds, encoding)) {
    const detail = 'a session id in letters of ISO-8859-1';
    return { kind: 'not-understood', reason: 'encoding', detail, sessionIds: 'unknown' };
  }
  if (!isElement(root, SOAP, 'Envelope')) {
    return unknownShape(`the root ${shown(root.local)} is no SOAP 1.1 Envelope`, sessionIds);
  }
  const bodies = root.children.filter((child) => isElement(child, SOAP, 'Body'));
  const [body] = bodies;
  if (body === undefined || bodies.length > 1) {
    return unknownShape(body === undefined ? 'no Body' : 'a second Body', sessionIds);
  }
  const [method] = body.children;
  if (method === undefined || body.children.length > 1) {
    const detail = method === undefined ? 'no method in Body' : 'a second element in Body';
    return unknownShape(detail, sessionIds);
  }

  let unexpected = oddity;
  const note: Note = (what) => {
    unexpected ??= what;
  };
  if (compatibilityTextMisplaced(utf8.toString(), encoding, root)) {
    note('DbpropMsmdMDXCompatibility outside of its property');
  }
  noteEnvelope(root, body, note);
  const headers = root.children.filter((child) => isElement(child, SOAP, 'Header'));
  const header = readHeaders(headers, note);
  const read = readMethod(method, note);
  if (read === undefined) {
    return unknownShape(`${shown(method.local)} is no method of XMLA`, sessionIds);
  }
  const request = { ...read, ...header, sessionIds, unexpected };
  return { kind: 'understood', request, encoding, declared };
}

/** An envelope holds one Header at most, then one Body, and nothing else (SOAP 1.1 §4, narrowed). */
function noteEnvelope(root: XmlElement, body: XmlElement, note: Note): void {
  for (const element of [root, body]) {
    noteAttributes(element, ENCODING_STYLE, note);
    noteText(element, note);
  }
  for (const [index, child] of root.children.entries()) {
    const isHeader = index === 0 && isElement(child, SOAP, 'Header');
    if (child !== body && !isHeader) {
      note(`element ${shown(child.local)} in Envelope`);
    }
  }
}

/**
 * Whether a text that could not be read holds a declaration that must not reach an engine. The reader stops at the
 * first thing that is wrong, an engine's may go on.
 */
function mentionsDtd(text: string): boolean {
  return /<!(?:DOCTYPE|ENTITY)/i.test(text);
}

function refusedDtd(where: string): RequestReading {
  return { kind: 'refused', detail: `a document type declaration in ${where}` };
}

function unknownShape(detail: string, sessionIds: SessionIds): RequestReading {
  return { kind: 'not-understood', reason: 'unknown-shape', detail, sessionIds };
}
