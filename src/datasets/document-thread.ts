import { once } from 'node:events';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { WorkerAnswer } from './document-worker.ts';

/** The source is run as it stands, and built: the worker's file ends as this one does. */
const WORKER = new URL(`./document-worker${extname(import.meta.url)}`, import.meta.url);

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
export function createDocumentThread(file: URL = WORKER): DocumentThread {
  let worker: Worker | undefined;
  let last: Promise<unknown> = Promise.resolve();

  function running(): Worker {
    if (worker !== undefined) return worker;
    const started = new Worker(file, { name: 'documents' });
    worker = started;
    // Whoever waits hears of it too; nobody waits for an idle one.
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
