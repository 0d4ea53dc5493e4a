import type { Socket } from 'node:net';
import type { Link } from './link.ts';

/** The service of a worker that takes connections, and its method. */
export const CONNECTIONS = 'connections';

/**
 * Gives the connections that the primary process accepts to the workers in turn. Each worker has at most one that it has
 * not taken yet, so that one that stalls keeps no more; that one is closed when the worker ends.
 */
export interface Handover {
  /** @param connection not read from yet */
  give(connection: Socket): void;
  /** One more worker takes connections. @returns to be called when it is gone */
  join(link: Link): () => void;
  /** Closes the connections that no worker has. */
  close(): void;
}

export function createHandover(): Handover {
  const workers = new Set<Link>();
  /** Workers that took the latest connection they were given, those that wait longest first. */
  const free: Link[] = [];
  let untaken: Socket[] = [];
  let closed = false;

  async function hand(link: Link, connection: Socket): Promise<void> {
    try {
      await link.call(CONNECTIONS, 'take', [], Infinity, connection);
    } catch {
      // The worker is gone.
      return;
    } finally {
      // The worker has a copy of its own, if it took it.
      connection.destroy();
    }
    if (!workers.has(link)) return;
    free.push(link);
    match();
  }

  function match(): void {
    while (untaken.length > 0) {
      const link = free.shift();
      if (link === undefined) return;
      const connection = untaken.shift();
      if (connection !== undefined) void hand(link, connection);
    }
  }

  function closeUntaken(): void {
    for (const connection of untaken) connection.destroy();
    untaken = [];
  }

  return {
    give(connection) {
      // Its client may go before a worker has it.
      connection.on('error', () => {});
      untaken.push(connection);
      if (closed || workers.size === 0) closeUntaken();
      else match();
    },
    join(link) {
      workers.add(link);
      free.push(link);
      match();
      return () => {
        workers.delete(link);
        if (free.includes(link)) free.splice(free.indexOf(link), 1);
        if (workers.size === 0) closeUntaken();
      };
    },
    close() {
      closed = true;
      closeUntaken();
    },
  };
}
