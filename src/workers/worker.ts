import type { Link } from './link.ts';
import { readConfiguration, readText } from './reading.ts';

/** What a worker says to the primary process about itself, and is told by it. */
export interface WorkerPost {
  /** The configuration with which all workers run. @throws when the primary process does not answer */
  configuration(): Promise<{ readonly text: string | undefined; readonly workers: number }>;
  /** @throws when the primary process does not answer */
  listening(url: string): Promise<void>;
  /** Tells in one line why it cannot start. False when nobody hears it. */
  failed(message: string): Promise<boolean>;
  /** Resolves when it is to finish what is under way and to end. */
  readonly stopped: Promise<void>;
}

/** What the primary process may take to answer while it starts many (ms). */
const START_DEADLINE = 30_000;

/** @param reload goes over to a configuration; what it throws is told to the primary process */
export function createWorkerPost(
  link: Link,
  reload: (text: string | undefined) => Promise<void>,
): WorkerPost {
  const stopped = Promise.withResolvers<void>();
  link.serve('worker', {
    async reload(text) {
      try {
        await reload(text === undefined || text === null ? undefined : readText(text));
        return null;
      } catch (error) {
        return error instanceof Error ? error.message : String(error);
      }
    },
    stop: () => stopped.resolve(),
  });
  const call = (method: string, ...args: readonly unknown[]) =>
    link.call('crew', method, args, START_DEADLINE);
  return {
    configuration: async () => readConfiguration(await call('configuration')),
    async listening(url) {
      await call('listening', url);
    },
    failed: (message) =>
      call('failed', message).then(
        () => true,
        () => false,
      ),
    stopped: stopped.promise,
  };
}
