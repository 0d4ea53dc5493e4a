import type { Socket } from 'node:net';
import type { Link } from './link.ts';

/** The service of a worker that takes connections: `take`. */
export const CONNECTIONS = 'connections';

/**
 * Gives the connections that the primary process accepts to the workers in turn. Each worker has at most one that it has
 * not taken yet, so that one that stalls keeps no more; that one is closed when the worker ends.
 */
export function createHandover() {
  const workers = new Set<Link>();
  /** Workers that took the latest connection they were given, those that wait longest first. */
  const free = new Set<Link>();
  const untaken: Socket[] = [];
  let closed = false;

  async function hand(link: Link, connection: Socket): Promise<void> {
    try {
      await link.call(CONNECTIONS, 'take', [], Infinity, connection);
      if (workers.has(link)) free.add(link);
    } catch {
      // The worker is gone.
    } finally {
      // The worker has a copy of its own, if it took it.
      connection.destroy();
    }
    match();
  }

  function match(): void {
    for (const link of free) {
      const connection = untaken.shift();
      if (connection === undefined) return;
      free.delete(link);
      void hand(link, connection);
    }
  }

  function closeUntaken(): void {
    for (const connection of untaken.splice(0)) connection.destroy();
  }

  return {
    /** @param connection not read from yet */
    give(connection: Socket): void {
      // Its client may go before a worker has it.
      connection.on('error', () => {});
      untaken.push(connection);
      if (closed || workers.size === 0) closeUntaken();
      else match();
    },
    /** One more worker takes connections. @returns to be called when it is gone */
    join(link: Link): () => void {
      workers.add(link);
      free.add(link);
      match();
      return () => {
        workers.delete(link);
        free.delete(link);
        if (workers.size === 0) closeUntaken();
      };
    },
    /** Closes the connections that no worker has. */
    close(): void {
      closed = true;
      closeUntaken();
    },
  };
}
