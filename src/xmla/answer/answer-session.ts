import type { AnswerEncoding } from './answer-encoding.ts';

/** The element Session in the SOAP header of an answer, as it stands in the bytes. */
export interface AnswerSession {
  /** The value of its attribute SessionId, decoded. */
  readonly id: string;
  /** The bytes of that value, between its quotes: from `start`, up to and without `end`. */
  readonly value: ByteRange;
  /** The bytes of the whole element with its end tag. */
  readonly element: ByteRange;
  readonly encoding: AnswerEncoding;
  /**
   * Whether it says nothing but the id: no other attribute than those of namespaces and of SOAP, no content. Only
   * then may another id stand in its place.
   */
  readonly plain: boolean;
}

export interface ByteRange {
  readonly start: number;
  readonly end: number;
}
