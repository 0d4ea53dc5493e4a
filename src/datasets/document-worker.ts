/** The other side of read-document.ts: checks one document and gives its bytes back. */
import { parentPort, workerData } from 'node:worker_threads';
import { checkDocument } from './check-document.ts';
import type { WorkerAnswer } from './read-document.ts';

const document = workerData as Uint8Array<ArrayBuffer>;
const answer: WorkerAnswer = { document, check: checkDocument(document) };
parentPort?.postMessage(answer, [document.buffer]);
