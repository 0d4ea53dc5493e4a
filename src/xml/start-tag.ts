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
  /** How many attributes it has, with those that declare namespaces. */
  readonly attributeCount: number;
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

/** Bytes of a tag or a processing instruction. Larger ones would have to be held, and no engine or client sends any. */
export const LARGEST_TAG = 64 * 1024;
/** More declarations in scope at one time than this are not read. Toolkits that declare a prefix for each part stay far below. */
const MAX_DECLARATIONS = 256;
/** Names of one document, and bytes of them. Wide tables name each column. */
const MOST_NAMES = 65_536;
const MOST_NAME_BYTES = 4 * 1024 * 1024;

/** Slots for names, found by their length and some of their bytes; a power of two. */
const SLOTS = 256;
const NO_BYTES = Buffer.alloc(0);
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

/** Reads the start tags of one document, each name checked once, and is the tag that it has read last. */
export class TagReader implements StartTag {
  local = '';
  uri = '';
  start = 0;
  end = 0;
  empty = false;
  name = NO_NAME;

  readonly #resolve: boolean;
  readonly #slots: (Name | undefined)[] = NO_NAMES.slice();
  /** The names that gave way to others in their slot. */
  readonly #others = new Map<string, Name>();
  readonly #prefixes = new Map<string, Prefix>([
    ['', { uri: '' }],
    ['xml', { uri: XML_NAMESPACE }],
  ]);
  #nameCount = 0;
  #nameBytes = 0;
  /** The bindings in scope, each with what its prefix stood for before. */
  readonly #bound: { readonly prefix: Prefix; readonly before: string | undefined }[] = [];

  #bytes: Buffer = NO_BYTES;
  #base = 0;
  #serial = 0;
  /** Where the reading of the tag stands. */
  #index = 0;
  // The attributes as columns: no object for each of them.
  #count = 0;
  readonly #attributes: Name[] = [];
  readonly #starts: number[] = [];
  readonly #ends: number[] = [];
  readonly #escaped: boolean[] = [];

  /** @param resolve whether prefixes are looked up; false where any name will do */
  constructor(resolve: boolean) {
    this.#resolve = resolve;
  }

  /** How many declarations are in scope. */
  get declarations(): number {
    return this.#bound.length;
  }

  /** Ends the scopes within which more than so many declarations are in scope. */
  release(declarations: number): void {
    while (this.#bound.length > declarations) {
      const last = this.#bound.pop();
      if (last !== undefined) last.prefix.uri = last.before;
    }
  }

  /**
   * Reads the start tag at `at` and binds the prefixes that it declares.
   * @param base the offset of the first of the bytes in the document
   * @returns the index of its last byte
   * @throws XmlError also when it does not end within the bytes; nothing was bound then
   */
  read(bytes: Buffer, at: number, base: number): number {
    this.#bytes = bytes;
    this.#base = base;
    this.#serial += 1;
    this.#count = 0;
    this.#index = at + 1;
    const name = this.#readName();
    if (name.declares) throw malformed('an element of the prefix xmlns');
    let declared = 0;
    let prefixed = 0;
    let byte = bytes[this.#index];
    while (byte !== GREATER && byte !== SLASH) {
      if (!isWhite(byte)) throw malformed('a malformed tag');
      byte = this.#skipWhite();
      if (byte === GREATER || byte === SLASH) break;
      const { declares, hasPrefix } = this.#readAttribute();
      if (this.#index - at > LARGEST_TAG) throw unread('a tag that is too long');
      if (declares) declared += 1;
      else if (hasPrefix) prefixed += 1;
      byte = bytes[this.#index];
    }
    this.empty = byte === SLASH;
    if (this.empty) this.#index += 1;
    const end = this.#index;
    if (bytes[end] !== GREATER) throw malformed('a malformed tag');
    if (this.#resolve) {
      if (declared > 0) this.#declare();
      if (prefixed > 0) this.#checkPrefixed(prefixed);
      if (name.prefix.uri === undefined) throw malformed(`an unbound prefix of ${name.local}`);
      this.uri = name.prefix.uri;
    }
    this.name = name;
    this.local = name.local;
    this.start = base + at;
    this.end = base + end + 1;
    return end;
  }

  get attributeCount(): number {
    return this.#count;
  }

  attributes(): TagAttribute[] {
    const list: TagAttribute[] = [];
    for (let at = 0; at < this.#count; at += 1) {
      const name = this.#attributes[at];
      if (name === undefined || name.declares) continue;
      const value = this.#valueAt(at);
      const start = this.#base + (this.#starts[at] ?? 0);
      const end = this.#base + (this.#ends[at] ?? 0);
      list.push({ uri: this.#uriOf(name), local: name.local, value, start, end });
    }
    return list;
  }

  value(uri: string, local: string): string | undefined {
    for (let at = 0; at < this.#count; at += 1) {
      const name = this.#attributes[at];
      if (name?.local !== local || name.declares || this.#uriOf(name) !== uri) continue;
      return this.#valueAt(at);
    }
    return undefined;
  }

  namespaceOf(prefix: string): string | undefined {
    return this.#prefixes.get(prefix)?.uri;
  }

  /** The name that begins at the index, which moves behind it. */
  #readName(): Name {
    const bytes = this.#bytes;
    // In a local here and below: what stands outside of a function is read anew for each byte.
    const inName = NAME_BYTES;
    const start = this.#index;
    let end = start;
    while (inName[bytes[end] ?? 0] === 1) end += 1;
    this.#index = end;
    const length = end - start;
    const ends = (bytes[end - 1] ?? 0) * 5 + (bytes[end - 2] ?? 0) * 3;
    const slot = (length * 37 + ends + (bytes[start] ?? 0)) & (SLOTS - 1);
    const first = this.#slots[slot];
    if (first !== undefined && isSpelt(bytes, start, end, first.spelt)) return first;
    const spelt = bytes.toString('latin1', start, end);
    const known = this.#others.get(spelt) ?? this.#newName(spelt);
    this.#slots[slot] = known;
    if (first !== undefined) this.#others.set(first.spelt, first);
    return known;
  }

  #newName(spelt: string): Name {
    const text = isAscii(spelt) ? spelt : Buffer.from(spelt, 'latin1').toString();
    const parts = splitName(text);
    if (parts === undefined) throw malformed('a malformed name');
    this.#nameCount += 1;
    this.#nameBytes += spelt.length;
    if (this.#nameCount > MOST_NAMES || this.#nameBytes > MOST_NAME_BYTES) {
      throw unread('too many names');
    }
    const { prefix, local } = parts;
    return {
      spelt,
      prefix: this.#prefixOf(prefix),
      hasPrefix: prefix !== '',
      local,
      declares: prefix === 'xmlns' || text === 'xmlns',
      lastTag: 0,
    };
  }

  #prefixOf(text: string): Prefix {
    let prefix = this.#prefixes.get(text);
    if (prefix === undefined) {
      prefix = { uri: undefined };
      this.#prefixes.set(text, prefix);
    }
    return prefix;
  }

  /** @returns the first byte that is none */
  #skipWhite(): number | undefined {
    const bytes = this.#bytes;
    let end = this.#index;
    while (isWhite(bytes[end])) end += 1;
    this.#index = end;
    return bytes[end];
  }

  #readAttribute(): Name {
    const attribute = this.#readName();
    if (attribute.lastTag === this.#serial) throw malformed(`two attributes ${attribute.local}`);
    attribute.lastTag = this.#serial;
    if (this.#skipWhite() !== EQUALS) throw malformed('an attribute without a value');
    this.#index += 1;
    const quote = this.#skipWhite();
    if (quote !== QUOTE && quote !== APOSTROPHE) throw malformed('a value without quotes');
    this.#index += 1;
    const at = this.#count;
    this.#count = at + 1;
    this.#attributes[at] = attribute;
    this.#starts[at] = this.#index;
    this.#escaped[at] = this.#readValue(quote);
    this.#ends[at] = this.#index;
    this.#index += 1;
    return attribute;
  }

  /** Up to the closing quote. @returns whether it holds references */
  #readValue(quote: number): boolean {
    const bytes = this.#bytes;
    const stops = VALUE_STOPS;
    let end = this.#index;
    let references = false;
    for (;;) {
      while (stops[bytes[end] ?? 0] === 0) end += 1;
      const byte = bytes[end];
      if (byte === quote) break;
      if (byte === AMPERSAND) {
        references = true;
        end = referenceEnd(bytes, end);
        if (end < 0) throw malformed('a reference that is none');
      } else if (byte === LESS || !isAllowed(bytes, end)) {
        throw malformed('a character that no value may hold');
      } else end += 1;
    }
    this.#index = end;
    return references;
  }

  #valueAt(at: number): string {
    const text = this.#bytes.toString('utf8', this.#starts[at], this.#ends[at]);
    const blanks = /[\t\n\r]/.test(text) ? text.replace(/\r\n|[\t\n\r]/g, ' ') : text;
    return this.#escaped[at] === true ? withoutReferences(blanks) : blanks;
  }

  #uriOf(name: Name): string {
    return this.#resolve && name.hasPrefix ? (name.prefix.uri ?? '') : '';
  }

  /** Binds what the attributes declare. */
  #declare(): void {
    for (let at = 0; at < this.#count; at += 1) {
      const attribute = this.#attributes[at];
      if (attribute?.declares !== true) continue;
      const uri = this.#valueAt(at);
      const text = attribute.hasPrefix ? attribute.local : '';
      if (text !== '' && uri === '') throw malformed(`a prefix ${text} without a namespace`);
      const isReserved = uri === XML_NAMESPACE || uri === XMLNS;
      if (isReserved || text === 'xml' || text === 'xmlns') throw unread('a reserved namespace');
      // Some parsers trim names of namespaces, some refuse what is no URI.
      if (!isPlainNamespace(uri)) throw unread('an unusual namespace name');
      const prefix = this.#prefixOf(text);
      this.#bound.push({ prefix, before: prefix.uri });
      prefix.uri = uri;
    }
    if (this.#bound.length > MAX_DECLARATIONS) {
      throw unread(`more than ${MAX_DECLARATIONS} declarations of namespaces in scope`);
    }
  }

  /** Every prefix is declared, and no two attributes are the same by namespace (section 6.3). */
  #checkPrefixed(prefixed: number): void {
    const seen = prefixed > 1 ? new Set<string>() : undefined;
    for (let at = 0; at < this.#count; at += 1) {
      const attribute = this.#attributes[at];
      if (attribute === undefined || attribute.declares || !attribute.hasPrefix) continue;
      const { local } = attribute;
      const { uri } = attribute.prefix;
      if (uri === undefined) throw malformed(`an unbound prefix of ${local}`);
      if (uri === XML_NAMESPACE && !isPlainXmlAttribute(local, this.#valueAt(at))) {
        throw unread(`an attribute xml:${local}`);
      }
      seen?.add(`${local} ${uri}`);
    }
    if (seen !== undefined && seen.size < prefixed) throw malformed('two attributes of one name');
  }
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
