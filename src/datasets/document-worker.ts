/** The other side of read-document.ts: checks one document after another and gives their bytes back. */
import { parentPort } from 'node:worker_threads';
import { checkDocument, type DocumentCheck } from './check-document.ts';

export interface WorkerAnswer {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly check: DocumentCheck;
}

parentPort?.on('message', (bytes: Uint8Array<ArrayBuffer>) => {
  const answer: WorkerAnswer = { bytes, check: checkDocument(bytes) };
  parentPort?.postMessage(answer, [bytes.buffer]);
});
