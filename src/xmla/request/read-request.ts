import { isElement, readTree } from '../../xml/read-tree.ts';
import type { XmlElement } from '../../xml/read-tree.ts';
import { decodeText } from '../../xml/text-encoding.ts';
import type { DecodedText, TextEncoding } from '../../xml/text-encoding.ts';
import { foldName } from '../fold-name.ts';
import { SOAP, XMLA, XSI } from '../namespaces.ts';
import { lettersOf } from './body-letters.ts';
import { isKeyedBlock, isSessionBlock, oddityOfEnvelope, shown } from './request-shape.ts';
import { areCertain, sessionIdsIn, sessionIdsInBytes, sessionIdsInUnread } from './session-ids.ts';
import type { SessionIds } from './session-ids.ts';
import type {
  DiscoverRequest,
  ExecuteRequest,
  HeaderBlock,
  Parameter,
  Property,
  Restriction,
  SessionHeader,
  XmlaRequest,
} from './xmla-request.ts';

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

type NotUnderstood = Extract<RequestReading, { readonly kind: 'not-understood' }>;

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
    return unlessDtd(body, notUnderstood('long-request', 'a long body', 'unknown'));
  }
  const decoded = decodeText(body, contentType);
  if (!decoded.ok) {
    const detail = 'an unknown or contradictory text encoding';
    const sessionIds = sessionIdsInBytes(body, contentType);
    return unlessDtd(body, notUnderstood('encoding', detail, sessionIds));
  }
  const tree = readTree(decoded.utf8);
  if (tree.kind === 'refused') return tree;
  if (tree.kind === 'tree') return readEnvelope(tree.root, tree.oddity, decoded);
  const reason = tree.kind === 'malformed' ? 'malformed' : 'unknown-shape';
  const sessionIds = sessionIdsInUnread(body, contentType, decoded);
  return unlessDtd(body, notUnderstood(reason, tree.detail, sessionIds));
}

/**
 * A body that could not be read may hold a declaration that must not reach an engine: the reader stops at the first
 * thing that is wrong, an engine's may go on.
 */
function unlessDtd(body: Uint8Array, reading: NotUnderstood): RequestReading {
  if (!/<!(?:DOCTYPE|ENTITY)/i.test(lettersOf(body))) return reading;
  return { kind: 'refused', detail: `a document type declaration in ${reading.detail}` };
}

function notUnderstood(
  reason: NotUnderstood['reason'],
  detail: string,
  sessionIds: SessionIds,
): NotUnderstood {
  return { kind: 'not-understood', reason, detail, sessionIds };
}

function readEnvelope(
  root: XmlElement,
  oddity: string | undefined,
  { utf8, encoding, declared }: Extract<DecodedText, { readonly ok: true }>,
): RequestReading {
  const sessionIds = sessionIdsIn(root);
  if (!areCertain(sessionIds, encoding)) {
    return notUnderstood('encoding', 'a session id in letters of ISO-8859-1', 'unknown');
  }
  const unknownShape = (detail: string) => notUnderstood('unknown-shape', detail, sessionIds);
  if (!isElement(root, SOAP, 'Envelope')) {
    return unknownShape(`the root ${shown(root.local)} is no SOAP 1.1 Envelope`);
  }
  const [body, secondBody] = root.children.filter((child) => isElement(child, SOAP, 'Body'));
  if (body === undefined || secondBody !== undefined) {
    return unknownShape(body === undefined ? 'no Body' : 'a second Body');
  }
  const [method, secondMethod] = body.children;
  if (method === undefined || secondMethod !== undefined) {
    return unknownShape(method === undefined ? 'no method in Body' : 'a second element in Body');
  }
  const read = readMethod(method);
  if (read === undefined) return unknownShape(`${shown(method.local)} is no method of XMLA`);
  const unexpected =
    oddity ??
    (compatibilityTextMisplaced(utf8.toString(), encoding, root)
      ? `${COMPATIBILITY} outside of its property`
      : oddityOfEnvelope(root));
  const request = { ...read, ...readHeader(root), sessionIds, unexpected };
  return { kind: 'understood', request, encoding, declared };
}

const COMPATIBILITY = 'DbpropMsmdMDXCompatibility';

/**
 * Kylin changes the number formats of an answer when the text DbpropMsmdMDXCompatibility stands anywhere in
 * the body, as raw text. The name of an element is in the key, a comment, a prefix or an ignored value is
 * not: so the text may stand in the tags of elements of that name only, each tag counted. In UTF-16 the
 * engine may or may not see it.
 */
