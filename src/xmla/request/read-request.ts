import { isAscii } from 'node:buffer';
import type { TagAttribute, TagReaders } from '../../xml/start-tag.ts';
import { type DecodedText, decodeText } from '../../xml/text-encoding.ts';
import {
  createTreeReader,
  isElement,
  MAX_NODES,
  readTree,
  slicesOf,
  type TreeRead,
  type XmlElement,
  XSI,
} from '../../xml/xml-scanner.ts';
import { foldName, foldToFind, SOAP, XMLA, XSD } from '../names.ts';
import { isSessionId, lettersOf, type SessionIds, sessionIdsInUnread } from './session-ids.ts';
import { textToJudge } from './session-ids.ts';

export type SessionHeader =
  | { readonly kind: 'none' }
  | { readonly kind: 'begin' }
  /** `understand` holds who must heed it, as attributes: Mondrian ignores it without them. */
  | { readonly kind: 'in'; readonly id: string; readonly understand: string }
  | { readonly kind: 'end'; readonly id: string };

export interface HeaderBlock {
  readonly uri: string;
  readonly local: string;
  /** Sorted by name, without namespace declarations. */
  readonly attributes: readonly (readonly [name: string, value: string])[];
  /** The texts of the children `Capability`, or else its own text. */
  readonly content: readonly string[];
}

/** Engines read two forms: `plain` repeats the element, `value` is `<X><Value>a</Value>…</X>`. */
export interface Restriction {
  readonly name: string;
  readonly form: 'plain' | 'value';
  readonly values: readonly string[];
}

export interface Property {
  readonly name: string;
  readonly value: string;
}
/** A parameter of an Execute. `type` is the text of `xsi:type`, or ''. */
export interface Parameter extends Property {
  readonly type: string;
}

interface XmlaRequestBase {
  readonly session: SessionHeader;
  /** All ids in the envelope, without duplicates. */
  readonly sessionIds: readonly string[];
  /** A session token (SSAS) is made for one session. */
  readonly sessionToken: boolean;
  readonly headers: readonly HeaderBlock[];
  /** WS-Security in the SOAP header. */
  readonly security: boolean;
  /** Names as spelt; a name may occur twice. */
  readonly properties: readonly Property[];
  /** Each `xsi:nil` and simple `xsi:type` of SOAP toolkits with its place, sorted. */
  readonly forms: readonly string[];
  /**
   * The first thing outside the known shape (element, attribute, processing instruction, text, a
   * second occurrence), in words for the log, perhaps with names that the client chose.
   */
  readonly unexpected: string | undefined;
  /** All of it stands in header blocks or in Properties, beside what is executed. */
  readonly oddBeside?: boolean | undefined;
}

export interface DiscoverRequest extends XmlaRequestBase {
  readonly method: 'Discover';
  readonly requestType: string;
  readonly restrictions: readonly Restriction[];
}

export interface ExecuteRequest extends XmlaRequestBase {
  readonly method: 'Execute';
  readonly commands: readonly string[];
  readonly statement: string;
  readonly parameters: readonly Parameter[];
}

export type XmlaRequest = DiscoverRequest | ExecuteRequest;
/** `not-understood` passes through as it is; `refused` must not reach an engine. */
export type RequestReading = ReturnType<typeof readRequest>;

const MAX_DETAIL_CHARS = 160;
/** Longer bodies (bytes) would keep many others waiting; no client's query is so long. */
export const MAX_BODY = 4 * 1024 * 1024;

/**
 * Reads a POST body without content coding as an XMLA 1.1 request in a SOAP 1.1 envelope. Never
 * throws. Bodies with equal requests, `unexpected` undefined, say the same to every engine.
 * @param readers readers of earlier requests
 */
export function readRequest(body: Uint8Array, contentType?: string, readers?: TagReaders) {
  if (body.byteLength > MAX_BODY) return unread(body, 'long-request', 'a long body', 'unknown');
  const text = decodeText(body, contentType) ?? textToJudge(body, contentType);
  return requestIn(body, contentType, text, text && readTree(text.utf8, readers));
}

