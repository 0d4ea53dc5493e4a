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
import { withPropertyRows } from './property-rows.ts';

/** Bytes that should be inspected in one turn of the event loop; the caller cuts larger chunks. */
export const INSPECTION_SLICE = 64 * 1024;
/** Bytes of UTF-8 text before the SOAP body; engines need some hundred. */
const HEAD_LIMIT = 16 * 1024;

/**
 * Inspects a passing answer: one rowset or mddataset, well-formed to its end, in the charset of its
 * Content-Type, without a fault or an error told as data. Status 200 proves none of that: Mondrian
 * and MDX for Kylin send faults with 200, and SSAS can fail in the middle and still close its tags.
 * The cut into chunks does not matter. Memory is bounded, and grows only with the different names.
 * Reports the place of a session in the SOAP header: the answer is stored without its id.
 */
export function inspectAnswer(answer: {
  readonly contentType: string | undefined;
  readonly method: 'Discover' | 'Execute';
  readonly errorsAsData: readonly ErrorAsData[];
  /** Properties that were asked for, where the rows are of such. */
  readonly properties?: ReadonlySet<string> | undefined;
  readonly readers?: TagReaders | undefined;
}) {
  const { properties } = answer;
  const shape = answerShape(answer.method, answer.errorsAsData);
  const sink = properties === undefined ? shape : withPropertyRows(shape, properties);
  const reader = answerReader(answer.contentType, sink, answer.readers);

  // No getter: see `textDecoder`.
  const inspector = {
    /** Takes bytes without content coding, which may be reused; cheap after a refusal. */
    write(chunk: Uint8Array): void {
      inspector.refusal ??= reader.write(chunk);
    },
    end() {
      const reason = (inspector.refusal ??= reader.end());
      if (reason !== undefined) return { ok: false as const, reason };
      const session = shape.session();
      return { ok: true as const, session: session && reader.inBytes(session) };
    },
    /** The first refusal found, so that the caller may stop keeping bytes early. */
    refusal: undefined as RefusalReason | undefined,
  };
  return inspector;
}

export type Inspection = ReturnType<ReturnType<typeof inspectAnswer>['end']>;

const MEDIA_TYPES: ReadonlySet<string> = new Set(['text/xml', 'application/xml']);

/**
 * Expects no Content-Encoding of a caller that has decoded the body.
 * @param successHeader tells of a failed query that the engine answers with an ordinary dataset
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

/** Elements that tell an error; a modeller's column of such a name only prevents caching. */
const ERROR_ELEMENTS: ReadonlySet<string> = new Set([
  'Fault',
  'Exception',
  'Error',
  'Messages',
  'Warning',
]);

/** The type in error datasets of MDX for Kylin; a genuine value says `xsd:string`. */
function isPlainString({ uri, local, value }: TagAttribute): boolean {
  return uri === XSI && local === 'type' && value.trim() === 'string';
}

/** Real answers nest about 20 deep (types in the inline schema). */
const DEEPEST = 64;
const RETURN = 4;
const ROOT = 5;
const PART = 6;
/** The parts of an mddataset in order, behind an optional inline schema. */
const MDDATASET_PARTS = ['OlapInfo', 'Axes', 'CellData'];

function refuse(reason: RefusalReason): never {
  throw new Refused(reason);
}

/**
 * Checks the elements against the one shape that may be stored: a SOAP 1.1 envelope, no header or
 * one that is empty or has a session, the response of the method, `return`, and one rowset or
 * mddataset in `root` (XMLA 1.1, "Discover" and "Execute"). The scanner checks well-formedness.
 */
