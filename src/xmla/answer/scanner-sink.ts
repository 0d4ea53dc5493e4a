import type { StartTag } from './start-tag.ts';

/** Receives what the scanner reads, in document order. What it throws goes through to the caller of the scanner. */
export interface ScannerSink {
  /** An element begins. The tag is good for this call only. */
  open(tag: StartTag): void;
  /**
   * Text within the root, or a part of it: bytes from `from` up to `to`, good for this call only.
   *
   * @param escaped whether references stand in it
   * @param closes whether the tag that ends the element comes right behind it
   */
  text(bytes: Buffer, from: number, to: number, escaped: boolean, closes: boolean): void;
  /** An element ends; its end tag, or its only tag, stands from `start` up to `end` of the document. */
  close(start: number, end: number): void;
  /**
   * The same as `open`, `text` and `close` in one, for an element that holds nothing but this text, and whose tag has
   * come before; most elements are such. When it returns false, it has done nothing, and is told in the long way.
   * True also says that this text is of no interest anywhere: where it comes again, it may be told as an empty one.
   *
   * @param verdict what the sink said of the tag
   */
  leaf?(verdict: number, bytes: Buffer, from: number, to: number, escaped: boolean): boolean;
  /** A document type declaration begins. It must throw. */
  doctype(): never;
}