/** Reads like {@link readRequest}, a slice in a turn. */
export async function requestInSlices(
  body: Uint8Array,
  contentType: string | undefined,
  turn: () => Promise<unknown> | undefined,
  readers?: TagReaders,
): Promise<RequestReading> {
  if (body.byteLength > MAX_BODY) return readRequest(body, contentType);
  const text = decodeText(body, contentType) ?? textToJudge(body, contentType);
  const tree = createTreeReader(readers);
  for (const slice of text === undefined ? [] : slicesOf(text.utf8)) {
    await turn();
    const error = tree.write(slice);
    if (error !== undefined) return requestIn(body, contentType, text, error);
  }
  await turn();
  return requestIn(body, contentType, text, text && tree.end());
}

function requestIn(
  body: Uint8Array,
  contentType: string | undefined,
  text: Text | undefined,
  tree: TreeRead | undefined,
) {
  const decoded = text?.encoding === 'other' ? undefined : text;
  if (text !== undefined && tree?.kind === 'tree') {
    const reading = readEnvelope(tree.root, tree.oddity, text);
    if (decoded !== undefined || reading.kind === 'understood') return reading;
  }
  const sessionIds = sessionIdsInUnread(body, contentType, decoded?.encoding);
  if (decoded === undefined || tree === undefined || tree.kind === 'tree') {
    return unread(body, 'encoding', OTHER_ENCODING, sessionIds);
  }
  const { kind, detail } = tree;
  if (kind === 'refused') return { kind, detail };
  return unread(body, kind === 'malformed' ? kind : 'unknown-shape', detail, sessionIds);
}

export const OTHER_ENCODING = 'an unknown or contradictory text encoding';
/** `other`: the request may be judged, but not looked up ({@link textToJudge}). */
export type RequestEncoding = Text['encoding'];
type Text = DecodedText | NonNullable<ReturnType<typeof textToJudge>>;

/** Refuses declarations here too: an engine's reader may go on behind what is wrong. */
function unread(body: Uint8Array, ...why: Parameters<typeof notUnderstood>) {
  const reading = notUnderstood(...why);
  if (!/<!(?:DOCTYPE|ENTITY)/i.test(lettersOf(body))) return reading;
  return { kind: 'refused', detail: `a document type declaration in ${reading.detail}` } as const;
}

/** @param sessionIds `unknown` for a long request: `sessionIdsInLong` looks for them */
function notUnderstood(
  reason: 'malformed' | 'encoding' | 'unknown-shape' | 'long-request',
  detail: string,
  sessionIds: SessionIds,
  root?: XmlElement,
) {
  return {
    kind: 'not-understood',
    reason,
    detail: detail.slice(0, MAX_DETAIL_CHARS),
    sessionIds,
    root,
  } as const;
}

function readEnvelope(root: XmlElement, oddity: string | undefined, decoded: Text) {
  const { encoding, declared } = decoded;
  const sessionIds = [...sessionIdsIn(root)];
  // An engine that goes by another of charset, declaration and bytes takes ISO-8859-1 for UTF-8.
  const isOfBytes = encoding === 'iso-8859-1' || encoding === 'other';
  if (isOfBytes && !sessionIds.every((id) => isAscii(Buffer.from(id)))) {
    return notUnderstood('encoding', 'a session id in letters of ISO-8859-1', 'unknown');
  }
  const unknownShape = (detail: string) => notUnderstood('unknown-shape', detail, sessionIds, root);
  if (!isElement(root, SOAP, 'Envelope')) {
    return unknownShape(`the root ${root.local} is no SOAP 1.1 Envelope`);
  }
  const [body, secondBody] = root.children.filter((child) => isElement(child, SOAP, 'Body'));
  if (body === undefined || secondBody !== undefined) {
    return unknownShape(body === undefined ? 'no Body' : 'a second Body');
  }
  const [method, secondMethod] = body.children;
  if (method === undefined || secondMethod !== undefined) {
    return unknownShape(method === undefined ? 'no method in Body' : 'a second element in Body');
  }
  const reader = new EnvelopeReader(oddity ?? misplacedCompatibility(decoded, root));
  reader.attributes(root, ENCODING_STYLE);
  reader.sequence(root, OF_ENVELOPE);
  const header = reader.header(root.children.filter((child) => isElement(child, SOAP, 'Header')));
  reader.attributes(body, ENCODING_STYLE);
  reader.blank(body);
  const read = reader.method(method);
  if (read === undefined) return unknownShape(`${method.local} is no method of XMLA`);
  const { oddity: unexpected } = reader;
  const oddBeside = reader.oddBeside && !speaksTwice(root);
  const forms = reader.forms.sort();
  const request: XmlaRequest = { ...read, ...header, sessionIds, forms, unexpected, oddBeside };
  return { kind: 'understood', request, root, encoding, declared } as const;
}

