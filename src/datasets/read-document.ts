import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { checkDocument, type DocumentCheck } from './check-document.ts';
import type { WorkerAnswer } from './document-worker.ts';

/** The document's bytes, and what was read from them. */
export type ReadDocument = DocumentCheck & { readonly document: Buffer };

/** A shorter document is checked before a thread would have started. */
const LONGEST_HERE = 64 * 1024;
/** The source is run as it stands, and built: the worker's file ends as this one does. */
const WORKER = new URL(`./document-worker${extname(import.meta.url)}`, import.meta.url);

/**
 * Checks a dataset document whole ({@link checkDocument}). A long one is checked in a thread of its own, so
 * that nobody waits for it.
 * @param bytes are given away and must not be used any more; `document` of the result takes their place
 */
export async function readDocument(bytes: Buffer): Promise<ReadDocument> {
  if (bytes.length <= LONGEST_HERE) return { ...checkDocument(bytes), document: bytes };
  const { bytes: back, check } = await checkedInThread(transferable(bytes));
  return { ...check, document: Buffer.from(back.buffer, back.byteOffset, back.byteLength) };
}

function checkedInThread(bytes: Uint8Array<ArrayBuffer>): Promise<WorkerAnswer> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(WORKER, { workerData: bytes, transferList: [bytes.buffer] });
    worker.once('message', resolve);
    worker.once('error', reject);
    // After a message this comes too late to matter.
    worker.once('exit', () => reject(new Error('the thread that checks a document ended')));
  });
}

/** Only a whole memory block can be transferred: a part of one would take its neighbours along. */
function transferable(bytes: Buffer): Uint8Array<ArrayBuffer> {
  const { buffer, byteLength } = bytes;
  const whole = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength;
  return whole ? new Uint8Array(buffer) : new Uint8Array(bytes);
}
