/** The other side of read-document.ts: checks one document in a thread of its own and gives its bytes back. */
import { parentPort, workerData } from 'node:worker_threads';
import { checkDocument, type DocumentCheck } from './check-document.ts';

export interface WorkerAnswer {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly check: DocumentCheck;
}

const bytes = workerData as Uint8Array<ArrayBuffer>;
const answer: WorkerAnswer = { bytes, check: checkDocument(bytes) };
parentPort?.postMessage(answer, [bytes.buffer]);
