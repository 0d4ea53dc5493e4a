export class XmlError extends Error {
  /**
   * `malformed`: against XML 1.0 or Namespaces in XML 1.0. `unread`: valid perhaps, but another
   * version of XML, or over a limit. `refused`: it must not reach an engine.
   */
  readonly kind: 'malformed' | 'unread' | 'refused';

  constructor(kind: XmlError['kind'], detail: string) {
    super(detail);
    this.kind = kind;
  }
}

export function malformed(detail: string): XmlError {
  return new XmlError('malformed', detail);
}

/** Thrown where bytes end in a name. One for all: making one takes as long as reading 20 tags. */
const CUT_NAME = malformed('an unfinished name');

export function unread(detail: string): XmlError {
  return new XmlError('unread', detail);
}

// Bytes of XML in UTF-8.
const SPACE = 0x20;
const QUOTE = 0x22;
export const AMPERSAND = 0x26;
const APOSTROPHE = 0x27;
export const SLASH = 0x2f;
export const LESS = 0x3c;
const EQUALS = 0x3d;
export const GREATER = 0x3e;
/** The first byte of U+F000 to U+FFFF: XML forbids U+FFFE and U+FFFF. */
const LAST_PLANE = 0xef;

/** Production 3 of XML 1.0. */
export function isWhite(byte: number | undefined): boolean {
  return byte === SPACE || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

export function isBlank(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) if (!isWhite(bytes[at])) return false;
  return true;
}

/** Builds a table by byte: 1 where a run of ordinary characters must be looked at, else 0. */
export function stopsAt(...bytes: readonly number[]): Uint8Array {
  const table = new Uint8Array(256).fill(1, 0, SPACE);
  for (const white of [0x09, 0x0a, 0x0d]) table[white] = 0;
  for (const byte of [LAST_PLANE, ...bytes]) table[byte] = 1;
  return table;
}

/**
 * Tells whether XML 1.0 (production 2) allows the character that begins at a stop of `stopsAt`. The
 * text must be UTF-8 and end with a whole character.
 */
export function isAllowed(bytes: Uint8Array, at: number): boolean {
  const byte = bytes[at] ?? 0;
  if (byte === LAST_PLANE) return bytes[at + 1] !== 0xbf || (bytes[at + 2] ?? 0) < 0xbe;
  return byte >= SPACE || isWhite(byte);
}

/** Makes ASCII bytes to compare with. No Buffer, so that all compared objects are of one class. */
export function markOf(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text));
}

export function startsWith(bytes: Uint8Array, at: number, mark: Uint8Array): boolean {
  const { length } = mark;
  if (at + length > bytes.length) return false;
  for (let index = 0; index < length; index += 1)
    if (bytes[at + index] !== mark[index]) return false;
  return true;
}

