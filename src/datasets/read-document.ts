import { checkDocument, type DocumentCheck } from './check-document.ts';
import { createDocumentThread } from './document-thread.ts';

/** The document's bytes, and what was read from them. */
export type ReadDocument = DocumentCheck & { readonly document: Buffer };

/** A shorter document is checked in the time that sending it to and fro may take. */
const LONGEST_HERE = 64 * 1024;

const thread = createDocumentThread();

/**
 * Checks a dataset document whole ({@link checkDocument}). A long one is checked in a thread of its own, so
 * that nobody waits for it but other long ones.
 * @param bytes are given away and must not be used any more; `document` of the result takes their place
 */
export async function readDocument(bytes: Buffer): Promise<ReadDocument> {
  if (bytes.length <= LONGEST_HERE) return { ...checkDocument(bytes), document: bytes };
  const { bytes: back, check } = await thread.check(transferable(bytes));
  return { ...check, document: Buffer.from(back.buffer, back.byteOffset, back.byteLength) };
}

/** Only a whole memory block can be transferred: a part of one would take its neighbours along. */
function transferable(bytes: Buffer): Uint8Array<ArrayBuffer> {
  const { buffer, byteLength } = bytes;
  const whole = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength;
  return whole ? new Uint8Array(buffer) : new Uint8Array(bytes);
}
