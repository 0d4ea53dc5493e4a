/** The other side of readDocument: checks one document and gives its bytes back. */
import { parentPort, workerData } from 'node:worker_threads';
import { checkDocument, type DocumentCheck } from './document.ts';

export interface WorkerAnswer {
  readonly document: Uint8Array<ArrayBuffer>;
  readonly check: DocumentCheck;
}

const document = workerData as Uint8Array<ArrayBuffer>;
const answer: WorkerAnswer = { document, check: checkDocument(document) };
parentPort?.postMessage(answer, [document.buffer]);
