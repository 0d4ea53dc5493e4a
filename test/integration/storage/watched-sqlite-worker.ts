/** The thread of a SQLite storage, seen from inside: it tells what it hands over, and waits before each answer. */
import { parentPort, workerData } from 'node:worker_threads';
import type { Reply } from '../../../src/storage/sqlite-worker.ts';

/** What such a thread is started with, beside what every thread of the storage is. */
export interface WatchedSetup {
  /** The thread of the storage. */
  readonly file: string;
  /** An answer waits while the first number is 0. */
  readonly gate: Int32Array;
}

/** An answer, with the sizes of the buffers that are given away with it. */
export type WatchedReply = Reply & { readonly givenAway: readonly number[] };

const { file, gate } = workerData as WatchedSetup;
const port = parentPort;
if (port === null) throw new Error('runs as a thread only');
const post = port.postMessage.bind(port);
Object.assign(port, {
  postMessage(reply: Reply, transferred: ArrayBuffer[] = []) {
    Atomics.wait(gate, 0, 0);
    const givenAway = transferred.map(({ byteLength }) => byteLength);
    post({ ...reply, givenAway } satisfies WatchedReply, transferred);
  },
});
await import(file);
