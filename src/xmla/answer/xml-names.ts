import { newPlace, wordsOf } from './known-tags.ts';
import type { Place } from './known-tags.ts';
import { GREATER, LESS, SLASH, startsWith } from './xml-bytes.ts';

/** A prefix, and the namespace that it stands for at this place of the document. */
export interface Prefix {
  /** undefined while the prefix is not declared; '' is no namespace */
  uri: string | undefined;
}

/** A name as it is spelt in a document. There is one object for each spelling, so that equal names are the same. */
export interface Name {
  readonly bytes: Uint8Array;
  readonly prefix: Prefix;
  /** '' when there is none */
  readonly prefixText: string;
  readonly local: string;
  /** Whether it declares a namespace when it names an attribute: `xmlns` or `xmlns:…`. */
  readonly declares: boolean;
  /** what `flagOf` says of its local part */
  readonly flag: number;
  /** the number of the tag that had an attribute of this name last */
  lastTag: number;
  /** its end tag without white space, see `hasWords` */
  readonly endTag: readonly number[];
  /** the first tag within an element of this name, and the tag behind one */
  readonly within: Place;
  readonly behind: Place;
}

export interface NameTable {
  /** The name that stands from `from` up to `to`; undefined when it is none. `hash` is any hash of its bytes. */
  find(bytes: Buffer, from: number, to: number, hash: number): Name | undefined;
  /** The prefix of that text; '' for names without one. */
  prefix(text: string): Prefix;
  /** Names that are known from before are not counted in the next document. */
  nextDocument(): void;
  isSmall(): boolean;
}

/** Namespaces in XML 1.0, section 3: bound from the start, and not to be bound otherwise. */
export const XML_NAMESPACE = 'http://www.w3.org/XML/1998/namespace';

const FIRST =
  'A-Z_a-z\\u{C0}-\\u{D6}\\u{D8}-\\u{F6}\\u{F8}-\\u{2FF}\\u{370}-\\u{37D}\\u{37F}-\\u{1FFF}\\u{200C}-\\u{200D}\\u{2070}-\\u{218F}\\u{2C00}-\\u{2FEF}\\u{3001}-\\u{D7FF}\\u{F900}-\\u{FDCF}\\u{FDF0}-\\u{FFFD}\\u{10000}-\\u{EFFFF}';
const PART = `[${FIRST}][-.0-9\\u{B7}\\u{300}-\\u{36F}\\u{203F}-\\u{2040}${FIRST}]*`;
/** QName: productions 4 and 4a of XML 1.0, 7 to 11 of Namespaces in XML. */
const QUALIFIED_NAME = new RegExp(`^(?:(${PART}):)?(${PART})$`, 'u');

/** What nearly every name is; found much faster. */
const PLAIN_NAME = /^(?:([A-Za-z_][\w.-]*):)?([A-Za-z_][\w.-]*)$/;

/** Whether a text is a name without a colon. */
export function isPlainName(text: string): boolean {
  return !text.includes(':') && QUALIFIED_NAME.test(text);
}

/** Slots of the table in front, found by hash without a look at the text; a power of two. */
const SLOTS = 512;
const NO_NAMES: readonly undefined[] = Array.from({ length: SLOTS });
/** How many names, and how many bytes of them, one document may have. Wide tables name each column. */
const MOST_NAMES = 65_536;
const MOST_BYTES = 4 * 1024 * 1024;
const LONGEST = 4096;
/** Names, and bytes of them, that are kept for the next document. */
const MOST_KEPT = 1024;
const MOST_KEPT_BYTES = 32 * 1024;

/**
 * The names of documents, one after the other, each checked when it is seen for the first time.
 *
 * @param flagOf asked once for each name about its local part
 */
export function nameTable(flagOf: (local: string) => number): NameTable {
  const slots: (Name | undefined)[] = NO_NAMES.slice();
  const names = new Map<string, Name>();
  const prefixes = new Map<string, Prefix>([
    ['', { uri: '' }],
    ['xml', { uri: XML_NAMESPACE }],
  ]);
  let size = 0;
  let bytesBefore = 0;
  let namesBefore = 0;

  function prefix(text: string): Prefix {
    let found = prefixes.get(text);
    if (found === undefined) {
      found = { uri: undefined };
      prefixes.set(text, found);
    }
    return found;
  }

  function add(bytes: Buffer, from: number, to: number, text: string): Name | undefined {
    const match = PLAIN_NAME.exec(text) ?? QUALIFIED_NAME.exec(text);
    size += to - from;
    if (match === null || size > MOST_BYTES || names.size - namesBefore >= MOST_NAMES)
      return undefined;
    const [, prefixText = '', local = ''] = match;
    const copy = copyOf(bytes, from, to);
    const name: Name = {
      bytes: copy,
      prefix: prefix(prefixText),
      prefixText,
      local,
      declares: prefixText === 'xmlns' || text === 'xmlns',
      flag: flagOf(local),
      lastTag: 0,
      endTag: wordsOf(Uint8Array.of(LESS, SLASH, ...copy, GREATER)),
      within: newPlace(),
      behind: newPlace(),
    };
    names.set(text, name);
    return name;
  }

  return {
    find(bytes, from, to, hash) {
      const slot = hash & (SLOTS - 1);
      const known = slots[slot];
      if (
        known !== undefined &&
        known.bytes.length === to - from &&
        startsWith(bytes, from, known.bytes)
      )
        return known;
      if (to - from > LONGEST) return undefined;
      const text = bytes.toString('utf8', from, to);
      const name = names.get(text) ?? add(bytes, from, to, text);
      slots[slot] = name ?? known;
      return name;
    },
    prefix,
    nextDocument() {
      bytesBefore += size;
      size = 0;
      namesBefore = names.size;
    },
    isSmall: () => names.size <= MOST_KEPT && bytesBefore + size <= MOST_KEPT_BYTES,
  };
}

/** Names are short, so that a loop beats the ways of the platform. */
function copyOf(bytes: Uint8Array, from: number, to: number): Uint8Array {
  const copy = new Uint8Array(to - from);
  for (let at = from; at < to; at++) copy[at - from] = bytes[at] ?? 0;
  return copy;
}
