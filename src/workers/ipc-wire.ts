import type { Wire } from './link.ts';

/** What Node.js gives both ends of the channel between two processes: `process`, and a worker of `node:cluster`. */
export interface Channel {
  send?(message: unknown, callback: (error: Error | null) => void): boolean;
  on(event: 'message', listener: (message: unknown) => void): unknown;
}

/** So many messages may wait until a process that stalls reads them; what nothing depends on is left then. */
const MAX_UNSENT = 1_000;

/** A wire over the channel that Node.js opens to a process that it forks. */
export function ipcWire(channel: Channel): Wire {
  let unsent = 0;
  return {
    send(message, lost) {
      // Node.js takes it away when the channel is closed.
      if (channel.send === undefined) return lost(new Error('the other process is gone'));
      unsent += 1;
      try {
        channel.send(message, (error) => {
          unsent -= 1;
          if (error !== null) lost(error);
        });
      } catch (error) {
        unsent -= 1;
        lost(error instanceof Error ? error : new Error(String(error)));
      }
    },
    onMessage: (listener) => void channel.on('message', listener),
    crowded: () => unsent > MAX_UNSENT,
  };
}
