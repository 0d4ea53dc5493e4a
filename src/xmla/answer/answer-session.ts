import type { StartTag } from '../../xml/start-tag.ts';
import type { TextEncoding } from '../../xml/text-encoding.ts';
import { SOAP, XMLA } from '../namespaces.ts';

export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** The element Session in the SOAP header of an answer. Offsets count the bytes of the text in UTF-8. */
export interface TextSession {
  /** The value of its attribute SessionId, decoded. */
  readonly id: string;
  /** The bytes of that value, between its quotes: from `start`, up to and without `end`. */
  readonly value: ByteRange;
  /** The bytes of the whole element with its end tag. */
  readonly element: ByteRange;
  /**
   * Whether it says nothing but the id: no other attribute than those of namespaces and of SOAP, no content. Only
   * then may another id stand in its place.
   */
  readonly plain: boolean;
}

/** The same as it stands in the bytes of the answer. */
export interface AnswerSession extends TextSession {
  readonly encoding: TextEncoding;
}

/** Whether an element that stands directly in the SOAP header is Session (XMLA 1.1, "Session"). */
export function isSession(tag: StartTag): boolean {
  return tag.local === 'Session' && tag.uri === XMLA;
}

/**
 * What the first tag of it says, with that tag as the element; undefined when it names no session.
 */
export function openSession(tag: StartTag): TextSession | undefined {
  const attributes = tag.attributes();
  const id = attributes.find(({ local, uri }) => local === 'SessionId' && uri === '');
  if (id === undefined || id.value === '') return undefined;
  return {
    id: id.value,
    value: { start: id.start, end: id.end },
    element: { start: tag.start, end: tag.end },
    plain: attributes.every((attribute) => attribute === id || attribute.uri === SOAP),
  };
}

/** The whole of it, when its last tag starts and ends there. */
export function closeSession(open: TextSession, start: number, end: number): TextSession {
  const { element } = open;
  const isEmpty = start === element.start || start === element.end;
  return { ...open, element: { start: element.start, end }, plain: open.plain && isEmpty };
}
