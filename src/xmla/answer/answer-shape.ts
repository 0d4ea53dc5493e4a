import type { ErrorAsData } from '../../common/engine-kinds.ts';
import type { RefusalReason } from '../../common/reasons.ts';
import { isBlank, withoutReferences } from '../../xml/characters.ts';
import type { XmlSink } from '../../xml/xml-scanner.ts';
import type { StartTag } from '../../xml/start-tag.ts';
import { SOAP, XMLA, XSD, XSI } from '../namespaces.ts';
import { closeSession, isSession, openSession } from './answer-session.ts';
import type { TextSession } from './answer-session.ts';
import { textRun } from './error-text.ts';

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
const PLAIN_STRING = 'string';

/**
 * Bytes of the text in UTF-8 within which the SOAP body must begin. What an engine says before it takes some hundred.
 */
export const HEAD_LIMIT = 16 * 1024;

/** Real answers reach about 20 (levels of nested types in the inline schema). */
const DEEPEST = 64;

/** Depths of the elements that frame the data; the envelope is 1. */
const ENVELOPE = 1;
const HEADER_OR_BODY = 2;
const RESPONSE = 3;
const RETURN = 4;
const ROOT = 5;
const PART = 6;

/** The parts of an mddataset in their order. The inline schema before them is optional. */
const MDDATASET_PARTS = ['OlapInfo', 'Axes', 'CellData'];

export interface AnswerShape extends XmlSink {
  /** The session of the SOAP header, when that was read and has one. */
  session(): TextSession | undefined;
}

/**
 * Holds the elements of an answer against the one shape that may be stored: a SOAP 1.1 envelope, an empty
 * header, one with a session or none, the response of the method, `return`, and one rowset or mddataset in `root` (XMLA 1.1,
 * "Discover" and "Execute"). Well-formedness is the scanner's part.
 *
 * @param errorsAsData in which ways of its own the engine tells errors as data
 * @param refuse called with the first refusal; it throws, and the shape is of no use afterwards
 */
export function answerShape(
  method: 'Discover' | 'Execute',
  errorsAsData: readonly ErrorAsData[],
  refuse: (reason: RefusalReason) => never,
): AnswerShape {
  const run = textRun(errorsAsData);
  const errorDataset = errorsAsData.includes('error-dataset');
  const response = `${method}Response`;
  let depth = 0;
  /** the depth that must not be left before its one child was seen; index is the depth of the parent */
  const hasChild = [false, false, false, false, false, false];
  let inHeader = false;
  let headerSeen = false;
  let opened: ReturnType<typeof openSession>;
  let session: TextSession | undefined;
  let inSchema = false;
  let schemaSeen = false;
  let rootNamespace = '';
  let nextPart = 0;
  let rowSeen = false;
  /** true from an opening tag to the next tag: the text between is the text of a leaf */
  let leaf = false;

  function open(tag: StartTag): void {
    depth += 1;
    if (!inSchema && !run.blank()) refuse('answer-shape');
    run.reset();
    leaf = true;
    if (depth > DEEPEST) refuse('answer-shape');
    refuseError(tag);
    if (depth > PART) return;
    if (!hasChild[ENVELOPE] && tag.start > HEAD_LIMIT) refuse('answer-shape');
    if (!fits(tag))
      refuse(
        inHeader && (opened ?? tag.local === 'Session') ? 'session-in-answer' : 'answer-shape',
      );
  }

  function refuseError(tag: StartTag): void {
    if (ERROR_ELEMENTS.has(tag.local) && !(inSchema && tag.uri === XSD)) refuse('fault');
    if (!errorDataset || inSchema) return;
    if (tag.value(XSI, 'type')?.trim() === PLAIN_STRING) refuse('error-cell');
  }

  /** Whether an element that frames the data stands where it may, for the first time where once is the rule. */
  function fits(tag: StartTag): boolean {
    const { local, uri } = tag;
    switch (depth) {
      case ENVELOPE:
        return local === 'Envelope' && uri === SOAP;
      case HEADER_OR_BODY:
        if (local === 'Header' && uri === SOAP && !headerSeen && !hasChild[ENVELOPE]) {
          headerSeen = true;
          inHeader = true;
          return true;
        }
        return local === 'Body' && uri === SOAP && onlyChild();
      case RESPONSE:
        // What a header may hold besides a session is made for one request or one client.
        if (inHeader) return beginsSession(tag);
        return local === response && uri === XMLA && onlyChild();
      case RETURN:
        // The examples of XMLA 1.1 show it in both ways.
        return local === 'return' && (uri === XMLA || uri === '') && onlyChild();
      case ROOT:
        rootNamespace = uri;
        return local === 'root' && isRoot(uri) && onlyChild();
      default:
        return fitsRoot(local, uri);
    }
  }

  function beginsSession(tag: StartTag): boolean {
    if (!isSession(tag) || session !== undefined) return false;
    opened = openSession(tag);
    return opened !== undefined;
  }

  function isRoot(uri: string): boolean {
    return uri === ROWSET || (uri === MDDATASET && method === 'Execute');
  }

  function onlyChild(): boolean {
    const first = hasChild[depth - 1] === false;
    hasChild[depth - 1] = true;
    return first;
  }

  function fitsRoot(local: string, uri: string): boolean {
    if (uri === XSD) {
      if (local !== 'schema' || schemaSeen || rowSeen || nextPart > 0) return false;
      schemaSeen = true;
      inSchema = true;
      return true;
    }
    if (uri !== rootNamespace) return false;
    if (local === 'row') {
      // Also in an mddataset: Mondrian answers so when the request names no format.
      rowSeen = true;
      return nextPart === 0;
    }
    nextPart += 1;
    return uri === MDDATASET && !rowSeen && local === MDDATASET_PARTS[nextPart - 1];
  }

  function text(bytes: Buffer, from: number, to: number, escaped: boolean, closes: boolean): void {
    // A session with content is not plain, which is all that is asked of it.
    if (inSchema || opened !== undefined) return;
    const isLeaf = leaf && depth >= PART;
    if (closes && isLeaf && !escaped && run.empty() && !run.mayTellError(bytes, from, to)) return;
    if (!isLeaf && isBlank(bytes, from, to)) return;
    const piece = bytes.toString('utf8', from, to);
    run.add(escaped ? withoutReferences(piece) : piece);
  }

  function close(start: number, end: number): void {
    if (!inSchema) {
      // Text beside elements, or in an element that only frames others, is no known answer.
      if (leaf && depth >= PART) {
        if (run.tellsError()) refuse('error-cell');
      } else if (!run.blank()) refuse('answer-shape');
    }
    run.reset();
    leaf = false;
    if (depth <= PART) closeFrame(start, end);
    depth -= 1;
  }

  function closeFrame(start: number, end: number): void {
    if (opened !== undefined) {
      session = closeSession(opened, start, end);
      opened = undefined;
    } else if (depth === PART) inSchema = false;
    else if (depth === ROOT) {
      // A server that breaks off can still close its tags: some of the three parts are not a dataset.
      if (nextPart !== 0 && nextPart !== MDDATASET_PARTS.length) refuse('answer-shape');
    } else if (depth === HEADER_OR_BODY && inHeader) inHeader = false;
    else if (!hasChild[depth]) refuse('answer-shape');
  }

  return {
    open,
    text,
    close,
    // SOAP 1.1 section 3 forbids it.
    doctype: () => refuse('answer-shape'),
    session: () => session,
  };
}
