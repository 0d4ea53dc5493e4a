import { SaxesParser } from 'saxes';
import type { SaxesAttributeNS, SaxesTagNS } from 'saxes';
import { isPlainNamespace, XMLNS, XSI } from '../namespaces.ts';
import { readPlainXml } from './plain-xml.ts';
import { MAX_DECLARATIONS } from './xml-scope.ts';

/** Elements nested deeper than this are refused; an XMLA request needs about seven. */
export const MAX_DEPTH = 64;
/**
 * More elements or attributes than this and a body is not read. Requests of clients hold some hundreds, and to read so
 * many takes about 20 ms, for which others wait.
 */
export const MAX_NODES = 10_000;
const MAX_DETAIL = 200;

export interface XmlAttribute {
  /** Empty for an attribute without a prefix, whatever the default namespace (Namespaces in XML §6.2). */
  readonly uri: string;
  readonly local: string;
  readonly value: string;
}

export interface XmlElement {
  readonly uri: string;
  readonly local: string;
  /** Without namespace declarations. */
  readonly attributes: readonly XmlAttribute[];
  readonly children: readonly XmlElement[];
  /** All text and CDATA directly in this element, joined; line ends as XML 1.0 §2.11 says; not trimmed. */
  readonly text: string;
  readonly hasCData: boolean;
  readonly selfClosing: boolean;
  /** The namespace to which the prefix in `xsi:type` is bound; undefined without prefix or `xsi:type`. */
  readonly typeNamespace: string | undefined;
}

export type XmlParsing =
  | {
      readonly kind: 'tree';
      readonly root: XmlElement;
      /** The first comment or processing instruction, in words; undefined when there is none. */
      readonly oddity: string | undefined;
    }
  /** Not well-formed by XML 1.0 or Namespaces in XML 1.0. */
  | { readonly kind: 'malformed'; readonly detail: string }
  /** XML that is not read on purpose: another XML version, an unusual namespace name, too many nodes or declarations. */
  | { readonly kind: 'unread'; readonly detail: string }
  /** A document type declaration, or nesting over MAX_DEPTH. */
  | { readonly kind: 'refused'; readonly detail: string };

type Problem = Exclude<XmlParsing, { kind: 'tree' }>;

type Growing<T> = { -readonly [K in keyof T]: T[K] };
interface OpenElement extends Growing<Omit<XmlElement, 'children'>> {
  readonly children: OpenElement[];
}

/** A name part may not begin with these, though it may hold them (NCName). */
const NEVER_FIRST = /^(?:[-.0-9\u00B7\u203F\u2040]|[\u0300-\u036F])/;

/**
 * Parses a whole document strictly. Never throws. Where the parser is more lenient than XML 1.0 with
 * namespaces, the gap is closed here: a second byte order mark, a local name that begins like no name may,
 * a namespace name that is no plain URI.
 */
export function parseXml(text: string): XmlParsing {
  if (text.startsWith('\uFEFF')) {
    return { kind: 'malformed', detail: 'a second byte order mark' };
  }
  const plain = readPlainXml(text, { depth: MAX_DEPTH, nodes: MAX_NODES });
  return plain === undefined ? parseAnyXml(text) : { kind: 'tree', root: plain, oddity: undefined };
}

/** The same by the parser alone, whatever the text. */
export function parseAnyXml(text: string): XmlParsing {
  let problem: Problem | undefined;
  const halt = (kind: Problem['kind'], detail: string): never => {
    problem = { kind, detail: detail.slice(0, MAX_DETAIL) };
    throw new Error(detail);
  };
  const builder = createBuilder(halt);
  const parser = new SaxesParser({
    xmlns: true,
    position: false,
    forceXMLVersion: true,
    defaultXMLVersion: '1.0',
  });
  // Six handlers in the usual case and no more: from the seventh on V8 keeps the parser as a hash table, which
  // makes it several times slower. So errors are thrown, which is the default, the declaration is read at the first
  // tag, and what is seldom sent is listened for only where it stands. Attributes are counted one by one: what the
  // parser does with all those of a tag comes before it tells of the tag.
  if (text.includes('<!DOCTYPE')) {
    parser.on('doctype', () => halt('refused', 'a document type declaration'));
  }
  if (text.includes('<!--')) parser.on('comment', () => builder.odd('a comment'));
  if (/<\?(?!xml[ \t\r\n])/.test(text)) {
    parser.on('processinginstruction', ({ body }) => {
      // The parser takes `<?a?b?>` for `<?a ?b?>`, and only the second is XML.
      if (body.startsWith('?')) {
        halt('unread', 'a processing instruction that begins with a question mark');
      }
      builder.odd('a processing instruction');
    });
  }
  parser.on('attribute', (attribute) => builder.attribute(attribute));
  parser.on('opentag', (tag) => {
    // XML 1.1 has other line ends, so an engine may read another text.
    if (builder.root === undefined && (parser.xmlDecl.version ?? '1.0') !== '1.0') {
      halt('unread', 'not XML 1.0');
    }
    builder.open(tag, (prefix) => parser.resolve(prefix));
  });
  parser.on('closetag', () => builder.close());
  parser.on('text', (part) => builder.text(part));
  parser.on('cdata', (part) => builder.cdata(part));
  try {
    parser.write(text).close();
  } catch (error) {
    const found: Problem = problem ?? {
      kind: 'malformed',
      detail: (error instanceof Error ? error.message : String(error)).slice(0, MAX_DETAIL),
    };
    return found.kind !== 'refused' && mentionsDtd(text) ? refusedDtd(found.detail) : found;
  }
  const { root, oddity } = builder;
  return root === undefined
    ? { kind: 'malformed', detail: 'no root element' }
    : { kind: 'tree', root, oddity };
}