/** Names an engine may search for anywhere, and so find another statement than the one read. */
const SPOKEN: ReadonlySet<string> = new Set(['Body', 'Execute', 'Command', 'Statement']);

function speaksTwice({ local, children }: XmlElement, before = new Set<string>()): boolean {
  if (SPOKEN.has(local)) {
    if (before.has(local)) return true;
    before.add(local);
  }
  return children.some((child) => speaksTwice(child, before));
}

function sessionIdsIn({ attributes, children }: XmlElement, found = new Set<string>()) {
  for (const { local, value } of attributes) if (isSessionId(local)) found.add(value);
  for (const child of children) sessionIdsIn(child, found);
  return found;
}

const COMPATIBILITY = 'DbpropMsmdMDXCompatibility';
const MENTION = new RegExp(COMPATIBILITY, 'iu');
/**
 * Kylin changes number formats when the text DbpropMsmdMDXCompatibility stands anywhere in the raw
 * body. Element names are keyed, but not comments, prefixes and ignored values. Only tags of that
 * name may hold it. In UTF-16 the engine may or may not see it.
 */
function misplacedCompatibility({ utf8, encoding }: Text, root: XmlElement) {
  if (encoding === 'other') return undefined;
  const text = utf8.toString();
  if (!MENTION.test(text)) return undefined;
  const mentions = text.matchAll(new RegExp(MENTION, 'giu')).take(2 * MAX_NODES + 1);
  const occurrences = mentions.reduce((count) => count + 1, 0);
  const tagsIn = (element: XmlElement): number => {
    const isIt = foldToFind(element.local) === foldName(COMPATIBILITY);
    const own = isIt ? (element.selfClosing ? 1 : 2) : 0;
    return element.children.reduce((sum, child) => sum + tagsIn(child), own);
  };
  const isPlaced = encoding === 'utf-8' && occurrences === tagsIn(root);
  return isPlaced ? undefined : `${COMPATIBILITY} outside of its property`;
}

/** The namespace of header blocks ([MS-SSAS] §2.2.3). */
const ANALYSIS_SERVICES = 'http://schemas.microsoft.com/analysisservices/';
/** Blocks of client capabilities and expectations, which may shape answers: keyed. */
const KEYED_BLOCKS = new Set(['Version', 'NamespaceCompatibility', 'ProtocolCapabilities']);
/** Blocks that begin, name or end a session (XMLA 1.1, "Support for Statefulness"). */
const SESSION_BLOCKS = new Set(['BeginSession', 'Session', 'EndSession']);
/** Blocks that are not keyed: requests with them are not looked up. */
const UNKEYED_BLOCKS = new Set(['Security', 'BeginGetSessionToken']);
/** Known attributes by `nameOf`; with `=` for one value only. */
type Known = ReadonlySet<string>;
const NO_ATTRIBUTES: Known = new Set();
/** Clients put it on the envelope and on the method; engines take it as a hint. */
const ENCODING_STYLE: Known = new Set([
  `{${SOAP}}encodingStyle=http://schemas.xmlsoap.org/soap/encoding/`,
]);
/** ADOMD.NET writes `mustUnderstand` without, SOAP 1.1 §4.2.3 with a prefix; toolkits add `xsi`. */
const BEGIN_ATTRIBUTES = new Set([
  `{${SOAP}}mustUnderstand`,
  'mustUnderstand',
  `{${SOAP}}actor`,
  `{${XSI}}nil=true`,
  `{${XSI}}type=xsd:string`,
]);
const SESSION_ATTRIBUTES = new Set([...BEGIN_ATTRIBUTES, 'SessionId']);
const TYPE: Known = new Set([`{${XSI}}type`]);
/** XML Schema types whose text means what it says: not base64Binary or QName. */
const SIMPLE_TYPE = /^[\w.-]+:(?:string|int|long|float|double|decimal|boolean)$/;

