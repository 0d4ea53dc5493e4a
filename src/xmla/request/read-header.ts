import {
  attributeValue,
  ENCODING_STYLE,
  noteAttributes,
  noteText,
  shown,
  textOf,
} from './element-shape.ts';
import type { KnownAttribute, Note } from './element-shape.ts';
import { SOAP, XMLA } from '../namespaces.ts';
import type { HeaderBlock, SessionHeader } from './xmla-request.ts';
import type { XmlElement } from '../../xml/read-tree.ts';

export interface HeaderReading {
  readonly session: SessionHeader;
  readonly sessionToken: boolean;
  readonly headers: readonly HeaderBlock[];
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

/** The namespaces of Analysis Services ([MS-SSAS] §2.2.3), in which these blocks stand. */
const ANALYSIS_SERVICES = 'http://schemas.microsoft.com/analysisservices/';
/** What the client can do and expects. They may shape answers, so that they are in the key. */
const KEYED_BLOCKS: ReadonlySet<string> = new Set([
  'Version',
  'NamespaceCompatibility',
  'ProtocolCapabilities',
]);
const SESSION_TOKEN = 'BeginGetSessionToken';

const NO_SESSION: SessionHeader = { kind: 'none' };

/**
 * Reads the SOAP headers of an envelope (XMLA 1.1, "Support for Statefulness"). Of several session elements
 * the first counts and the others are noted. `Security` binds a user to the session, whatever the version of
 * WS-Security, so its namespace is not asked for. What is not known here can change the answer and stands in no
 * key: it is noted.
 */
export function readHeaders(headers: readonly XmlElement[], note: Note): HeaderReading {
  let session = NO_SESSION;
  let sessionToken = false;
  let security = false;
  const blocks: HeaderBlock[] = [];
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
      } else if (block.local === SESSION_TOKEN) {
        sessionToken = true;
      } else if (block.uri.startsWith(ANALYSIS_SERVICES) && KEYED_BLOCKS.has(block.local)) {
        blocks.push(readBlock(block, note));
      } else {
        note(`SOAP header ${shown(block.local)}`);
      }
    }
  }
  return { session, sessionToken, headers: blocks, security };
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
      return { kind: 'in', id: sessionId(block, note), understand: understandingOf(block) };
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

function understandingOf(block: XmlElement): string {
  const attributes = attributesOf(block).filter(([name]) => name !== 'SessionId');
  return attributes.length === 0 ? '' : JSON.stringify(attributes);
}

function attributesOf(block: XmlElement): HeaderBlock['attributes'] {
  const named = block.attributes.map(
    ({ uri, local, value }) => [uri === '' ? local : `{${uri}}${local}`, value] as const,
  );
  return named.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}

/** A block holds text, or a list of `Capability`. */
function readBlock(block: XmlElement, note: Note): HeaderBlock {
  const { uri, local, children } = block;
  const attributes = attributesOf(block);
  if (children.length === 0) {
    return { uri, local, attributes, content: [block.text] };
  }
  noteText(block, note);
  const content = children.map((child) => {
    if (child.uri !== uri || child.local !== 'Capability') {
      note(`element ${shown(child.local)} in ${local}`);
    }
    return textOf(child, [], note);
  });
  return { uri, local, attributes, content };
}
