import {
  attributeValue,
  ENCODING_STYLE,
  noteAttributes,
  noteText,
  shown,
  textOf,
} from './element-shape.ts';
import type { KnownAttribute, Note } from './element-shape.ts';
import { SOAP, XMLA } from './namespaces.ts';
import type { SessionHeader } from './xmla-request.ts';
import type { XmlElement } from './xml-tree.ts';

export interface HeaderReading {
  readonly session: SessionHeader;
  readonly security: boolean;
}

/** ADOMD.NET writes `mustUnderstand` without a prefix, SOAP 1.1 §4.2.3 with one. */
const SOAP_ATTRIBUTES: readonly KnownAttribute[] = [
  { uri: SOAP, local: 'mustUnderstand' },
  { uri: '', local: 'mustUnderstand' },
  { uri: SOAP, local: 'actor' },
];
const SESSION_ATTRIBUTES: readonly KnownAttribute[] = [
  ...SOAP_ATTRIBUTES,
  { uri: '', local: 'SessionId' },
];

const NO_SESSION: SessionHeader = { kind: 'none' };

/**
 * Reads the SOAP headers of an envelope (XMLA 1.1, "Support for Statefulness"). Of several session elements
 * the first counts and the others are noted. `Security` binds a user to the session, whatever the version of
 * WS-Security, so its namespace is not asked for. Version, NamespaceCompatibility, ProtocolCapabilities,
 * BeginGetSessionToken and all others can change the answer and stand in no key: they are noted.
 */
export function readHeaders(headers: readonly XmlElement[], note: Note): HeaderReading {
  let session = NO_SESSION;
  let security = false;
  for (const header of headers) {
    noteAttributes(header, ENCODING_STYLE, note);
    noteText(header, note);
    for (const block of header.children) {
      const read = readSession(block, note);
      if (read !== undefined) {
        if (session.kind !== 'none') {
          note('a second session element in Header');
        }
        session = session.kind === 'none' ? read : session;
      } else if (block.local === 'Security') {
        security = true;
      } else {
        note(`SOAP header ${shown(block.local)}`);
      }
    }
  }
  return { session, security };
}

function readSession(block: XmlElement, note: Note): SessionHeader | undefined {
  if (block.uri !== XMLA) {
    return undefined;
  }
  switch (block.local) {
    case 'BeginSession':
      noteContent(block, SOAP_ATTRIBUTES, note);
      return { kind: 'begin' };
    case 'Session':
      noteContent(block, SESSION_ATTRIBUTES, note);
      return { kind: 'in', id: sessionId(block, note) };
    case 'EndSession':
      noteContent(block, SESSION_ATTRIBUTES, note);
      return { kind: 'end', id: sessionId(block, note) };
    default:
      return undefined;
  }
}

function noteContent(block: XmlElement, known: readonly KnownAttribute[], note: Note): void {
  textOf(block, known, note);
  noteText(block, note);
}

function sessionId(block: XmlElement, note: Note): string {
  const id = attributeValue(block, '', 'SessionId') ?? '';
  if (id === '') {
    note(`no SessionId in ${block.local}`);
  }
  return id;
}
