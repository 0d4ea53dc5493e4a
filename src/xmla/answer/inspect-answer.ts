import type { IncomingHttpHeaders } from 'node:http';
import type { ErrorAsData } from '../../common/engine-kinds.ts';
import type { RefusalReason } from '../../common/reasons.ts';
import {
  isBlank,
  type TagAttribute,
  type TagReader,
  type TagReaders,
  withoutReferences,
} from '../../xml/start-tag.ts';
import { XSI } from '../../xml/xml-scanner.ts';
import { XMLA, XSD } from '../names.ts';
import { answerReader, CHILD, ENVELOPE, envelopeFrame, HEADER_OR_BODY } from './answer-reader.ts';
import { Refused } from './answer-reader.ts';

/**
 * The most bytes that should be inspected in one turn of the event loop: a larger chunk is cut into slices, with a
 * turn for others between them.
 */
export const INSPECTION_SLICE = 64 * 1024;

/**
 * Bytes of the text in UTF-8 within which the SOAP body must begin. What an engine says before it takes some hundred.
 */
const HEAD_LIMIT = 16 * 1024;

/**
 * Inspects the body of an answer while it passes: one rowset or mddataset, well-formed to its end, without
 * a fault or an error told as data. Status 200 proves none of that, because Mondrian and MDX for
 * Kylin send faults with 200 and SSAS can fail in the middle of an answer and still close its tags.
 * How the bytes are cut into chunks makes no difference. What it keeps does not grow with the body, but with the
 * number of different names in it, and that is bounded.
 * A session in the SOAP header is told, and where it stands: the answer is stored without its id.
 *
 * @param answer.contentType the Content-Type as it came; its charset must agree with the bytes
 * @param answer.method the method of the request, which the response element must fit
 * @param answer.errorsAsData in which ways of its own the engine tells errors as data
 * @param answer.readers those of earlier answers
 */
export function inspectAnswer(answer: {
  readonly contentType: string | undefined;
  readonly method: 'Discover' | 'Execute';
  readonly errorsAsData: readonly ErrorAsData[];
  readonly readers?: TagReaders | undefined;
}) {
  const sink = answerShape(answer.method, answer.errorsAsData);
  const reader = answerReader(answer.contentType, sink, answer.readers);

  // No getter: see `textDecoder`.
  const inspector = {
    /**
     * Feeds the next bytes of the body, in the order they came, without a content coding. The bytes may be
     * reused afterwards. Takes next to nothing after a refusal.
     */
    write(chunk: Uint8Array): void {
      inspector.refusal ??= reader.write(chunk);
    },
    /**
     * Says whether the whole answer may be stored; `session` is the element that it names a session with. Call once, after
     * the last byte.
     */
    end() {
      const reason = (inspector.refusal ??= reader.end());
      if (reason !== undefined) return { ok: false as const, reason };
      const session = sink.session();
      return { ok: true as const, session: session && reader.inBytes(session) };
    },
    /** The refusal known so far, so that the caller may stop keeping bytes early. The first one found stays. */
    refusal: undefined as RefusalReason | undefined,
  };
  return inspector;
}

/** What an inspection says of a whole answer. */
export type Inspection = ReturnType<ReturnType<typeof inspectAnswer>['end']>;

const MEDIA_TYPES: ReadonlySet<string> = new Set(['text/xml', 'application/xml']);

/**
 * What the head of an answer alone forbids to store. Headers in lower case, as node gives them. A caller that
 * has removed a content coding leaves the header Content-Encoding out.
 *
 * @param successHeader the header by which the engine says whether a query went well that it answers with an
 *   ordinary dataset; undefined when it has none
 */
export function refuseByHead(
  head: { readonly status: number; readonly headers: IncomingHttpHeaders },
  successHeader: string | undefined,
): RefusalReason | undefined {
  const { status, headers } = head;
  if (status !== 200) return 'engine-status';
  const mediaType = (headers['content-type'] ?? '').split(';', 1)[0] ?? '';
  if (!MEDIA_TYPES.has(mediaType.trim().toLowerCase())) return 'media-type';
  const coding = headers['content-encoding'] ?? 'identity';
  if (coding.trim().toLowerCase() !== 'identity') return 'content-coding';
  const success = successHeader === undefined ? undefined : headers[successHeader];
  if (success !== undefined && String(success).trim().toLowerCase() !== 'true') return 'error-cell';
  return undefined;
}

const ROWSET = `${XMLA}:rowset`;
const MDDATASET = `${XMLA}:mddataset`;

