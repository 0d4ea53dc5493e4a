import { once } from 'node:events';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { checkDocument, type DocumentCheck } from './check-document.ts';
import type { WorkerAnswer } from './document-worker.ts';

/** The document's bytes, and what was read from them. */
export type ReadDocument = DocumentCheck & { readonly document: Buffer };

/** A shorter document is checked in the time that sending it to and fro may take. */
const LONGEST_HERE = 64 * 1024;

/** The source is run as it stands, and built: the thread's file ends as this one does. */
const WORKER = new URL(`./document-worker${extname(import.meta.url)}`, import.meta.url);

/**
 * Checks a dataset document whole ({@link checkDocument}). A long one is checked in a thread of its own, so
 * that no request waits for it.
 * @param bytes are given away and must not be used any more; `document` of the result takes their place
 */
export async function readDocument(bytes: Buffer): Promise<ReadDocument> {
  if (bytes.length <= LONGEST_HERE) return { ...checkDocument(bytes), document: bytes };
  // Only a whole memory block can be transferred: a part of one would take its neighbours along.
  const { buffer, byteLength } = bytes;
  const isWhole = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength;
  const whole = isWhole ? new Uint8Array(buffer) : new Uint8Array(bytes);
  const options = { name: 'document', workerData: whole, transferList: [whole.buffer] };
  const thread = new Worker(WORKER, options);
  const [{ check, document }] = (await once(thread, 'message')) as [WorkerAnswer];
  return { ...check, document: Buffer.from(document.buffer) };
}