/** Names in the order of the children, each at most once; `?` marks those that may be missing. */
const orderOf = (names: string) =>
  names
    .split(' ')
    .map((name) => ({ local: name.replace('?', ''), isOptional: name.endsWith('?') }));
type Order = ReturnType<typeof orderOf>;
/** SOAP 1.1 §4, narrowed: nothing behind Body. */
const OF_ENVELOPE = orderOf('Header? Body');
/** The order of the schema (XMLA 1.1, "Discover" and "Execute"), which all known clients keep. */
const OF_DISCOVER = orderOf('RequestType Restrictions Properties');
const OF_EXECUTE = orderOf('Command Properties Parameters?');
const OF_PARAMETER = orderOf('Name Value');
const RESTRICTION_LIST = orderOf('RestrictionList?');
const PROPERTY_LIST = orderOf('PropertyList?');

const nameOf = ({ uri, local }: TagAttribute) => (uri === '' ? local : `{${uri}}${local}`);

function namedAttributes({ attributes }: XmlElement): HeaderBlock['attributes'] {
  const named = attributes.map((attribute) => [nameOf(attribute), attribute.value] as const);
  return named.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}

function valueOf(element: XmlElement, name: string): string {
  return element.attributes.find((attribute) => nameOf(attribute) === name)?.value ?? '';
}

/** Accepts `xsi:nil` on an element that is nil, and a simple `xsi:type`. */
function isForm(element: XmlElement, { uri, local, value }: TagAttribute): boolean {
  const { children, text, hasCData, typeNamespace } = element;
  if (uri !== XSI || children.length > 0) return false;
  if (local === 'nil') return /^(?:true|1)$/.test(value) && text === '' && !hasCData;
  return local === 'type' && typeNamespace === XSD && SIMPLE_TYPE.test(value);
}

class EnvelopeReader {
  oddity: string | undefined;
  readonly forms: string[] = [];
  oddBeside: boolean | undefined;
  #inBlock = false;

  constructor(oddity: string | undefined) {
    if (oddity !== undefined) this.#note(oddity);
  }

