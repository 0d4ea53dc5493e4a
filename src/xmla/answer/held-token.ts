import { APOSTROPHE, GREATER, QUESTION, QUOTE } from './xml-bytes.ts';

/**
 * Keeps the start of something whose end has not come. What is kept is looked at again when its end is there and
 * not before, so that a long tag in many small pieces costs no more than a short one.
 */
export interface HeldToken {
  /**
   * What was held together with the next bytes; `more` when the end is not in them either, and they are held too;
   * `too-large` when that would be more than is allowed.
   */
  with(bytes: Buffer): Buffer | 'more' | 'too-large';
  /** Whether a tag that starts at `at` ends within the bytes. If not, the end of a tag is what is waited for. */
  tagEnds(bytes: Buffer, at: number): boolean;
  /** The end of a processing instruction is what is waited for. */
  instruction(): void;
  /** Holds a copy of the bytes from `at` on. */
  keep(bytes: Buffer, at: number): void;
  isEmpty(): boolean;
}

export function heldBack(limit: number): HeldToken {
  let pieces: Buffer[] = [];
  let size = 0;
  let awaited: 'anything' | 'tag' | 'instruction' = 'anything';
  /** the quote of the attribute value in which the pieces end; 0 outside of values */
  let quote = 0;
  let endsWithQuestion = false;

  function findTagEnd(bytes: Buffer, from: number): boolean {
    for (let at = from; at < bytes.length; at++) {
      const byte = bytes[at] ?? 0;
      if (quote !== 0) {
        if (byte === quote) quote = 0;
      } else if (byte === GREATER) return true;
      else if (byte === QUOTE || byte === APOSTROPHE) quote = byte;
    }
    return false;
  }

  function hasEnd(bytes: Buffer): boolean {
    if (awaited === 'tag') return findTagEnd(bytes, 0);
    if (awaited === 'anything') return true;
    if (endsWithQuestion && bytes[0] === GREATER) return true;
    return bytes.includes('?>');
  }

  function add(bytes: Buffer): void {
    pieces.push(Buffer.from(bytes));
    size += bytes.length;
    // The first two bytes of an instruction are not the start of its end.
    endsWithQuestion = size > 2 && bytes.at(-1) === QUESTION;
  }

  return {
    with(bytes) {
      if (pieces.length > 0 && !hasEnd(bytes)) {
        add(bytes);
        return size > limit ? 'too-large' : 'more';
      }
      const all = pieces.length === 0 ? bytes : Buffer.concat([...pieces, bytes]);
      pieces = [];
      awaited = 'anything';
      return all;
    },
    tagEnds(bytes, at) {
      awaited = 'tag';
      quote = 0;
      return findTagEnd(bytes, at);
    },
    instruction() {
      awaited = 'instruction';
    },
    keep(bytes, at) {
      size = 0;
      if (at < bytes.length) add(bytes.subarray(at));
    },
    isEmpty() {
      return pieces.length === 0;
    },
  };
}
