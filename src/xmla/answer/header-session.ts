import { SOAP, XMLA } from '../namespaces.ts';
import type { ByteRange } from './answer-session.ts';
import type { StartTag } from './start-tag.ts';

/** The element Session while it is open, and then as a whole. Offsets count the bytes of the text in UTF-8. */
interface OpenSession {
  readonly id: string;
  readonly value: ByteRange;
  /** where its first tag starts and ends */
  readonly tag: ByteRange;
  readonly plain: boolean;
}

export interface TextSession {
  readonly id: string;
  readonly value: ByteRange;
  readonly element: ByteRange;
  readonly plain: boolean;
}

/** Whether an element that stands directly in the SOAP header is Session (XMLA 1.1, "Session"). */
export function isSession(tag: StartTag): boolean {
  return tag.local === 'Session' && tag.uri === XMLA;
}

/** What its first tag says; undefined when it names no session. */
export function openSession(tag: StartTag): OpenSession | undefined {
  const attributes = tag.attributes();
  const id = attributes.find(({ local, uri }) => local === 'SessionId' && uri === '');
  if (id === undefined || id.value === '') return undefined;
  return {
    id: id.value,
    value: { start: id.start, end: id.end },
    tag: { start: tag.start, end: tag.end },
    plain: attributes.every((attribute) => attribute === id || attribute.uri === SOAP),
  };
}

/** The whole of it, when its last tag starts and ends there. */
export function closeSession(open: OpenSession, start: number, end: number): TextSession {
  const { id, value, tag } = open;
  const empty = start === tag.start || start === tag.end;
  return { id, value, element: { start: tag.start, end }, plain: open.plain && empty };
}
