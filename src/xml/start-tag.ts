import {
  AMPERSAND,
  APOSTROPHE,
  EQUALS,
  GREATER,
  isAllowed,
  isWhite,
  LESS,
  NAME_BYTES,
  QUOTE,
  referenceEnd,
  SLASH,
  splitName,
  stopsAt,
  withoutReferences,
} from './characters.ts';
import { isPlainNamespace, XML_NAMESPACE, XMLNS } from './namespace-names.ts';
import { malformed, unread } from './xml-error.ts';

/**
 * A start tag as it was just read. It is one object that the next tag overwrites, so nothing of it may be kept.
 * Offsets count the bytes of the document in UTF-8, a byte order mark included.
 */
export interface StartTag {
  readonly local: string;
  /** '' is no namespace, also where namespaces are not resolved. */
  readonly uri: string;
  /** From its `<`, up to and with its `>`. */
  readonly start: number;
  readonly end: number;
  /** Whether it ends its element too. */
  readonly empty: boolean;
  /** Its attributes, without those that declare namespaces. Builds them anew for each call. */
  attributes(): TagAttribute[];
  /** The value of one attribute; undefined when it has none of that name. Builds nothing else. */
  value(uri: string, local: string): string | undefined;
  /** The namespace that a prefix stands for in it; undefined for none. */
  namespaceOf(prefix: string): string | undefined;
}

export interface TagAttribute {
  /** '' for one without a prefix, whatever the default namespace (Namespaces in XML section 6.2). */
  readonly uri: string;
  readonly local: string;
  /** Its value, references replaced, each white space character a blank (XML 1.0 section 3.3.3). */
  readonly value: string;
  /** Where the value stands, without its quotes. */
  readonly start: number;
  readonly end: number;
}

/** A prefix, and the namespace that it stands for at this point of the document; undefined while it has none. */
interface Prefix {
  uri: string | undefined;
}

/** A name as it is spelt in a document. There is one object for each spelling, so that equal names are the same. */
export interface Name {
  /** Its bytes, one character each. */
  readonly spelt: string;
  readonly prefix: Prefix;
  readonly hasPrefix: boolean;
  readonly local: string;
  /** Whether it declares a namespace when it names an attribute: `xmlns` or `xmlns:…`. */
  readonly declares: boolean;
  /** The number of the tag that had an attribute of this name last. */
  lastTag: number;
}

export interface TagReader {
  readonly tag: StartTag;
  /** The name of the tag. */
  readonly name: Name;
  /**
   * Reads the start tag at `at` and binds the prefixes that it declares.
   * @param base the offset of the first of the bytes in the document
   * @returns the index of its last byte
   * @throws XmlError also when it does not end within the bytes; nothing was bound then
   */
  read(bytes: Buffer, at: number, base: number): number;
  /** How many declarations are in scope. */
  declarations(): number;
  /** Ends the scopes within which more than so many declarations are in scope. */
  release(declarations: number): void;
}

/** More declarations in scope at one time than this are not read. Toolkits that declare a prefix for each part stay far below. */
export const MAX_DECLARATIONS = 256;
/** Names of one document, and bytes of them. Wide tables name each column. */
const MOST_NAMES = 65_536;
const MOST_NAME_BYTES = 4 * 1024 * 1024;

/** Slots for names, found by their length and some of their bytes; a power of two. */
const SLOTS = 256;
const NO_NAMES: readonly undefined[] = Array.from({ length: SLOTS });

const NO_NAME: Name = {
  spelt: '',
  prefix: { uri: undefined },
  hasPrefix: false,
  local: '',
  declares: false,
  lastTag: 0,
};

const VALUE_STOPS = stopsAt(QUOTE, APOSTROPHE, LESS, AMPERSAND);

/**
 * Reads start tags, each name checked once.
 * @param resolve whether prefixes are looked up; false where any name will do
 */