/**
 * Names that tell an error wherever they stand. No column of a cacheable rowset and no part of an mddataset
 * has one of them. A member property or a column that a modeller called so would be refused too, which
 * is not cached, and nothing else.
 */
const ERROR_ELEMENTS: ReadonlySet<string> = new Set([
  'Fault',
  'Exception',
  'Error',
  'Messages',
  'Warning',
]);

/** The type that MDX for Kylin gives the values of its error datasets; a genuine value says `xsd:string`. */
function isPlainString({ uri, local, value }: TagAttribute): boolean {
  return uri === XSI && local === 'type' && value.trim() === 'string';
}

/** Real answers reach about 20 (levels of nested types in the inline schema). */
const DEEPEST = 64;

/** Depths of the further elements that frame the data. */
const RETURN = 4;
const ROOT = 5;
const PART = 6;

/** The parts of an mddataset in their order. The inline schema before them is optional. */
const MDDATASET_PARTS = ['OlapInfo', 'Axes', 'CellData'];

function refuse(reason: RefusalReason): never {
  throw new Refused(reason);
}

/**
 * Holds the elements of an answer against the one shape that may be stored: a SOAP 1.1 envelope, an empty
 * header, one with a session or none, the response of the method, `return`, and one rowset or mddataset in `root` (XMLA 1.1,
 * "Discover" and "Execute"). Well-formedness is the scanner's part.
 */
function answerShape(method: 'Discover' | 'Execute', errorsAsData: readonly ErrorAsData[]) {
  const run = textRun(errorsAsData);
  const errorDataset = errorsAsData.includes('error-dataset');
  let depth = 0;
  const frame = envelopeFrame();
  /** the depth of the innermost element so far of those that have one child and no other */
  let reached = ENVELOPE;
  const root = rootShape();
  /** true from an opening tag to the next tag: the text between is the text of a leaf */
  let leaf = false;

  /** Whether an element that frames the data stands where it may, for the first time where once is the rule. */
  function fits(tag: TagReader): boolean {
    const { local, uri } = tag;
    switch (depth) {
      case ENVELOPE:
      case HEADER_OR_BODY:
        return frame.fits(tag, depth) && (!frame.bodySeen || onlyChild());
      case CHILD:
        // What a header may hold besides a session is made for one request or one client.
        if (frame.inHeader) return frame.beginsSession(tag) && frame.sessions === 1;
        return local === `${method}Response` && uri === XMLA && onlyChild();
      case RETURN:
        // The examples of XMLA 1.1 show it in both ways.
        return local === 'return' && (uri === XMLA || uri === '') && onlyChild();
      case ROOT: {
        root.namespace = uri;
        const isKnown = uri === ROWSET || (uri === MDDATASET && method === 'Execute');
        return local === 'root' && isKnown && onlyChild();
      }
      default:
        return root.fits(local, uri);
    }
  }

  function onlyChild(): boolean {
    const first = reached < depth;
    reached = depth;
    return first;
  }

  function closeFrame(start: number, end: number): void {
    if (depth === PART) root.inSchema = false;
    else if (depth === ROOT) {
      // A server that breaks off can still close its tags: some of the three parts are not a dataset.
      if (!root.isWhole()) refuse('answer-shape');
    } else if (!frame.inHeader && reached === depth) refuse('answer-shape');
    if (depth <= CHILD) frame.close(depth, start, end);
  }

  return {
    open(tag: TagReader): void {
      depth += 1;
      if (!root.inSchema && !run.blank()) refuse('answer-shape');
      run.reset();
      leaf = true;
      if (depth > DEEPEST) refuse('answer-shape');
      if (ERROR_ELEMENTS.has(tag.local) && !(root.inSchema && tag.uri === XSD)) refuse('fault');
      if (errorDataset && !root.inSchema && tag.attributes().some(isPlainString))
        refuse('error-cell');
      if (depth > PART) return;
      if (!frame.bodySeen && tag.start > HEAD_LIMIT) refuse('answer-shape');
      if (fits(tag)) return;
      const { inHeader, opened } = frame;
      const isSecond = inHeader && (opened !== undefined || tag.local === 'Session');
      refuse(isSecond ? 'session-in-answer' : 'answer-shape');
    },
    text(bytes: Buffer, from: number, to: number, escaped: boolean, closes: boolean): void {
      // A session with content is not plain, which is all that is asked of it.
      if (root.inSchema || frame.opened !== undefined) return;
      const isLeaf = leaf && depth >= PART;
      if (closes && isLeaf && !escaped && run.empty() && !run.mayTellError(bytes, from, to)) return;
      if (!isLeaf && isBlank(bytes, from, to)) return;
      const piece = bytes.toString('utf8', from, to);
      run.add(escaped ? withoutReferences(piece) : piece);
    },
    close(start: number, end: number): void {
      if (!root.inSchema && !run.empty()) {
        // Text beside elements, or in an element that only frames others, is no known answer.
        if (leaf && depth >= PART) {
          if (run.tellsError()) refuse('error-cell');
        } else if (!run.blank()) refuse('answer-shape');
      }
      run.reset();
      leaf = false;
      if (depth <= PART) closeFrame(start, end);
      depth -= 1;
    },
    // SOAP 1.1 section 3 forbids it.
    doctype: () => refuse('answer-shape'),
    /** The session of the SOAP header, when that was read and has one. */
    session: () => frame.session,
  };
}