function compatibilityTextMisplaced(
  text: string,
  encoding: TextEncoding,
  root: XmlElement,
): boolean {
  const occurrences = text.match(/DbpropMsmdMDXCompatibility/giu)?.length ?? 0;
  if (occurrences === 0) return false;
  const tagsIn = (element: XmlElement): number => {
    const isIt = foldName(element.local) === foldName(COMPATIBILITY);
    const own = isIt ? (element.selfClosing ? 1 : 2) : 0;
    return element.children.reduce((sum, child) => sum + tagsIn(child), own);
  };
  return encoding !== 'utf-8' || occurrences !== tagsIn(root);
}

/** Of several session elements the first counts. `Security` binds a user to the session, whatever its namespace. */
function readHeader(root: XmlElement) {
  const blocks = root.children
    .filter((child) => isElement(child, SOAP, 'Header'))
    .flatMap(({ children }) => children);
  const session = blocks.find(isSessionBlock);
  const others = blocks.filter((block) => !isSessionBlock(block));
  return {
    session: session === undefined ? ({ kind: 'none' } as const) : readSession(session),
    sessionToken: others.some(({ local }) => local === 'BeginGetSessionToken'),
    headers: others.filter(isKeyedBlock).map(readBlock),
    security: others.some(({ local }) => local === 'Security'),
  };
}

function readSession(block: XmlElement): SessionHeader {
  if (block.local === 'BeginSession') return { kind: 'begin' };
  const id = valueOf(block, '', 'SessionId') ?? '';
  if (block.local === 'EndSession') return { kind: 'end', id };
  const others = namedAttributes(block).filter(([name]) => name !== 'SessionId');
  return { kind: 'in', id, understand: others.length === 0 ? '' : JSON.stringify(others) };
}

function readBlock(block: XmlElement): HeaderBlock {
  const { uri, local, children, text } = block;
  const content = children.length === 0 ? [text] : children.map((child) => child.text);
  return { uri, local, attributes: namedAttributes(block), content };
}

function namedAttributes({ attributes }: XmlElement): HeaderBlock['attributes'] {
  const named = attributes.map(
    ({ uri, local, value }) => [uri === '' ? local : `{${uri}}${local}`, value] as const,
  );
  return named.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}

function valueOf(element: XmlElement, uri: string, local: string): string | undefined {
  return element.attributes.find((one) => one.uri === uri && one.local === local)?.value;
}

/** The first child of a name in the namespace of XMLA. */
function childOf(element: XmlElement | undefined, local: string): XmlElement | undefined {
  return element?.children.find((child) => isElement(child, XMLA, local));
}

/** The elements of a list in the namespace of XMLA. */
function listIn(element: XmlElement | undefined): readonly XmlElement[] {
  return element?.children.filter(({ uri }) => uri === XMLA) ?? [];
}

/** What the Body says; the rest of a request stands elsewhere in the envelope. */
type Said<T> = Omit<T, Exclude<keyof XmlaRequest, 'method' | 'properties'>>;

function readMethod(method: XmlElement): Said<DiscoverRequest> | Said<ExecuteRequest> | undefined {
  if (isElement(method, XMLA, 'Discover')) return readDiscover(method);
  return isElement(method, XMLA, 'Execute') ? readExecute(method) : undefined;
}

function readDiscover(method: XmlElement): Said<DiscoverRequest> {
  const restrictions = listIn(childOf(childOf(method, 'Restrictions'), 'RestrictionList'));
  return {
    method: 'Discover',
    requestType: childOf(method, 'RequestType')?.text ?? '',
    restrictions: restrictions.map(readRestriction),
    properties: readProperties(method),
  };
}

function readExecute(method: XmlElement): Said<ExecuteRequest> {
  const commands = childOf(method, 'Command')?.children ?? [];
  const parameters = listIn(childOf(method, 'Parameters'));
  return {
    method: 'Execute',
    commands: commands.map(({ local }) => local),
    statement: commands.find(({ local }) => local === 'Statement')?.text ?? '',
    parameters: parameters.filter(({ local }) => local === 'Parameter').map(readParameter),
    properties: readProperties(method),
  };
}

function readProperties(method: XmlElement): readonly Property[] {
  return listIn(childOf(childOf(method, 'Properties'), 'PropertyList')).map(({ local, text }) => ({
    name: local,
    value: text,
  }));
}

function readRestriction({ local, children, text }: XmlElement): Restriction {
  if (children.length === 0) return { name: local, form: 'plain', values: [text] };
  return { name: local, form: 'value', values: children.map((child) => child.text) };
}

function readParameter(element: XmlElement): Parameter {
  const value = childOf(element, 'Value');
  return {
    name: childOf(element, 'Name')?.text ?? '',
    type: (value && valueOf(value, XSI, 'type')) ?? '',
    value: value?.text ?? '',
  };
}
