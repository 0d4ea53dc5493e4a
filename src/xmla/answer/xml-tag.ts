import { isPlainNamespace, XMLNS } from '../../xml/namespace-names.ts';
import type { KnownTag } from './known-tags.ts';
import type { StartTag, TagAttribute } from './start-tag.ts';
import type { Bindings, Declaration, OwnScope } from './xml-bindings.ts';
import {
  AMPERSAND,
  APOSTROPHE,
  EQUALS,
  GREATER,
  LESS,
  NAME_BYTES,
  QUOTE,
  SLASH,
  isAllowed,
  isWhite,
  startsWith,
  stopsAt,
} from './xml-bytes.ts';
import { XML_NAMESPACE } from './xml-names.ts';
import type { Name, NameTable } from './xml-names.ts';
import { ILL_FORMED, UNFINISHED, readReference, withoutReferences } from './xml-references.ts';

export interface TagReader {
  readonly tag: StartTag;
  /**
   * Reads the start tag at `at`, without a look at namespaces.
   *
   * @param base the offset of the first of the bytes in the document
   * @returns the index behind it, `UNFINISHED` or `ILL_FORMED`
   */
  read(bytes: Buffer, at: number, base: number): number;
  /**
   * Binds the prefixes that the tag declares, in a scope of their own if there are any.
   *
   * @returns the name of the tag; undefined when not all of its names stand for something, once
   */
  bind(): Name | undefined;
  /** The scope that the tag began which was bound last; undefined when it declares nothing. */
  readonly own: OwnScope | undefined;
  /** Takes the start tag at `at` for a known one, which was read and bound before, and begins its scope. */
  recall(bytes: Buffer, at: number, base: number, known: KnownTag): StartTag;
  /** Of the names of tags; see `NameTable`. */
  nextDocument(): void;
  isSmall(): boolean;
}

const STOPS = stopsAt(QUOTE, APOSTROPHE, LESS, AMPERSAND);

