import { once } from 'node:events';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { checkDocument, type DocumentCheck } from './check-document.ts';
import type { WorkerAnswer } from './document-worker.ts';

/** The document's bytes, and what was read from them. */
export type ReadDocument = DocumentCheck & { readonly document: Buffer };

/** A shorter document is checked in the time that sending it to and fro may take. */
const LONGEST_HERE = 64 * 1024;

const thread = createDocumentThread(
  // The source is run as it stands, and built: the worker's file ends as this one does.
  new URL(`./document-worker${extname(import.meta.url)}`, import.meta.url),
);

/**
 * Checks a dataset document whole ({@link checkDocument}). A long one is checked in a thread of its own, so
 * that only other long ones wait for it.
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

/** A thread that checks documents. */
export interface DocumentThread {
  /**
   * Documents are checked one after another, in their order.
   * @param bytes are given away, and come back
   * @throws Error when the thread ended over this document; the next one gets a new thread
   */
  check(bytes: Uint8Array<ArrayBuffer>): Promise<WorkerAnswer>;
}

/** It is started with the first document and then stays; while it has nothing to do it does not keep the process. */
export function createDocumentThread(file: URL): DocumentThread {
  let worker: Worker | undefined;
  let last: Promise<unknown> = Promise.resolve();

  function running(): Worker {
    if (worker !== undefined) return worker;
    const started = new Worker(file, { name: 'documents' });
    worker = started;
    // A waiting caller hears of it too; an idle thread has none.
    started.on('error', () => {});
    started.once('exit', () => {
      if (worker === started) worker = undefined;
    });
    return started;
  }

  /** Only what is being checked is in the thread, so that it alone is lost with it. */
  async function checkNow(bytes: Uint8Array<ArrayBuffer>): Promise<WorkerAnswer> {
    const thread = running();
    const over = new AbortController();
    const { signal } = over;
    const ended = once(thread, 'exit', { signal }).then(() => {
      throw new Error('the thread that checks documents ended');
    });
    const answered = once(thread, 'message', { signal });
    thread.ref();
    thread.postMessage(bytes, [bytes.buffer]);
    try {
      const [answer] = (await Promise.race([answered, ended])) as [WorkerAnswer];
      return answer;
    } catch (error) {
      // It may take a while to end.
      if (worker === thread) worker = undefined;
      throw error;
    } finally {
      over.abort();
      thread.unref();
    }
  }

  return {
    check(bytes) {
      const checked = last.then(() => checkNow(bytes));
      last = checked.catch(() => {});
      return checked;
    },
  };
}
