import { foldCase } from '../../fold-case.ts';

/**
 * Text is kept as the bytes of its UTF-8: SQLite would end it at a NUL, and compares bytes exactly.
 * Well-formed text only.
 */
export const toBytes = (text: string): Uint8Array => Buffer.from(text);

export const foldedBytes = (name: string): Uint8Array => toBytes(foldCase(name));

/** @param value a column that was made by {@link toBytes} */
export function textOf(value: unknown): string {
  const bytes = value as Uint8Array;
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
}
