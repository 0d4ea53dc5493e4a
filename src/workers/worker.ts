import type { Socket } from 'node:net';
import { CONNECTIONS } from './handover.ts';
import { messageOf, type Link } from './link.ts';
import { POOL, WORKER } from './worker-pool.ts';

/** What a worker says to the primary process about itself, and is told by it. */
export interface PoolMember {
  /** The configuration with which all workers run. @throws when the primary process does not answer */
  configuration(): Promise<{ readonly text?: string; readonly workers: number }>;
  /** From now on connections come. @throws when the primary process does not answer */
  ready(take: (connection: Socket) => void): Promise<void>;
  /** Tells in one line why it cannot start. False when the primary process did not hear it. */
  failed(message: string): Promise<boolean>;
  /** Resolves when it is to finish what is under way and to end. */
  readonly stopped: Promise<void>;
}

/** What the primary process may take to answer while it starts many (ms). */
const START_DEADLINE = 30_000;

/** @param reload goes over to a configuration; the primary process is told what it throws */
export function createPoolMember(
  link: Link,
  reload: (text: string | undefined) => Promise<void>,
): PoolMember {
  const stopped = Promise.withResolvers<void>();
  link.serve(WORKER, {
    // As JSON an argument that is undefined becomes null.
    reload: (text) => reload((text ?? undefined) as string | undefined).then(() => null, messageOf),
    stop: () => stopped.resolve(),
  });
  const call = (method: string, ...args: readonly unknown[]) =>
    link.call(POOL, method, args, START_DEADLINE);
  return {
    configuration: async () => (await call('configuration')) as { text?: string; workers: number },
    async ready(take) {
      link.serve(CONNECTIONS, { take: (connection) => take(connection as Socket) });
      await call('ready');
    },
    failed: (message) =>
      call('failed', message).then(
        () => true,
        () => false,
      ),
    stopped: stopped.promise,
  };
}