export function tagReader(names: NameTable, bindings: Bindings): TagReader {
  let bytes: Buffer = Buffer.alloc(0);
  let base = 0;
  let name: Name | undefined;
  let serial = 0;
  // Attributes as columns: no object for each of them.
  let count = 0;
  let declared = 0;
  let prefixed = 0;
  const attributes: Name[] = [];
  const starts: number[] = [];
  const ends: number[] = [];
  const escaped: boolean[] = [];
  /** where a known tag stands whose attributes were not read; -1 when those of the tag at hand were */
  let unread = -1;

  const tag = {
    local: '',
    uri: '',
    flag: 0,
    start: 0,
    end: 0,
    empty: false,
    verdict: 0,
    attributes: list,
    hasAttribute,
  };

  function valueOf(index: number): string {
    const text = bytes.toString('utf8', starts[index], ends[index]);
    const blanks = text.replace(/\r\n|[\t\n\r]/g, ' ');
    return escaped[index] === true ? withoutReferences(blanks) : blanks;
  }

  function list(): TagAttribute[] {
    if (unread >= 0) read(bytes, unread, base);
    const result: TagAttribute[] = [];
    for (let index = 0; index < count; index++) {
      const attribute = attributes[index];
      if (attribute === undefined || attribute.declares) continue;
      result.push({
        local: attribute.local,
        uri: uriOf(attribute),
        value: valueOf(index),
        start: base + (starts[index] ?? 0),
        end: base + (ends[index] ?? 0),
      });
    }
    return result;
  }

  function hasAttribute(uri: string, local: string, value: Uint8Array): boolean {
    if (unread >= 0) read(bytes, unread, base);
    for (let index = 0; index < count; index++) {
      const attribute = attributes[index];
      if (attribute?.local !== local || attribute.declares || uriOf(attribute) !== uri) continue;
      let from = starts[index] ?? 0;
      let to = ends[index] ?? 0;
      if (escaped[index] === true) return valueOf(index).trim() === Buffer.from(value).toString();
      while (from < to && isWhite(bytes[from] ?? 0)) from += 1;
      while (from < to && isWhite(bytes[to - 1] ?? 0)) to -= 1;
      return to - from === value.length && startsWith(bytes, from, value);
    }
    return false;
  }

  function read(from: Buffer, at: number, offset: number): number {
    bytes = from;
    base = offset;
    unread = -1;
    count = 0;
    declared = 0;
    prefixed = 0;
    serial += 1;
    const { length } = from;
    const nameBytes = NAME_BYTES;
    let index = at + 1;
    let hash = 0;
    for (; index < length; index++) {
      const byte = from[index] ?? 0;
      if (nameBytes[byte] === 0) break;
      hash = (Math.imul(hash, 31) + byte) | 0;
    }
    if (index === length) return UNFINISHED;
    name = names.find(from, at + 1, index, hash);
    if (name === undefined) return ILL_FORMED;
    for (;;) {
      const before = index;
      while (index < length && isWhite(from[index] ?? 0)) index += 1;
      if (index === length) return UNFINISHED;
      const byte = from[index] ?? 0;
      if (byte === GREATER || byte === SLASH) {
        tag.empty = byte === SLASH;
        if (byte === SLASH) index += 1;
        if (index === length) return UNFINISHED;
        if (from[index] !== GREATER) return ILL_FORMED;
        tag.start = offset + at;
        tag.end = offset + index + 1;
        return index + 1;
      }
      if (index === before) return ILL_FORMED;
      index = readAttribute(from, index);
      if (index < 0) return index;
    }
  }

  function readAttribute(from: Buffer, at: number): number {
    const { length } = from;
    const nameBytes = NAME_BYTES;
    let index = at;
    let hash = 0;
    for (; index < length; index++) {
      const byte = from[index] ?? 0;
      if (nameBytes[byte] === 0) break;
      hash = (Math.imul(hash, 31) + byte) | 0;
    }
    if (index === length) return UNFINISHED;
    const attribute = names.find(from, at, index, hash);
    if (attribute === undefined || attribute.lastTag === serial) return ILL_FORMED;
    attribute.lastTag = serial;
    while (index < length && isWhite(from[index] ?? 0)) index += 1;
    if (index === length) return UNFINISHED;
    if (from[index] !== EQUALS) return ILL_FORMED;
    index += 1;
    while (index < length && isWhite(from[index] ?? 0)) index += 1;
    if (index === length) return UNFINISHED;
    const quote = from[index];
    if (quote !== QUOTE && quote !== APOSTROPHE) return ILL_FORMED;
    return readValue(from, index + 1, quote, attribute);
  }

  function readValue(from: Buffer, at: number, quote: number, attribute: Name): number {
    const { length } = from;
    const stops = STOPS;
    let index = at;
    let references = false;
    for (;;) {
      while (index < length && stops[from[index] ?? 0] === 0) index += 1;
      if (index === length) return UNFINISHED;
      const byte = from[index];
      if (byte === quote) break;
      if (byte === AMPERSAND) {
        references = true;
        index = readReference(from, index, length);
        if (index < 0) return index;
      } else if (byte === LESS || !isAllowed(from, index)) return ILL_FORMED;
      else index += 1;
    }
    attributes[count] = attribute;
    starts[count] = at;
    ends[count] = index;
    escaped[count] = references;
    count += 1;
    if (attribute.declares) declared += 1;
    else if (attribute.prefixText !== '') prefixed += 1;
    return index + 1;
  }

  function bind(): Name | undefined {
    all.own = undefined;
    if (name === undefined || name.declares) return undefined;
    if (declared > 0 && !declare()) return undefined;
    const { uri } = name.prefix;
    if (uri === undefined || (prefixed > 0 && !checkPrefixed())) return undefined;
    tag.local = name.local;
    tag.uri = uri;
    tag.flag = name.flag;
    tag.verdict = 0;
    return name;
  }

  function declare(): boolean {
    const binds: Declaration[] = [];
    for (let index = 0; index < count; index++) {
      const attribute = attributes[index];
      if (attribute?.declares !== true) continue;
      const uri = valueOf(index);
      // Some parsers trim namespaces, some refuse what is no URI; two are bound for good (section 3).
      if (!isPlainNamespace(uri) || uri === XML_NAMESPACE || uri === XMLNS) return false;
      const prefixText = attribute.prefixText === '' ? '' : attribute.local;
      if (prefixText === 'xml' || prefixText === 'xmlns') return false;
      if (prefixText !== '' && uri === '') return false;
      binds.push({ prefix: names.prefix(prefixText), text: prefixText, uri });
    }
    all.own = bindings.begin(binds);
    return true;
  }

  /** Every prefix is declared, and no two attributes are the same by namespace (section 6.3). */
  function checkPrefixed(): boolean {
    const seen = prefixed > 1 ? new Set<string>() : undefined;
    for (let index = 0; index < count; index++) {
      const attribute = attributes[index];
      if (attribute === undefined || attribute.declares || attribute.prefixText === '') continue;
      const { uri } = attribute.prefix;
      if (uri === undefined) return false;
      // Readers differ in what they ask of the values of others, such as xml:id.
      if (attribute.prefixText === 'xml' && attribute.local !== 'lang') return false;
      seen?.add(`${attribute.local} ${uri}`);
    }
    return seen === undefined || seen.size === prefixed;
  }

  const all: TagReader & { own: OwnScope | undefined } = {
    tag,
    read,
    bind,
    own: undefined,
    nextDocument: names.nextDocument,
    isSmall: names.isSmall,
    recall(from, at, offset, known) {
      bytes = from;
      base = offset;
      unread = at;
      if (known.own !== undefined) bindings.beginAgain(known.own);
      known.tag.start = offset + at;
      known.tag.end = offset + at + known.length;
      return known.tag;
    },
  };
  return all;
}

/** An attribute without a prefix is in no namespace, whatever the default is. */
function uriOf(attribute: Name): string {
  return attribute.prefixText === '' ? '' : (attribute.prefix.uri ?? '');
}