  #note(oddity: string, isBeside = this.#inBlock): false {
    this.oddity ??= oddity.slice(0, MAX_DETAIL_CHARS);
    this.oddBeside = isBeside && this.oddBeside !== false;
    return false;
  }

  /** @param place a unique name within the method, for an element that may have a toolkit's form */
  attributes(element: XmlElement, known: Known, place?: string): void {
    for (const attribute of element.attributes) {
      const name = nameOf(attribute);
      if (known.has(name) || known.has(`${name}=${attribute.value}`)) continue;
      if (place !== undefined && isForm(element, attribute)) {
        this.forms.push(`${place} ${attribute.local}=${attribute.value}`);
      } else this.#note(`attribute ${attribute.local} of ${element.local}`);
    }
  }

  blank({ text, local, hasCData }: XmlElement): void {
    if (hasCData || /[^ \t\r\n]/.test(text)) this.#note(`text in ${local}`);
  }

  #children(element: XmlElement, isKnown: (child: XmlElement) => boolean): readonly XmlElement[] {
    return element.children.filter(
      (child) => isKnown(child) || this.#note(`element ${child.local} in ${element.local}`),
    );
  }

  #text(element: XmlElement | undefined, known = NO_ATTRIBUTES, place?: string): string {
    if (element === undefined) return '';
    this.attributes(element, known, place);
    const [child] = element.children;
    if (child !== undefined) this.#note(`element ${child.local} in ${element.local}`);
    return element.text;
  }

  sequence(element: XmlElement | undefined, order: Order): readonly (XmlElement | undefined)[] {
    if (element === undefined) return [];
    this.blank(element);
    const found = order.map((): XmlElement | undefined => undefined);
    const isBeside = element.local === 'Properties';
    let reached = -1;
    for (const child of element.children) {
      const isOfThese = child.uri === element.uri;
      const place = isOfThese ? order.findIndex(({ local }) => local === child.local) : -1;
      if (place < 0) this.#note(`element ${child.local} in ${element.local}`, isBeside);
      else {
        if (place <= reached) {
          this.#note(`${child.local} out of its place in ${element.local}`, isBeside);
        }
        reached = place;
        found[place] ??= child;
      }
    }
    for (const [at, { local, isOptional }] of order.entries()) {
      const isMissing = found[at] === undefined && !isOptional;
      if (isMissing) this.#note(`no ${local} in ${element.local}`);
    }
    return found;
  }

  #list(around: XmlElement | undefined, order: Order): readonly XmlElement[] {
    if (around === undefined) return [];
    this.attributes(around, NO_ATTRIBUTES, around.local);
    return this.#elements(this.sequence(around, order)[0]);
  }

  #elements(list: XmlElement | undefined): readonly XmlElement[] {
    if (list === undefined) return [];
    this.attributes(list, NO_ATTRIBUTES, list.local);
    this.blank(list);
    return this.#children(list, ({ uri }) => uri === XMLA);
  }

  /** The first session element counts. `Security` binds a user to it, in any namespace. */
  header(headers: readonly XmlElement[]) {
    let session: SessionHeader = { kind: 'none' };
    const keyed: HeaderBlock[] = [];
    const others = new Set<string>();
    for (const header of headers) {
      this.attributes(header, ENCODING_STYLE);
      this.blank(header);
      this.#inBlock = true;
      this.#children(header, (block) => {
        const { uri, local } = block;
        if (uri === XMLA && SESSION_BLOCKS.has(local)) {
          const read = this.#session(block);
          if (session.kind !== 'none') this.#note('a second session element');
          else session = read;
          return true;
        }
        others.add(local);
        const isKeyed = uri.startsWith(ANALYSIS_SERVICES) && KEYED_BLOCKS.has(local);
        if (isKeyed) keyed.push(this.#block(block));
        return isKeyed || UNKEYED_BLOCKS.has(local);
      });
      this.#inBlock = false;
    }
    return {
      session,
      sessionToken: others.has('BeginGetSessionToken'),
      headers: keyed,
      security: others.has('Security'),
    };
  }

  #session(block: XmlElement): SessionHeader {
    this.blank(block);
    const isBegin = block.local === 'BeginSession';
    this.#text(block, isBegin ? BEGIN_ATTRIBUTES : SESSION_ATTRIBUTES);
    if (isBegin) return { kind: 'begin' };
    const id = valueOf(block, 'SessionId');
    if (id === '') this.#note(`no SessionId in ${block.local}`);
    if (block.local === 'EndSession') return { kind: 'end', id };
    const others = namedAttributes(block).filter(([name]) => name !== 'SessionId');
    return { kind: 'in', id, understand: others.length === 0 ? '' : JSON.stringify(others) };
  }

  #block(block: XmlElement): HeaderBlock {
    const { uri, local, children, text } = block;
    const attributes = namedAttributes(block);
    if (children.length === 0) return { uri, local, attributes, content: [text] };
    this.blank(block);
    this.#children(block, (child) => isElement(child, uri, 'Capability'));
    return { uri, local, attributes, content: children.map((child) => this.#text(child)) };
  }

  method(method: XmlElement) {
    this.attributes(method, ENCODING_STYLE);
    if (isElement(method, XMLA, 'Discover')) {
      const [type, restrictions, properties] = this.sequence(method, OF_DISCOVER);
      const requestType = this.#text(type, NO_ATTRIBUTES, 'RequestType');
      const list = this.#list(restrictions, RESTRICTION_LIST);
      return {
        method: 'Discover' as const,
        requestType,
        restrictions: list.map((one, at) => this.#restriction(one, `RestrictionList/${at}`)),
        properties: this.#properties(properties),
      };
    }
    if (!isElement(method, XMLA, 'Execute')) return undefined;
    const [command, properties, others] = this.sequence(method, OF_EXECUTE);
    return {
      method: 'Execute' as const,
      ...this.#command(command),
      properties: this.#properties(properties),
      parameters: this.#elements(others).flatMap((one, at) =>
        this.#parameter(one, `Parameters/${at}`),
      ),
    };
  }

  /**
   * Reads into a Cancel, since some name another session, and into no other command.
   * `Scope="Session"` makes an object of the session alone.
   */
  #command(command: XmlElement | undefined): Pick<ExecuteRequest, 'commands' | 'statement'> {
    const children = command?.children ?? [];
    if (command !== undefined) {
      this.attributes(command, NO_ATTRIBUTES);
      this.blank(command);
      this.#children(command, ({ uri, local }) => local !== 'Statement' || uri === XMLA);
    }
    for (const one of children) {
      const { local, uri, attributes } = one;
      if (foldName(local) === 'cancel') {
        if (uri !== XMLA && !uri.startsWith(ANALYSIS_SERVICES))
          this.#note('Cancel of another kind');
        this.blank(one);
        this.#text(one);
      }
      const isScoped = attributes.some((attribute) => foldName(attribute.local) === 'scope');
      if (isScoped && local !== 'Statement') this.#note(`Scope of ${local}`);
    }
    const statements = children.filter(({ local }) => local === 'Statement');
    const [statement = ''] = statements.map((one) => this.#text(one, NO_ATTRIBUTES, 'Statement'));
    return { commands: children.map(({ local }) => local), statement };
  }

  #properties(properties: XmlElement | undefined): readonly Property[] {
    return this.#list(properties, PROPERTY_LIST).map((one) => ({
      name: one.local,
      // A request with duplicate names passes.
      value: this.#text(one, NO_ATTRIBUTES, `PropertyList/${one.local}`),
    }));
  }

  /** White space beside `Value` is odd: an engine that lacks this form reads all the text. */
  #restriction(element: XmlElement, place: string): Restriction {
    const { local, children, text, hasCData } = element;
    if (children.length === 0) {
      return { name: local, form: 'plain', values: [this.#text(element, NO_ATTRIBUTES, place)] };
    }
    if (text !== '' || hasCData) this.#note(`text beside elements in ${local}`);
    this.attributes(element, NO_ATTRIBUTES);
    this.#children(element, (child) => isElement(child, XMLA, 'Value'));
    const values = children.map((child, at) => this.#text(child, NO_ATTRIBUTES, `${place}/${at}`));
    return { name: local, form: 'value', values };
  }

  /** The text of `xsi:type` is certain only while its prefix means XML Schema. */
  #parameter(element: XmlElement, place: string): readonly Parameter[] {
    if (element.local !== 'Parameter') {
      this.#note(`element ${element.local} in Parameters`);
      return [];
    }
    this.attributes(element, NO_ATTRIBUTES);
    const [name, value] = this.sequence(element, OF_PARAMETER);
    if (value !== undefined && value.attributes.length > 0 && value.typeNamespace !== XSD) {
      this.#note('xsi:type of another namespace');
    }
    const type = value === undefined ? '' : valueOf(value, `{${XSI}}type`);
    return [{ name: this.#text(name, NO_ATTRIBUTES, place), type, value: this.#text(value, TYPE) }];
  }
}