function answerShape(method: 'Discover' | 'Execute', errorsAsData: readonly ErrorAsData[]) {
  const run = textRun(errorsAsData);
  const errorDataset = errorsAsData.includes('error-dataset');
  let depth = 0;
  const frame = envelopeFrame();
  /** The innermost depth reached of elements that must be only children. */
  let reached = ENVELOPE;
  const root = rootShape();
  /** True from an opening tag to the next tag: text between them is that of a leaf. */
  let leaf = false;

  function fits(tag: TagReader): boolean {
    const { local, uri } = tag;
    switch (depth) {
      case ENVELOPE:
      case HEADER_OR_BODY:
        return frame.fits(tag, depth) && (!frame.bodySeen || onlyChild());
      case CHILD:
        // Header blocks other than a session are made for one request or one client.
        if (frame.inHeader) return frame.beginsSession(tag) && frame.sessions === 1;
        return local === `${method}Response` && uri === XMLA && onlyChild();
      case RETURN:
        // The examples of XMLA 1.1 show both namespaces.
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
      // A server that breaks off can still close its tags, with some of the three parts missing.
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
      // Content makes a session not plain; nothing else is asked of it.
      if (root.inSchema || frame.opened !== undefined) return;
      const isLeaf = leaf && depth >= PART;
      if (closes && isLeaf && !escaped && run.empty() && !run.mayTellError(bytes, from, to)) return;
      if (!isLeaf && isBlank(bytes, from, to)) return;
      const piece = bytes.toString('utf8', from, to);
      run.add(escaped ? withoutReferences(piece) : piece);
    },
    close(start: number, end: number): void {
      if (!root.inSchema && !run.empty()) {
        // No known answer has text beside elements, or in an element that only frames others.
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
    session: () => frame.session,
  };
}

/** Checks the children of `root`: the inline schema, then rows or the parts of an mddataset. */
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
        // Also in an mddataset: Mondrian sends rows when the request names no format.
        rowSeen = true;
        return nextPart === 0;
      }
      nextPart += 1;
      return uri === MDDATASET && !rowSeen && local === MDDATASET_PARTS[nextPart - 1];
    },
  };
}

/**
 * Errors told as ordinary values, with status 200 and no Fault. Mondrian puts `#ERR: …` into the
 * formatted value of a cell, and the Java exception, its class in front, into the value, which is
 * all that a table has. MDX for Kylin answers a failed query with a dataset of its own: a member
 * `dummy`, whose caption is the message or missing. `#ERR:` counts for every engine. A genuine
 * value that reads so is not cached, which is the only harm.
 */
const ERROR_START = '#ERR:';
const ERROR_MEMBER = 'dummy';
const SORRY = 'Something error, please refer to mdx log';
const QUERY_ID = 'MDX Query ID:';
const MESSAGE = ' Error message:';
const TEXTS = [SORRY, QUERY_ID, MESSAGE];
/** Matches lower-case packages and a class: `mondrian.olap.fun.MondrianEvaluationException: …`. */
const JAVA_EXCEPTION = /^(?:[a-z][a-z0-9_]*\.){2,8}\w{1,100}(?:Exception|Error)(?::|$)/;
/** Characters; more than every text looked for, so that none is missed between two pieces. */
const WINDOW = 256;
/** First bytes of a possible error: `#`, lower-case letters, and what `trim` may strip. */
const FIRST = new Uint8Array(256).fill(1, 0, 0x21).fill(1, 0x61, 0x7b).fill(1, 0x80);
FIRST[ERROR_START.charCodeAt(0)] = 1;
/** Last bytes of `dummy` and `[dummy]`, and white space. */
const LAST = new Uint8Array(256).fill(1, 0, 0x21).fill(1, 0x80);
for (const last of ['y', ']']) LAST[last.charCodeAt(0)] = 1;

/** Reads the text between two tags in pieces; keeps at most one, and some hundred characters. */
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
    empty: () => isEmpty,
    blank: () => isBlank,
    tellsError(): boolean {
      if (head.startsWith(ERROR_START) || (javaException && JAVA_EXCEPTION.test(head))) return true;
      return errorDataset && tellsOfDataset();
    },
    reset(): void {
      if (isEmpty) return;
      isEmpty = true;
      isBlank = true;
      head = '';
      tail = '';
      seen = [];
    },
    /** Looks at bytes without references: false for most genuine values, true for every error. */
    mayTellError(bytes: Uint8Array, from: number, to: number): boolean {
      const length = to - from;
      if (length < ERROR_START.length) return false;
      if (FIRST[bytes[from] ?? 0] === 1) return true;
      return errorDataset && (length >= QUERY_ID.length || LAST[bytes[to - 1] ?? 0] === 1);
    },
  };
}
