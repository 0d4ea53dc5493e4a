/**
 * Engines also tell errors in the text of ordinary values, with status 200 and no Fault. Mondrian puts
 * `#ERR: …` into the formatted value of a cell, and the message of the Java exception, which begins with the
 * name of its class, into the value itself, which is all there is in a table. MDX for Kylin answers a failed query with a dataset of its own making: a member
 * named `dummy` whose caption is the message, or no caption at all.
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
  /** True when nothing but white space came. */
  blank(): boolean;
  /** True when the run as a whole tells an error. */
  tellsError(): boolean;
  /** Begins the next run. */
  reset(): void;
}

/** Keeps at most one piece and a few dozen characters, however long the text grows. */
export function textRun(): TextRun {
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
    blank() {
      return pieces < 2 ? isBlank(only) : head === '';
    },
    tellsError() {
      if (pieces === 0) return false;
      if (pieces === 1) return startsOrEndsAsError(only, only) || containsError(only);
      return sawSorry || (sawQueryId && sawMessage) || startsOrEndsAsError(head, tail);
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

function startsOrEndsAsError(head: string, tail: string): boolean {
  // Shorter texts, which most are, cannot be any of them.
  if (head.length < ERROR_START.length) return false;
  const start = head.trimStart();
  if (start.startsWith(ERROR_START)) return true;
  if (start.length >= SHORTEST_EXCEPTION && JAVA_EXCEPTION.test(start.slice(0, WINDOW)))
    return true;
  const end = tail.trimEnd();
  if (end.endsWith(ERROR_MEMBER_PART)) return true;
  return end.endsWith(ERROR_MEMBER) && start.trimEnd() === ERROR_MEMBER;
}

function containsError(text: string): boolean {
  if (text.length < QUERY_ID.length) return false;
  return (text.includes(QUERY_ID) && text.includes(MESSAGE)) || text.includes(SORRY);
}
