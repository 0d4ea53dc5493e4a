import type { SaxesTagNS } from 'saxes';
import type { RefusalReason } from '../reasons.ts';
import { textRun } from './answer-error-text.ts';
import { SOAP, XMLA, XSD, XSI } from './namespaces.ts';

const ROWSET = `${XMLA}:rowset`;
const MDDATASET = `${XMLA}:mddataset`;

/**
 * Names that tell an error wherever they stand. No column of a cacheable rowset and no part of an mddataset
 * has one of them. A member property or a column that a modeller called so would be refused too, which
 * costs a place in the cache and nothing else.
 */
const ERROR_ELEMENTS: ReadonlySet<string> = new Set([
  'Fault',
  'Exception',
  'Error',
  'Messages',
  'Warning',
]);

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

/** Receives what the parser reads, in document order. */
export interface AnswerShape {
  open(tag: SaxesTagNS): void;
  text(piece: string): void;
  close(): void;
}

/**
 * Holds the elements of an answer against the one shape that may be stored: a SOAP 1.1 envelope, an empty
 * header or none, the response of the method, `return`, and one rowset or mddataset in `root` (XMLA 1.1,
 * "Discover" and "Execute"). Well-formedness is the parser's part.
 *
 * @param refuse called with the first refusal; it throws, and the shape is of no use afterwards
 */
export function answerShape(
  method: 'Discover' | 'Execute',
  refuse: (reason: RefusalReason) => never,
): AnswerShape {
  const run = textRun();
  const response = `${method}Response`;
  let depth = 0;
  /** the depth that must not be left before its one child was seen; index is the depth of the parent */
  const hasChild = [false, false, false, false, false, false];
  let inHeader = false;
  let headerSeen = false;
  let inSchema = false;
  let schemaSeen = false;
  let rootNamespace = '';
  let nextPart = 0;
  let rowSeen = false;
  /** true from an opening tag to the next tag: the text between is the text of a leaf */
  let leaf = false;

  function open(tag: SaxesTagNS): void {
    depth += 1;
    if (!inSchema && !run.blank()) refuse('answer-shape');
    run.reset();
    leaf = true;
    if (depth > DEEPEST) refuse('answer-shape');
    if (ERROR_ELEMENTS.has(tag.local) && !(inSchema && tag.uri === XSD)) refuse('fault');
    if (!inSchema && hasPlainStringType(tag)) refuse('error-cell');
    if (depth <= PART) {
      if (!fits(tag))
        refuse(inHeader && tag.local === 'Session' ? 'session-in-answer' : 'answer-shape');
    }
  }

  /** Whether an element that frames the data stands where it may, for the first time where once is the rule. */
  function fits(tag: SaxesTagNS): boolean {
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
        return !inHeader && local === response && uri === XMLA && onlyChild();
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

  function close(): void {
    if (!inSchema) {
      // Text beside elements, or in an element that only frames others, is no known answer.
      if (leaf && depth >= PART) {
        if (run.tellsError()) refuse('error-cell');
      } else if (!run.blank()) refuse('answer-shape');
    }
    run.reset();
    leaf = false;
    if (depth <= PART) closeFrame();
    depth -= 1;
  }

  function closeFrame(): void {
    if (depth === PART) inSchema = false;
    else if (depth === ROOT) {
      // A server that breaks off can still close its tags: some of the three parts are not a dataset.
      if (nextPart !== 0 && nextPart !== MDDATASET_PARTS.length) refuse('answer-shape');
    } else if (depth === HEADER_OR_BODY && inHeader) inHeader = false;
    else if (!hasChild[depth]) refuse('answer-shape');
  }

  return {
    open,
    text: run.add,
    close,
  };
}

/** MDX for Kylin types the values of its error datasets `string`; a genuine value says `xsd:string`. */
function hasPlainStringType(tag: SaxesTagNS): boolean {
  for (const name in tag.attributes) {
    const attribute = tag.attributes[name];
    if (attribute?.local !== 'type' || attribute.uri !== XSI) continue;
    if (attribute.value.trim() === 'string') return true;
  }
  return false;
}
