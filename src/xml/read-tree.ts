import { withoutReferences } from './characters.ts';
import { XSI } from './namespace-names.ts';
import { XmlScanner } from './xml-scanner.ts';
import { unread, XmlError } from './xml-error.ts';

/** Elements nested deeper than this are refused; an XMLA request needs about seven. */
export const MAX_DEPTH = 64;
/**
 * More elements or attributes than this and a document is not read. Requests of clients hold some hundreds, and to
 * read so many takes about 10 ms, for which others wait.
 */
export const MAX_NODES = 10_000;

export interface XmlAttribute {
  /** Empty for an attribute without a prefix, whatever the default namespace (Namespaces in XML §6.2). */
  readonly uri: string;
  readonly local: string;
  /** Normalised as XML 1.0 §3.3.3 says. */
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

export type XmlReading =
  | {
      readonly kind: 'tree';
      readonly root: XmlElement;
      /** The first comment or processing instruction, in words; undefined when there is none. */
      readonly oddity: string | undefined;
    }
  /** Not well-formed by XML 1.0 or Namespaces in XML 1.0, or not read on purpose; `detail` is short words for the log. */
  | { readonly kind: XmlError['kind']; readonly detail: string }
  /** A document type declaration, or nesting over MAX_DEPTH. */
  | { readonly kind: 'refused'; readonly detail: string };

/** Longer words for the log are cut: they may hold names that a client chose. */
const MAX_DETAIL = 200;

type OpenElement = { -readonly [Key in keyof XmlElement]: XmlElement[Key] } & {
  children: XmlElement[];
};

class Refusal extends Error {}

/**
 * Reads a whole document strictly. Never throws.
 * @param utf8 the document in UTF-8
 */
export function readTree(utf8: Buffer): XmlReading {
  let root: XmlElement | undefined;
  const open: OpenElement[] = [];
  let nodes = 0;
  let oddity: string | undefined;

  function note(what: string): void {
    oddity ??= `${what} ${open.length === 0 ? 'outside the envelope' : `in ${open.at(-1)?.local}`}`;
  }

  const scanner = new XmlScanner({
    open(tag) {
      const { local, uri, empty } = tag;
      nodes += 1 + tag.attributeCount;
      if (nodes > MAX_NODES) throw unread(`more than ${MAX_NODES} elements and attributes`);
      if (open.length === MAX_DEPTH) {
        throw new Refusal(`elements nested deeper than ${MAX_DEPTH}`);
      }
      const attributes = tag.attributes().map(({ uri, local, value }) => ({ uri, local, value }));
      const prefix = /^([^:]+):/.exec(tag.value(XSI, 'type') ?? '')?.[1];
      const element: OpenElement = {
        uri,
        local,
        attributes,
        children: [],
        text: '',
        hasCData: false,
        selfClosing: empty,
        typeNamespace: prefix === undefined ? undefined : tag.namespaceOf(prefix),
      };
      open.at(-1)?.children.push(element);
      root ??= element;
      open.push(element);
    },
    text(bytes, from, to, escaped) {
      const element = open.at(-1);
      if (element === undefined) return;
      const written = bytes.toString('utf8', from, to);
      const text = written.includes('\r') ? written.replaceAll(/\r\n?/g, '\n') : written;
      element.text += escaped ? withoutReferences(text) : text;
    },
    close: () => void open.pop(),
    cdata() {
      const element = open.at(-1);
      if (element !== undefined) element.hasCData = true;
    },
    comment: () => note('a comment'),
    instruction: () => note('a processing instruction'),
    doctype() {
      throw new Refusal('a document type declaration');
    },
  });
  try {
    scanner.write(utf8);
    scanner.end();
  } catch (error) {
    const detail = (error instanceof Error ? error.message : '').slice(0, MAX_DETAIL);
    if (error instanceof Refusal) return { kind: 'refused', detail };
    return { kind: error instanceof XmlError ? error.kind : 'malformed', detail };
  }
  return root === undefined
    ? { kind: 'malformed', detail: 'no root element' }
    : { kind: 'tree', root, oddity };
}

export function isElement({ uri, local }: XmlElement, inUri: string, named: string): boolean {
  return local === named && uri === inUri;
}