const NAMED: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
};
const REFERENCE = /^&(?:amp|lt|gt|quot|apos|#(\d+|x[\da-fA-F]+));/;
const BEGUN_REFERENCE = /^&(?:[a-z]*|#\d*|#x[\da-fA-F]*)$/;
/** Bytes of a reference; a real one takes at most ten. */
const LONGEST_REFERENCE = 24;
/** The bytes end before the reference does. */
export const UNFINISHED = -1;
/** No such reference exists without a document type declaration. */
export const ILL_FORMED = -2;

/** Returns the index behind the reference at `at` (XML 1.0 §4.1), `UNFINISHED` or `ILL_FORMED`. */
export function referenceEnd(bytes: Buffer, at: number): number {
  const text = bytes.toString('latin1', at, at + LONGEST_REFERENCE);
  const [reference, number] = REFERENCE.exec(text) ?? [];
  if (reference !== undefined) {
    const isGood = number === undefined || isCharacter(codeOf(number));
    return isGood ? at + reference.length : ILL_FORMED;
  }
  const isBegun = text.length < LONGEST_REFERENCE && BEGUN_REFERENCE.test(text);
  return isBegun ? UNFINISHED : ILL_FORMED;
}

/** Reads `60` or `x3c`. */
const codeOf = (number: string) => Number(number.replace('x', '0x'));

/** Production 2 of XML 1.0. */
function isCharacter(code: number): boolean {
  if (code < SPACE) return isWhite(code);
  if (code >= 0xd800 && code <= 0xdfff) return false;
  return code <= 0x10ffff && code !== 0xfffe && code !== 0xffff;
}

/** Replaces references that `referenceEnd` has read. */
export function withoutReferences(text: string): string {
  return text.replace(
    /&([^;]*);/g,
    (_, name: string) => NAMED[name] ?? String.fromCodePoint(codeOf(name.slice(1))),
  );
}

/** 1 for bytes of names, and for all bytes of longer characters, which are checked later. */
const NAME_BYTES: Uint8Array = new Uint8Array(256).map((_, byte) =>
  byte >= 0x80 || /[\w.:-]/.test(String.fromCharCode(byte)) ? 1 : 0,
);

const FIRST =
  'A-Z_a-z\\u{C0}-\\u{D6}\\u{D8}-\\u{F6}\\u{F8}-\\u{2FF}\\u{370}-\\u{37D}\\u{37F}-\\u{1FFF}\\u{200C}-\\u{200D}\\u{2070}-\\u{218F}\\u{2C00}-\\u{2FEF}\\u{3001}-\\u{D7FF}\\u{F900}-\\u{FDCF}\\u{FDF0}-\\u{FFFD}\\u{10000}-\\u{EFFFF}';
const PART = `[${FIRST}][-.0-9\\u{B7}\\u{300}-\\u{36F}\\u{203F}-\\u{2040}${FIRST}]*`;
/** Productions 4 and 4a of XML 1.0, 7 to 11 of Namespaces in XML. */
const QUALIFIED_NAME = new RegExp(`^(?:(${PART}):)?(${PART})$`, 'u');

/** Accepts a name of XML without a colon. */
export function isPlainName(text: string): boolean {
  return QUALIFIED_NAME.exec(text)?.[2] === text;
}

/** Namespaces in XML 1.0 §3: bound from the start, and not to be bound otherwise. */
const XML_NAMESPACE = 'http://www.w3.org/XML/1998/namespace';
const XMLNS = 'http://www.w3.org/2000/xmlns/';

/** Namespaces as clients and engines write them. Parsers differ in trimming and refusing others. */
const PLAIN_NAMESPACE =
  /^(?:|urn:[\w.-]+(?:[:/][\w.-]+)*|https?:\/\/[\w.-]+(?::\d{1,5})?(?:\/[\w.~:-]*)*(?:#[\w-]*)?)$/;
const PLAIN_XML = /^(?:lang=[^]*|space=(?:default|preserve))$/;
/** Longer names occur in no engine and no client. */
const LONGEST_NAMESPACE = 256;
/** Limits what a reader remembers of each name; hardly any namespace is longer. */
const USUAL_NAMESPACE = 64;
/** Bytes of a tag or processing instruction. They must be held, and real ones are smaller. */
export const LARGEST_TAG_BYTES = 64 * 1024;
/** Limits declarations in scope. Toolkits that declare a prefix for each part stay far below. */
const MAX_DECLARATIONS = 256;
/** Names of one document, and bytes of them. Wide tables name each column. */
const MOST_NAMES = 65_536;
const MOST_NAME_BYTES = 4 * 1024 * 1024;

export interface TagAttribute {
  /** '' without a prefix, whatever the default namespace (Namespaces in XML §6.2). */
  readonly uri: string;
  readonly local: string;
  /** References are replaced, white space characters are blanks (XML 1.0 §3.3.3). */
  readonly value: string;
  /** Offsets of the value without its quotes. */
  readonly start: number;
  readonly end: number;
}

/** A prefix with the namespace that it is bound to at this point of the document. */
interface Prefix {
  uri: string | undefined;
}

/** A name as spelt. Each spelling has one object, so that equal names are identical. */
interface Name {
  readonly spelt: Uint8Array;
  readonly prefix: Prefix;
  readonly hasPrefix: boolean;
  readonly local: string;
  /** `xmlns` or `xmlns:…`: an attribute of this name declares a namespace. */
  readonly declares: boolean;
  /** The number of the last tag with an attribute of this name. */
  lastTag: number;
  /** The name last read behind it. Tables repeat their names in one order. */
  next: Name | undefined;
  /** The last declaration by it, which most documents repeat. */
  declared: { readonly spelt: Uint8Array; readonly uri: string } | undefined;
}

/** Places by a sum of a name's bytes, a power of two; the later of two names with one sum stays. */
const SUMS = 512;
const NO_NAMES = Array.from<Name | undefined>({ length: SUMS });
/** Limits of a reader kept for the next document: learning names takes longer than reading. */
const MOST_KEPT = 1_024;
const MOST_KEPT_BYTES = 32 * 1024;

/** Idle readers, which know the names of earlier documents. */
export type TagReaders = TagReader[];
const NO_BYTES = Buffer.alloc(0);
/** An attribute of the last tag, with the place of its value in the bytes at hand. */
interface Attribute {
  name: Name;
  from: number;
  to: number;
  escaped: boolean;
}
const NO_ATTRIBUTES: readonly TagAttribute[] = [];
const VALUE_STOPS = stopsAt(QUOTE, APOSTROPHE, LESS, AMPERSAND);

/**
 * Reads start tags, checking each name once, and is itself the last tag that it read: the next one
 * overwrites it. Offsets count the bytes of the document in UTF-8, with a byte order mark.
 */
export class TagReader {
  local = '';
  /** '' without a namespace, and where namespaces are not resolved. */
  uri = '';
  /** Offsets from its `<` to behind its `>`. */
  start = 0;
  end = 0;
  /** It ends its element too. */
  selfClosing = false;
  spelt: Uint8Array = NO_BYTES;
  /** Counts declarations of namespaces too. */
  attributeCount = 0;

  #resolve = true;
  readonly #names = new Map<string, Name>();
  #nameBytes = 0;
  readonly #bySum: (Name | undefined)[] = NO_NAMES.slice();
  #lastName: Pick<Name, 'next'> = { next: undefined };
  readonly #prefixes = new Map<string, Prefix>([
    ['', { uri: '' }],
    ['xml', { uri: XML_NAMESPACE }],
  ]);
  /** Bindings in scope: prefix, depth of the element, earlier namespace. */
  readonly #bound: { prefix: Prefix; depth: number; before: string | undefined }[] = [];

  #bytes: Buffer = NO_BYTES;
  #base = 0;
  #serial = 0;
  #index = 0;
  /** The first `attributeCount` are those of the tag; objects behind them are reused. */
  readonly #attributes: Attribute[] = [];
  /** An attribute of the tag declares a namespace, or has a prefix. */
  #bindsNames = false;

  /** @param resolve false: prefixes are not looked up, and any namespace will do */
  begin(resolve: boolean): void {
    this.#resolve = resolve;
    this.uri = '';
  }

  /** Lets go of the document. @returns whether the reader may be kept for another */
  finish(): boolean {
    this.#bytes = NO_BYTES;
    this.attributeCount = 0;
    this.close(0);
    return this.#names.size <= MOST_KEPT && this.#nameBytes <= MOST_KEPT_BYTES;
  }

  /** Ends the scope of the elements at `depth` and deeper. */
  close(depth: number): void {
    for (;;) {
      const last = this.#bound.at(-1);
      if (last === undefined || last.depth < depth) return;
      last.prefix.uri = last.before;
      this.#bound.pop();
    }
  }

  /**
   * Reads the start tag at `at` and binds the prefixes that it declares.
   * @param base the offset of the first byte in the document
   * @returns the index of its last byte; -1 if the bytes end before, and then nothing is bound
   */
  read(bytes: Buffer, at: number, base: number, depth: number): number {
    this.#bytes = bytes;
    this.#base = base;
    this.#index = at + 1;
    try {
      this.#readTag(at, depth);
    } catch (error) {
      // The tag may go on in the next bytes: the cut makes no difference.
      if (this.#index < bytes.length) throw error;
      return -1;
    }
    this.start = base + at;
    this.end = base + this.#index + 1;
    return this.#index;
  }

  /** Throws in front of the first byte that is wrong or missing. */
  #readTag(at: number, depth: number): void {
    const bytes = this.#bytes;
    this.#serial += 1;
    this.attributeCount = 0;
    this.#bindsNames = false;
    const name = this.#readName();
    if (name.declares) throw malformed('an element of the prefix xmlns');
    let byte = bytes[this.#index];
    while (byte !== GREATER && byte !== SLASH) {
      if (!isWhite(byte)) throw malformed('a malformed tag');
      byte = this.#skipWhite();
      if (byte === GREATER || byte === SLASH) break;
      this.#readAttribute();
      if (this.#index - at > LARGEST_TAG_BYTES) throw unread('a tag that is too long');
      byte = bytes[this.#index];
    }
    this.selfClosing = byte === SLASH;
    if (this.selfClosing) this.#index += 1;
    if (bytes[this.#index] !== GREATER) throw malformed('a malformed tag');
    if (this.#resolve) {
      if (this.#bindsNames) this.#bind(depth);
      if (name.prefix.uri === undefined) throw malformed(`an unbound prefix of ${name.local}`);
      this.uri = name.prefix.uri;
    }
    this.local = name.local;
    this.spelt = name.spelt;
  }

  #listed(): readonly Attribute[] {
    return this.#attributes.slice(0, this.attributeCount);
  }

  /** Its attributes without declarations of namespaces, built anew for each call. */
  attributes(): readonly TagAttribute[] {
    if (this.attributeCount === 0) return NO_ATTRIBUTES;
    return this.#listed()
      .filter(({ name }) => !name.declares)
      .map((attribute) => ({
        uri: (this.#resolve && attribute.name.hasPrefix && attribute.name.prefix.uri) || '',
        local: attribute.name.local,
        value: this.#valueOf(attribute),
        start: this.#base + attribute.from,
        end: this.#base + attribute.to,
      }));
  }

  namespaceOf(prefix: string): string | undefined {
    return this.#prefixes.get(prefix)?.uri;
  }

  /** Moves the index behind the name that begins there. */
  #readName(): Name {
    const before = this.#lastName;
    const { next } = before;
    if (next !== undefined && startsWith(this.#bytes, this.#index, next.spelt)) {
      const end = this.#index + next.spelt.length;
      const byte = this.#bytes[end];
      if (byte !== undefined && NAME_BYTES[byte] === 0) {
        this.#index = end;
        return (this.#lastName = next);
      }
    }
    return (this.#lastName = before.next = this.#findName());
  }

  #findName(): Name {
    const bytes = this.#bytes;
    // A local here and below: a variable of the module is read anew for each byte.
    const inName = NAME_BYTES;
    const start = this.#index;
    let end = start;
    let sum = 0;
    for (let byte = bytes[end] ?? 0; inName[byte] === 1; byte = bytes[end] ?? 0) {
      sum = (Math.imul(sum, 31) + byte) | 0;
      end += 1;
    }
    this.#index = end;
    if (end === bytes.length) throw CUT_NAME;
    const found = this.#bySum[sum & (SUMS - 1)];
    if (found?.spelt.length === end - start && startsWith(bytes, start, found.spelt)) return found;
    const spelt = bytes.toString('latin1', start, end);
    let name = this.#names.get(spelt);
    if (name === undefined) {
      name = this.#newName(spelt);
      this.#names.set(spelt, name);
      this.#nameBytes += spelt.length;
      if (this.#names.size > MOST_NAMES || this.#nameBytes > MOST_NAME_BYTES) {
        throw unread('too many names');
      }
    }
    return (this.#bySum[sum & (SUMS - 1)] = name);
  }

  #newName(spelt: string): Name {
    const text = /[^\0-\x7f]/.test(spelt) ? Buffer.from(spelt, 'latin1').toString() : spelt;
    const [, prefix = '', local] = QUALIFIED_NAME.exec(text) ?? [];
    if (local === undefined) throw malformed('a malformed name');
    return {
      spelt: markOf(text),
      prefix: this.#prefixOf(prefix),
      hasPrefix: prefix !== '',
      local,
      declares: prefix === 'xmlns' || text === 'xmlns',
      lastTag: 0,
      next: undefined,
      declared: undefined,
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

  /** @returns the first other byte */
  #skipWhite(): number | undefined {
    const bytes = this.#bytes;
    let end = this.#index;
    while (isWhite(bytes[end])) end += 1;
    this.#index = end;
    return bytes[end];
  }

  #readAttribute(): void {
    const name = this.#readName();
    if (name.lastTag === this.#serial) throw malformed(`two attributes ${name.local}`);
    name.lastTag = this.#serial;
    this.#bindsNames ||= name.hasPrefix || name.declares;
    if (this.#skipWhite() !== EQUALS) throw malformed('an attribute without a value');
    this.#index += 1;
    const quote = this.#skipWhite();
    if (quote !== QUOTE && quote !== APOSTROPHE) throw malformed('a value without quotes');
    this.#index += 1;
    const from = this.#index;
    const escaped = this.#readValue(quote);
    const to = this.#index;
    const used = this.#attributes[this.attributeCount];
    if (used === undefined) this.#attributes.push({ name, from, to, escaped });
    else {
      used.name = name;
      used.from = from;
      used.to = to;
      used.escaped = escaped;
    }
    this.attributeCount += 1;
    this.#index += 1;
  }

  /** Reads up to the closing quote. @returns whether the value holds references */
  #readValue(quote: number): boolean {
    const bytes = this.#bytes;
    const stops = VALUE_STOPS;
    let end = this.#index;
    let references = false;
    for (;;) {
      while (stops[bytes[end] ?? 0] === 0) end += 1;
      this.#index = end;
      const byte = bytes[end];
      if (byte === quote) return references;
      if (byte === AMPERSAND) {
        references = true;
        end = referenceEnd(bytes, end);
        if (end === UNFINISHED) this.#index = bytes.length;
        if (end < 0) throw malformed('an invalid reference');
      } else if (byte === LESS || !isAllowed(bytes, end)) {
        throw malformed('a forbidden character in a value');
      } else end += 1;
    }
  }

  #valueOf({ from, to, escaped }: Attribute): string {
    const text = this.#bytes.toString('utf8', from, to);
    const blanks = /[\t\n\r]/.test(text) ? text.replace(/\r\n|[\t\n\r]/g, ' ') : text;
    return escaped ? withoutReferences(blanks) : blanks;
  }

  /** Binds declarations; then prefixes must be bound, and attributes differ by namespace (§6.3). */
  #bind(depth: number): void {
    for (let at = 0; at < this.attributeCount; at += 1) {
      const attribute = this.#attributes[at] as Attribute;
      if (attribute.name.declares) this.#declare(attribute, depth);
    }
    if (this.#bound.length > MAX_DECLARATIONS) {
      throw unread(`more than ${MAX_DECLARATIONS} declarations of namespaces in scope`);
    }
    let prefixed = 0;
    for (let at = 0; at < this.attributeCount; at += 1) {
      const attribute = this.#attributes[at] as Attribute;
      const { declares, hasPrefix, local, prefix } = attribute.name;
      if (declares || !hasPrefix) continue;
      prefixed += 1;
      if (prefix.uri === undefined) throw malformed(`an unbound prefix of ${local}`);
      // Readers ask different things of other values, such as xml:id.
      if (prefix.uri === XML_NAMESPACE && !PLAIN_XML.test(`${local}=${this.#valueOf(attribute)}`)) {
        throw unread(`an attribute xml:${local}`);
      }
    }
    if (prefixed < 2) return;
    const names = this.#listed().map(({ name }) => name);
    const others = names.filter(({ hasPrefix, declares }) => hasPrefix && !declares);
    const different = new Set(others.map(({ local, prefix }) => `${local} ${prefix.uri}`));
    if (different.size < prefixed) throw malformed('two attributes of one name');
  }

  #declare(attribute: Attribute, depth: number): void {
    const { name } = attribute;
    const text = name.hasPrefix ? name.local : '';
    const uri = this.#declaredBy(attribute, text);
    const prefix = this.#prefixOf(text);
    this.#bound.push({ prefix, depth, before: prefix.uri });
    prefix.uri = uri;
  }

  #declaredBy(attribute: Attribute, prefix: string): string {
    const { name, from, to } = attribute;
    const { declared } = name;
    const isSame =
      declared?.spelt.length === to - from && startsWith(this.#bytes, from, declared.spelt);
    if (declared && isSame) return declared.uri;
    const uri = this.#valueOf(attribute);
    if (prefix !== '' && uri === '') throw malformed(`a prefix ${prefix} without a namespace`);
    const isReserved = uri === XML_NAMESPACE || uri === XMLNS;
    if (isReserved || prefix === 'xml' || prefix === 'xmlns') throw unread('a reserved namespace');
    if (uri.length > LONGEST_NAMESPACE || !PLAIN_NAMESPACE.test(uri)) {
      throw unread('an unusual namespace name');
    }
    // A value written with references is read anew each time.
    if (uri.length <= USUAL_NAMESPACE) name.declared = { spelt: markOf(uri), uri };
    return uri;
  }
}
