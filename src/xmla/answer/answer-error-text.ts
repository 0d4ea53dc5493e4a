import type { ErrorAsData } from '../../engine-kinds.ts';
import { BRACKET } from './xml-bytes.ts';

/**
 * Engines also tell errors in the text of ordinary values, with status 200 and no Fault. Mondrian puts
 * `#ERR: …` into the formatted value of a cell, and the message of the Java exception, which begins with the
 * name of its class, into the value itself, which is all there is in a table. MDX for Kylin answers a failed query
 * with a dataset of its own making: a member named `dummy` whose caption is the message, or no caption at all.
 * `#ERR:` counts for every engine, the other two for those that are known to do so.
 * A genuine value that happens to read so only costs a place in the cache.
 */

const ERROR_START = '#ERR:';
const ERROR_MEMBER = 'dummy';
const ERROR_MEMBER_PART = '[dummy]';
const SORRY = 'Something error, please refer to mdx log';
const QUERY_ID = 'MDX Query ID:';
const MESSAGE = ' Error message:';

/** `mondrian.olap.fun.MondrianEvaluationException: …`: lower-case packages, then the class. */
const JAVA_EXCEPTION = /^(?:[a-z][a-z0-9_]*\.){2,8}\w{1,100}(?:Exception|Error)(?::|$)/;
const SHORTEST_EXCEPTION = 'a.b.Error'.length;

/** Longer than every text looked for, so that none slips through between two pieces. */
const WINDOW = 256;

/** The text between two tags, which may come in several pieces (CDATA, comments), one run at a time. */
export interface TextRun {
  add(piece: string): void;
  /** True when nothing came. */
  empty(): boolean;
  /** True when nothing but white space came. */
  blank(): boolean;
  /** True when the run as a whole tells an error. */
  tellsError(): boolean;
  /** Begins the next run. */
  reset(): void;
}

/** Keeps at most one piece and a few dozen characters, however long the text grows. */
export function textRun(errorsAsData: readonly ErrorAsData[]): TextRun {
  const javaException = errorsAsData.includes('java-exception');
  const errorDataset = errorsAsData.includes('error-dataset');
  // Nearly every text is one piece, which is looked at as it stands; only a second one opens the window.
  let pieces = 0;
  let only = '';
  let head = '';
  let tail = '';
  let sawQueryId = false;
  let sawMessage = false;
  let sawSorry = false;

  function slide(piece: string): void {
    if (head.length < WINDOW) head = (head + piece).trimStart().slice(0, WINDOW);
    const view = tail + piece;
    sawQueryId ||= view.includes(QUERY_ID);
    sawMessage ||= view.includes(MESSAGE);
    sawSorry ||= view.includes(SORRY);
    tail = view.slice(-WINDOW);
  }

  function startsAsError(head: string): boolean {
    // Shorter texts, which most are, cannot be any of them.
    if (head.length < ERROR_START.length) return false;
    const start = head.trimStart();
    if (start.startsWith(ERROR_START)) return true;
    if (!javaException || start.length < SHORTEST_EXCEPTION) return false;
    return JAVA_EXCEPTION.test(start.slice(0, WINDOW));
  }

  return {
    add(piece) {
      pieces += 1;
      if (pieces === 1) {
        only = piece;
        return;
      }
      if (pieces === 2) slide(only);
      only = '';
      slide(piece);
    },
    empty() {
      return pieces === 0;
    },
    blank() {
      return pieces < 2 ? isBlank(only) : head === '';
    },
    tellsError() {
      if (pieces === 0) return false;
      if (pieces === 1)
        return (
          startsAsError(only) || (errorDataset && (containsError(only) || isDummy(only, only)))
        );
      if (startsAsError(head)) return true;
      return errorDataset && (sawSorry || (sawQueryId && sawMessage) || isDummy(head, tail));
    },
    reset() {
      if (pieces === 0) return;
      if (pieces > 1) {
        head = '';
        tail = '';
        sawQueryId = false;
        sawMessage = false;
        sawSorry = false;
      }
      pieces = 0;
      only = '';
    },
  };
}

function isBlank(text: string): boolean {
  return text === '' || !/[^ \t\r\n]/.test(text);
}

function isDummy(head: string, tail: string): boolean {
  const end = tail.trimEnd();
  if (end.endsWith(ERROR_MEMBER_PART)) return true;
  return end.endsWith(ERROR_MEMBER) && head.trim() === ERROR_MEMBER;
}

function containsError(text: string): boolean {
  if (text.length < QUERY_ID.length) return false;
  return (text.includes(QUERY_ID) && text.includes(MESSAGE)) || text.includes(SORRY);
}

const SIGN = ERROR_START.charCodeAt(0);
// What stands in `MDX Query ID:` and in `Something error,`, with the byte in front.
const COLON = 0x3a;
const BEFORE_COLON = 0x44;
const COMMA = 0x2c;
const BEFORE_COMMA = 0x72;
const FIRST_OF_DUMMY = 0x64;
const LAST_OF_DUMMY = 0x79;

/**
 * Whether a text might tell an error, by a look at its bytes: false for nearly every genuine value, and never for
 * one of which a run of that text alone would say that it tells an error.
 */
export function mayTellError(bytes: Uint8Array, from: number, to: number): boolean {
  const length = to - from;
  if (length < ERROR_START.length) return false;
  const first = bytes[from] ?? 0;
  if (first === SIGN || isSpacious(bytes, from)) return true;
  if (first >= 0x61 && first <= 0x7a && length >= SHORTEST_EXCEPTION) return true;
  if (first === FIRST_OF_DUMMY && length === ERROR_MEMBER.length) return true;
  const last = bytes[to - 1] ?? 0;
  if (last === BRACKET && bytes[to - 2] === LAST_OF_DUMMY) return true;
  if (last <= 0x20) return true;
  // The last character takes two or three bytes.
  if (last >= 0x80 && (isSpacious(bytes, to - 2) || isSpacious(bytes, to - 3))) return true;
  if (length < SORRY.length && length < QUERY_ID.length + MESSAGE.length) return false;
  for (let at = from; at < to; at++) {
    const byte = bytes[at];
    if (byte === COLON && bytes[at - 1] === BEFORE_COLON) return true;
    if (byte === COMMA && bytes[at - 1] === BEFORE_COMMA) return true;
  }
  return false;
}

/** Whether a character stands there that might be white space for somebody: `trim` knows more than XML does. */
function isSpacious(bytes: Uint8Array, at: number): boolean {
  const byte = bytes[at] ?? 0;
  if (byte <= 0x20) return true;
  return byte === 0xc2 || (byte >= 0xe1 && byte <= 0xe3) || byte === 0xef;
}
