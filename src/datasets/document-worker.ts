/** The thread of readDocument: checks one document and gives its bytes back. */
import { parentPort, workerData } from 'node:worker_threads';
import { checkDocument } from './document.ts';

const document = workerData as Uint8Array<ArrayBuffer>;
const answer = { ...checkDocument(document), document };
export type WorkerAnswer = typeof answer;
parentPort?.postMessage(answer, [document.buffer]);
