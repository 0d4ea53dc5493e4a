import type { ErrorAsData } from '../../common/engine-kinds.ts';

/**
 * Engines also tell errors in the text of ordinary values, with status 200 and no Fault. Mondrian puts
 * `#ERR: …` into the formatted value of a cell, and the message of the Java exception, which begins with the
 * name of its class, into the value itself, which is all there is in a table. MDX for Kylin answers a failed query
 * with a dataset of its own making: a member named `dummy` whose caption is the message, or no caption at all.
 * `#ERR:` counts for every engine, the other two for those that are known to do so.
 * A genuine value that happens to read so is not cached, and nothing else.
 */
const ERROR_START = '#ERR:';
const ERROR_MEMBER = 'dummy';
const ERROR_MEMBER_PART = '[dummy]';
const SORRY = 'Something error, please refer to mdx log';
const QUERY_ID = 'MDX Query ID:';
const MESSAGE = ' Error message:';

/** `mondrian.olap.fun.MondrianEvaluationException: …`: lower-case packages, then the class. */
const JAVA_EXCEPTION = /^(?:[a-z][a-z0-9_]*\.){2,8}\w{1,100}(?:Exception|Error)(?::|$)/;

/** Longer than every text looked for, so that none slips through between two pieces. */
const WINDOW = 256;

/** First bytes of a text that may tell an error: `#`, lower-case letters, and what `trim` may take for white space. */
const FIRST = new Uint8Array(256).fill(1, 0, 0x21).fill(1, 0x61, 0x7b).fill(1, 0x80);
FIRST[ERROR_START.charCodeAt(0)] = 1;
/** Last bytes of one that is as short as a name: of `dummy` and `[dummy]`, and white space. */
const LAST = new Uint8Array(256).fill(1, 0, 0x21).fill(1, 0x80);
for (const last of ['y', ']']) LAST[last.charCodeAt(0)] = 1;

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
  /**
   * Whether a text without references might tell an error, by a look at its bytes: false for nearly every genuine
   * value, and never for one that tells an error as a whole run.
   */
  mayTellError(bytes: Uint8Array, from: number, to: number): boolean;
}

/** Keeps at most one piece and a few hundred characters, however long the text grows. */
export function textRun(errorsAsData: readonly ErrorAsData[]): TextRun {
  const javaException = errorsAsData.includes('java-exception');
  const errorDataset = errorsAsData.includes('error-dataset');
  let isEmpty = true;
  let isBlank = true;
  let head = '';
  let tail = '';
  let sawQueryId = false;
  let sawMessage = false;
  let sawSorry = false;

  function tellsOfDataset(): boolean {
    const end = tail.trimEnd();
    const isDummy = end.endsWith(ERROR_MEMBER) && head.trim() === ERROR_MEMBER;
    return sawSorry || (sawQueryId && sawMessage) || isDummy || end.endsWith(ERROR_MEMBER_PART);
  }

  return {
    add(piece) {
      isEmpty = false;
      isBlank &&= !/[^ \t\r\n]/.test(piece);
      if (head.length < WINDOW) head = (head + piece).trimStart().slice(0, WINDOW);
      if (!errorDataset) return;
      const view = tail + piece;
      sawQueryId ||= view.includes(QUERY_ID);
      sawMessage ||= view.includes(MESSAGE);
      sawSorry ||= view.includes(SORRY);
      tail = view.slice(-WINDOW);
    },
    empty: () => isEmpty,
    blank: () => isBlank,
    tellsError() {
      if (head.startsWith(ERROR_START) || (javaException && JAVA_EXCEPTION.test(head))) return true;
      return errorDataset && tellsOfDataset();
    },
    reset() {
      if (isEmpty) return;
      isEmpty = true;
      isBlank = true;
      head = '';
      tail = '';
      sawQueryId = false;
      sawMessage = false;
      sawSorry = false;
    },
    mayTellError(bytes, from, to) {
      const length = to - from;
      if (length < ERROR_START.length) return false;
      if (FIRST[bytes[from] ?? 0] === 1) return true;
      return errorDataset && (length >= QUERY_ID.length || LAST[bytes[to - 1] ?? 0] === 1);
    },
  };
}