/**
 * Whether a text that could not be parsed holds a declaration that must not reach an engine. The parser
 * stops at the first thing it does not like, an engine's may go on.
 */
export function mentionsDtd(text: string): boolean {
  return /<!(?:DOCTYPE|ENTITY)/i.test(text);
}

function refusedDtd(detail: string): Problem {
  return { kind: 'refused', detail: `a document type declaration; ${detail}` };
}

interface TreeBuilder {
  /** In front of the tag that it stands in. */
  attribute(attribute: Omit<SaxesAttributeNS, 'uri'>): void;
  open(tag: SaxesTagNS, resolve: (prefix: string) => string | undefined): void;
  close(): void;
  text(part: string): void;
  cdata(part: string): void;
  odd(what: string): void;
  readonly root: XmlElement | undefined;
  readonly oddity: string | undefined;
}

function createBuilder(halt: (kind: Problem['kind'], detail: string) => never): TreeBuilder {
  const stack: OpenElement[] = [];
  /** How many declarations are in scope around each of them, and around what is being read. */
  const outers: number[] = [];
  let outer = 0;
  let declarations = 0;
  let root: OpenElement | undefined;
  let oddity: string | undefined;
  let nodes = 0;

  const count = (): void => {
    nodes += 1;
    if (nodes > MAX_NODES) {
      halt('unread', `more than ${MAX_NODES} elements and attributes`);
    }
  };
  const checkLocal = (name: string, local: string): void => {
    if (NEVER_FIRST.test(local)) {
      halt('malformed', `malformed name: ${name}`);
    }
  };

  return {
    attribute({ name, prefix, local, value }) {
      count();
      checkLocal(name, local);
      if (prefix !== 'xmlns' && name !== 'xmlns') return;
      if (!isPlainNamespace(value)) halt('unread', 'an unusual namespace name');
      declarations += 1;
      if (declarations > MAX_DECLARATIONS) {
        halt('unread', `more than ${MAX_DECLARATIONS} declarations of namespaces in scope`);
      }
    },
    open(tag, resolve) {
      count();
      checkLocal(tag.name, tag.local);
      const element = openElement(tag, resolve);
      const parent = stack.at(-1);
      if (parent === undefined) {
        root = element;
      } else {
        parent.children.push(element);
      }
      stack.push(element);
      outers.push(outer);
      outer = declarations;
      if (stack.length > MAX_DEPTH) {
        halt('refused', `elements nested deeper than ${MAX_DEPTH}`);
      }
    },
    close() {
      stack.pop();
      outer = outers.pop() ?? 0;
      declarations = outer;
    },
    text(part) {
      const top = stack.at(-1);
      if (top !== undefined) {
        top.text += part;
      }
    },
    cdata(part) {
      const top = stack.at(-1);
      if (top !== undefined) {
        top.text += part;
        top.hasCData = true;
      }
    },
    odd(what) {
      oddity ??= `${what} ${stack.length === 0 ? 'outside the envelope' : `in ${stack.at(-1)?.local}`}`;
    },
    get root() {
      return root;
    },
    get oddity() {
      return oddity;
    },
  };
}

function openElement(
  tag: SaxesTagNS,
  resolve: (prefix: string) => string | undefined,
): OpenElement {
  const all: SaxesAttributeNS[] = Object.values(tag.attributes);
  const attributes = all
    .filter(({ uri }) => uri !== XMLNS)
    .map(({ uri, local, value }) => ({ uri, local, value }));
  const type = attributes.find(({ uri, local }) => uri === XSI && local === 'type')?.value;
  const colon = type?.indexOf(':') ?? -1;
  return {
    uri: tag.uri,
    local: tag.local,
    attributes,
    children: [],
    text: '',
    hasCData: false,
    selfClosing: tag.isSelfClosing,
    typeNamespace: type === undefined || colon < 1 ? undefined : resolve(type.slice(0, colon)),
  };
}
