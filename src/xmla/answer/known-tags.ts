import type { OwnScope } from './xml-bindings.ts';
import type { Name } from './xml-names.ts';
import type { StartTag } from './start-tag.ts';

/** Bytes as `hasWords` compares them. */
interface KnownBytes {
  readonly words: readonly number[];
  readonly length: number;
  /** the last document in which they came again; `NEVER` at first */
  proven: number;
}

/**
 * A start tag that was read in full, with its bytes. The same bytes in the same scope are the same tag: they need to be
 * compared, but not to be read again.
 */
export interface KnownTag extends KnownBytes {
  readonly tag: { -readonly [Field in keyof StartTag]: StartTag[Field] };
  readonly name: Name;
  /** the bindings of prefixes under which it was read; see `Bindings` */
  readonly scope: number;
  /** the scope that it begins, where it declares namespaces */
  readonly own: OwnScope | undefined;
  /** texts with the end tag, as far as the sink has taken them for harmless */
  endings: KnownBytes[];
  /** how many more of them it may learn in `document` */
  patience: number;
  /** the document that taught it the last of them */
  document: number;
}

/**
 * The tags that came at one place: as the first child of an element, or behind an element. Answers repeat a few dozen
 * tags thousands of times in the same order, so that what came there before is nearly always what comes next.
 */
export interface Place {
  tags: KnownTag[];
  /** how many more tags it may learn in `document` */
  patience: number;
  /** the document that taught it the last of them */
  document: number;
}

/** Bytes of a word. */
const WORD = 8;
/** Shorter ones cannot be compared, longer ones are rarely repeated. */
const SHORTEST = 4;
const LONGEST = 256;
const MOST_AT_ONE_PLACE = 4;
/** A place where so many different tags came has no tag that is worth a comparison, save those that came again. */
const PATIENCE = 32;
/** How many tags and texts one document may teach: bounds the memory, nothing else. */
const MOST = 4096;

/** Before the first document. */
const NEVER = -1;

const NO_TAGS: KnownTag[] = [];

export function newPlace(): Place {
  return { tags: NO_TAGS, patience: PATIENCE, document: NEVER };
}

/**
 * The known tag that stands at `at`, whole.
 *
 * @param view of the bytes
 * @param scope the bindings that count now
 */
export function knownTag(
  place: Place,
  view: DataView,
  at: number,
  scope: number,
  document: number,
): KnownTag | undefined {
  const { tags } = place;
  for (let index = 0; index < tags.length; index++) {
    const known = tags[index];
    if (known?.scope !== scope || !hasWords(view, at, known.words, known.length)) continue;
    known.proven = document;
    return known;
  }
  return undefined;
}

/** The length of a known text and end tag that stand at `at`, behind that start tag; 0 when none does. */
export function knownEnding(
  { endings }: KnownTag,
  view: DataView,
  at: number,
  document: number,
): number {
  for (let index = 0; index < endings.length; index++) {
    const known = endings[index];
    if (known === undefined || !hasWords(view, at, known.words, known.length)) continue;
    known.proven = document;
    return known.length;
  }
  return 0;
}

export interface TagMemory {
  /** the number of the document at hand */
  readonly document: number;
  /** the first tag of a document */
  readonly root: Place;
  nextDocument(): void;
  /** Whether it has learnt no more of all documents than it may of one. */
  isSmall(): boolean;
  /**
   * Remembers a tag at its place, if it may come again.
   *
   * @param at where it starts in the bytes
   * @param read what it is, without what is learnt of it
   */
  learn(
    place: Place,
    bytes: Buffer,
    at: number,
    tag: StartTag,
    read: Pick<KnownTag, 'name' | 'scope' | 'own'>,
  ): void;
  /** Remembers the harmless text and the end tag that stand behind a tag, from `from` up to `to`. */
  learnEnding(known: KnownTag, bytes: Buffer, from: number, to: number): void;
}

/** The memory of documents, one after the other. */
export function tagMemory(): TagMemory {
  let size = 0;
  let before = 0;
  const root = newPlace();

  /** Whether there is room for some bytes, in the document and in a list. */
  function mayLearn(list: { patience: number; document: number }, length: number): boolean {
    if (list.document !== memory.document) {
      list.document = memory.document;
      list.patience = PATIENCE;
    }
    if (list.patience === 0 || size === MOST || length < SHORTEST || length > LONGEST) return false;
    size += 1;
    list.patience -= 1;
    return true;
  }

  const memory: TagMemory & { document: number } = {
    document: 0,
    root,
    nextDocument() {
      before += size;
      size = 0;
      memory.document += 1;
    },
    isSmall: () => before + size <= MOST,
    learn(place, bytes, at, tag, read) {
      const length = tag.end - tag.start;
      if (!mayLearn(place, length)) return;
      const words = wordsOf(bytes.subarray(at, at + length));
      const rest = { endings: [], patience: PATIENCE, document: NEVER, proven: NEVER };
      const known: KnownTag = { tag: { ...tag }, ...read, words, length, ...rest };
      place.tags = withNext(place.tags, known, place.patience, memory.document);
    },
    learnEnding(known, bytes, from, to) {
      const length = to - from;
      if (!mayLearn(known, length)) return;
      const ending = { words: wordsOf(bytes.subarray(from, to)), length, proven: NEVER };
      known.endings = withNext(known.endings, ending, known.patience, memory.document);
    },
  };
  return memory;
}

/**
 * With the next in it, if there is room or one that did not come again in this document; without these at the end of the
 * patience. So what was learnt in other documents is tried, and gives way to what this one teaches.
 */
function withNext<Known extends KnownBytes>(
  list: readonly Known[],
  next: Known,
  patience: number,
  document: number,
): Known[] {
  const idle = list.findIndex(({ proven }) => proven !== document);
  const full = list.length === MOST_AT_ONE_PLACE;
  const kept = full && idle >= 0 ? list.filter((_, index) => index !== idle) : list;
  const all = kept.length < MOST_AT_ONE_PLACE ? [...kept, next] : [...kept];
  return patience === 0 ? all.filter(({ proven }) => proven === document) : all;
}

/**
 * At least four bytes as numbers, to be compared by `hasWords`: eight bytes each, the last one overlapping the one
 * before; or, of less than eight bytes, the first four and the last four.
 */
export function wordsOf(bytes: Uint8Array): number[] {
  const { length } = bytes;
  const view = new DataView(bytes.buffer, bytes.byteOffset, length);
  if (length < WORD) return [view.getInt32(0), view.getInt32(length - 4)];
  const words: number[] = [];
  for (let at = 0; at + WORD < length; at += WORD) words.push(view.getFloat64(at, true));
  words.push(view.getFloat64(length - WORD, true));
  return words;
}

/**
 * Whether bytes that were made into words stand at `at`. Several times as fast as byte by byte, because eight bytes
 * are compared as one number. Numbers that are equal are the same bytes, with one exception, 0 and -0, and these are
 * made of bytes that XML forbids; one that is not equal to itself, NaN, only costs a reading.
 */
export function hasWords(
  view: DataView,
  at: number,
  words: readonly number[],
  length: number,
): boolean {
  const end = at + length;
  if (end > view.byteLength) return false;
  if (length < WORD) return view.getInt32(at) === words[0] && view.getInt32(end - 4) === words[1];
  const last = words.length - 1;
  // Tags that differ mostly do so in the value behind, and begin alike.
  if (view.getFloat64(end - WORD, true) !== words[last]) return false;
  for (let index = 0; index < last; index++)
    if (view.getFloat64(at + index * WORD, true) !== words[index]) return false;
  return true;
}
