/** The thread of {@link readInThread}: reads one configuration. */
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { messageOf } from '../common/errors.ts';
import { createConfigFile, type ThreadAnswer, type ThreadTask } from './load-config.ts';

const { options, given } = workerData as ThreadTask;
const source = createConfigFile({ ...options, sleep });
const answer: ThreadAnswer = await Promise.try(() =>
  given === undefined ? source.readAgain() : source.read(given),
).then(
  (read) => ({ read }),
  (error: unknown) => ({ problem: messageOf(error) }),
);
parentPort?.postMessage(answer, []);