/** The children of `root`: the inline schema, and behind it rows, or the parts of an mddataset. */
function rootShape() {
  let schemaSeen = false;
  let rowSeen = false;
  let nextPart = 0;
  return {
    namespace: '',
    inSchema: false,
    isWhole: () => nextPart === 0 || nextPart === MDDATASET_PARTS.length,
    fits(local: string, uri: string): boolean {
      if (uri === XSD) {
        this.inSchema = local === 'schema' && !schemaSeen && !rowSeen && nextPart === 0;
        schemaSeen = true;
        return this.inSchema;
      }
      if (uri !== this.namespace) return false;
      if (local === 'row') {
        // Also in an mddataset: Mondrian answers so when the request names no format.
        rowSeen = true;
        return nextPart === 0;
      }
      nextPart += 1;
      return uri === MDDATASET && !rowSeen && local === MDDATASET_PARTS[nextPart - 1];
    },
  };
}

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
const SORRY = 'Something error, please refer to mdx log';
const QUERY_ID = 'MDX Query ID:';
const MESSAGE = ' Error message:';
const TEXTS = [SORRY, QUERY_ID, MESSAGE];

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

/**
 * The text between two tags, which may come in several pieces (CDATA, comments), one run at a time. Keeps at most one
 * piece and a few hundred characters, however long the text grows.
 */
export function textRun(errorsAsData: readonly ErrorAsData[]) {
  const javaException = errorsAsData.includes('java-exception');
  const errorDataset = errorsAsData.includes('error-dataset');
  let isEmpty = true;
  let isBlank = true;
  let head = '';
  let tail = '';
  let seen: readonly string[] = [];

  function tellsOfDataset(): boolean {
    const end = tail.trimEnd();
    const isDummy = end.endsWith(ERROR_MEMBER) && head.trim() === ERROR_MEMBER;
    const isMessage = seen.includes(QUERY_ID) && seen.includes(MESSAGE);
    return seen.includes(SORRY) || isMessage || isDummy || end.endsWith(`[${ERROR_MEMBER}]`);
  }

  return {
    add(piece: string): void {
      isEmpty = false;
      isBlank &&= !/[^ \t\r\n]/.test(piece);
      if (head.length < WINDOW) head = (head + piece).trimStart().slice(0, WINDOW);
      if (!errorDataset) return;
      const view = tail + piece;
      seen = TEXTS.filter((text) => seen.includes(text) || view.includes(text));
      tail = view.slice(-WINDOW);
    },
    /** True when nothing came. */
    empty: () => isEmpty,
    /** True when nothing but white space came. */
    blank: () => isBlank,
    /** True when the run as a whole tells an error. */
    tellsError(): boolean {
      if (head.startsWith(ERROR_START) || (javaException && JAVA_EXCEPTION.test(head))) return true;
      return errorDataset && tellsOfDataset();
    },
    /** Begins the next run. */
    reset(): void {
      if (isEmpty) return;
      isEmpty = true;
      isBlank = true;
      head = '';
      tail = '';
      seen = [];
    },
    /**
     * Whether a text without references might tell an error, by a look at its bytes: false for nearly every genuine
     * value, and never for one that tells an error as a whole run.
     */
    mayTellError(bytes: Uint8Array, from: number, to: number): boolean {
      const length = to - from;
      if (length < ERROR_START.length) return false;
      if (FIRST[bytes[from] ?? 0] === 1) return true;
      return errorDataset && (length >= QUERY_ID.length || LAST[bytes[to - 1] ?? 0] === 1);
    },
  };
}