export function createTagReader(resolve: boolean): TagReader {
  const slots: (Name | undefined)[] = NO_NAMES.slice();
  /** The names that gave way to others in their slot. */
  const others = new Map<string, Name>();
  const prefixes = new Map<string, Prefix>([
    ['', { uri: '' }],
    ['xml', { uri: XML_NAMESPACE }],
  ]);
  let nameCount = 0;
  let nameBytes = 0;
  /** The bindings in scope, each with what its prefix stood for before. */
  const bound: { readonly prefix: Prefix; readonly before: string | undefined }[] = [];

  let bytes: Buffer = Buffer.alloc(0);
  let base = 0;
  let serial = 0;
  /** Where the reading of the tag stands. */
  let index = 0;
  // The attributes as columns: no object for each of them.
  let count = 0;
  const attributes: Name[] = [];
  const starts: number[] = [];
  const ends: number[] = [];
  const escaped: boolean[] = [];

  function prefixOf(text: string): Prefix {
    let prefix = prefixes.get(text);
    if (prefix === undefined) {
      prefix = { uri: undefined };
      prefixes.set(text, prefix);
    }
    return prefix;
  }

  function newName(spelt: string): Name {
    const text = isAscii(spelt) ? spelt : Buffer.from(spelt, 'latin1').toString();
    const parts = splitName(text);
    if (parts === undefined) throw malformed('a malformed name');
    nameCount += 1;
    nameBytes += spelt.length;
    if (nameCount > MOST_NAMES || nameBytes > MOST_NAME_BYTES) throw unread('too many names');
    const { prefix, local } = parts;
    return {
      spelt,
      prefix: prefixOf(prefix),
      hasPrefix: prefix !== '',
      local,
      declares: prefix === 'xmlns' || text === 'xmlns',
      lastTag: 0,
    };
  }

  /** The name that begins at `index`, which moves behind it. */
  function readName(): Name {
    // In locals here and below: the language reads what stands outside of a function anew for each byte.
    const from = bytes;
    const inName = NAME_BYTES;
    const start = index;
    let end = start;
    while (inName[from[end] ?? 0] === 1) end += 1;
    index = end;
    const length = end - start;
    const ends = (from[end - 1] ?? 0) * 5 + (from[end - 2] ?? 0) * 3;
    const slot = (length * 37 + ends + (from[start] ?? 0)) & (SLOTS - 1);
    const first = slots[slot];
    if (first !== undefined && isSpelt(from, start, end, first.spelt)) return first;
    const spelt = from.toString('latin1', start, end);
    const known = others.get(spelt) ?? newName(spelt);
    slots[slot] = known;
    if (first !== undefined) others.set(first.spelt, first);
    return known;
  }

  function skipWhite(): void {
    if (!isWhite(bytes[index])) return;
    const from = bytes;
    let end = index + 1;
    while (isWhite(from[end])) end += 1;
    index = end;
  }

  function readAttribute(): Name {
    const attribute = readName();
    if (attribute.lastTag === serial) throw malformed(`two attributes ${attribute.local}`);
    attribute.lastTag = serial;
    skipWhite();
    if (bytes[index] !== EQUALS) throw malformed('an attribute without a value');
    index += 1;
    skipWhite();
    const quote = bytes[index];
    if (quote !== QUOTE && quote !== APOSTROPHE) throw malformed('a value without quotes');
    index += 1;
    attributes[count] = attribute;
    starts[count] = index;
    escaped[count] = readValue(quote);
    ends[count] = index;
    count += 1;
    index += 1;
    return attribute;
  }

  /** Up to the closing quote. @returns whether it holds references */
  function readValue(quote: number): boolean {
    const from = bytes;
    const stops = VALUE_STOPS;
    let end = index;
    let references = false;
    for (;;) {
      while (stops[from[end] ?? 0] === 0) end += 1;
      const byte = from[end];
      if (byte === quote) break;
      if (byte === AMPERSAND) {
        references = true;
        end = referenceEnd(from, end);
        if (end < 0) throw malformed('a reference that is none');
      } else if (byte === LESS || !isAllowed(from, end)) {
        throw malformed('a character that no value may hold');
      } else end += 1;
    }
    index = end;
    return references;
  }

  function valueAt(at: number): string {
    const text = bytes.toString('utf8', starts[at], ends[at]);
    const blanks = /[\t\n\r]/.test(text) ? text.replace(/\r\n|[\t\n\r]/g, ' ') : text;
    return escaped[at] === true ? withoutReferences(blanks) : blanks;
  }

  /** Binds what the attributes declare. */
  function declare(): void {
    for (let at = 0; at < count; at += 1) {
      const attribute = attributes[at];
      if (attribute?.declares !== true) continue;
      const uri = valueAt(at);
      const text = attribute.hasPrefix ? attribute.local : '';
      if (text !== '' && uri === '') throw malformed(`a prefix ${text} without a namespace`);
      const isReserved = uri === XML_NAMESPACE || uri === XMLNS;
      if (isReserved || text === 'xml' || text === 'xmlns') throw unread('a reserved namespace');
      // Some parsers trim names of namespaces, some refuse what is no URI.
      if (!isPlainNamespace(uri)) throw unread('an unusual namespace name');
      const prefix = prefixOf(text);
      bound.push({ prefix, before: prefix.uri });
      prefix.uri = uri;
    }
    if (bound.length > MAX_DECLARATIONS) {
      throw unread(`more than ${MAX_DECLARATIONS} declarations of namespaces in scope`);
    }
  }

  /** Every prefix is declared, and no two attributes are the same by namespace (section 6.3). */
  function checkPrefixed(prefixed: number): void {
    const seen = prefixed > 1 ? new Set<string>() : undefined;
    for (let at = 0; at < count; at += 1) {
      const attribute = attributes[at];
      if (attribute === undefined || attribute.declares || !attribute.hasPrefix) continue;
      const { local } = attribute;
      const { uri } = attribute.prefix;
      if (uri === undefined) throw malformed(`an unbound prefix of ${local}`);
      if (uri === XML_NAMESPACE && !isPlainXmlAttribute(local, valueAt(at))) {
        throw unread(`an attribute xml:${local}`);
      }
      seen?.add(`${local} ${uri}`);
    }
    if (seen !== undefined && seen.size < prefixed) throw malformed('two attributes of one name');
  }

  const uriOf = (name: Name) => (resolve && name.hasPrefix ? (name.prefix.uri ?? '') : '');

  const tag = {
    local: '',
    uri: '',
    start: 0,
    end: 0,
    empty: false,
    attributes() {
      const list: TagAttribute[] = [];
      for (let at = 0; at < count; at += 1) {
        const name = attributes[at];
        if (name === undefined || name.declares) continue;
        const [start = 0, end = 0] = [starts[at], ends[at]];
        const { local } = name;
        const value = valueAt(at);
        list.push({ uri: uriOf(name), local, value, start: base + start, end: base + end });
      }
      return list;
    },
    value(uri: string, local: string) {
      for (let at = 0; at < count; at += 1) {
        const name = attributes[at];
        if (name?.local === local && !name.declares && uriOf(name) === uri) return valueAt(at);
      }
      return undefined;
    },
    namespaceOf: (prefix: string) => prefixes.get(prefix)?.uri,
  };

  const reader = {
    tag,
    name: NO_NAME,
    read(from: Buffer, at: number, offset: number): number {
      bytes = from;
      base = offset;
      serial += 1;
      count = 0;
      index = at + 1;
      const name = readName();
      if (name.declares) throw malformed('an element of the prefix xmlns');
      let declared = 0;
      let prefixed = 0;
      for (;;) {
        const before = index;
        skipWhite();
        const byte = bytes[index];
        if (byte === GREATER || byte === SLASH) break;
        if (index === before) throw malformed('a malformed tag');
        const { declares, hasPrefix } = readAttribute();
        if (declares) declared += 1;
        else if (hasPrefix) prefixed += 1;
      }
      tag.empty = bytes[index] === SLASH;
      if (tag.empty) index += 1;
      if (bytes[index] !== GREATER) throw malformed('a malformed tag');
      if (resolve) {
        if (declared > 0) declare();
        if (prefixed > 0) checkPrefixed(prefixed);
        if (name.prefix.uri === undefined) throw malformed(`an unbound prefix of ${name.local}`);
        tag.uri = name.prefix.uri;
      }
      tag.local = name.local;
      tag.start = offset + at;
      tag.end = offset + index + 1;
      reader.name = name;
      return index;
    },
    declarations: () => bound.length,
    release(declarations: number) {
      while (bound.length > declarations) {
        const last = bound.pop();
        if (last !== undefined) last.prefix.uri = last.before;
      }
    },
  };
  return reader;
}

/** Whether the bytes from `from` up to `to` are those of a name. */
export function isSpelt(bytes: Buffer, from: number, to: number, spelt: string): boolean {
  const { length } = spelt;
  if (to - from !== length) return false;
  for (let at = 0; at < length; at += 1)
    if (bytes[from + at] !== spelt.charCodeAt(at)) return false;
  return true;
}

function isAscii(text: string): boolean {
  return !/[^\0-\x7f]/.test(text);
}

/** Readers differ in what they ask of the values of others, such as xml:id. */
function isPlainXmlAttribute(local: string, value: string): boolean {
  return local === 'lang' || (local === 'space' && /^(?:default|preserve)$/.test(value));
}
