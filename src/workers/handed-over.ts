import type { ChildProcess, SendHandle } from 'node:child_process';

/** What Node.js itself says over the channel when it hands a connection to a worker, and is answered. */
interface ClusterMessage {
  readonly cmd?: unknown;
  readonly act?: unknown;
  readonly seq?: unknown;
  readonly ack?: unknown;
}

/**
 * Closes the connections that were handed to a worker which died before it took them. `node:cluster` keeps them open
 * for ever, and their clients wait for an answer that nobody will give.
 *
 * @param ended resolves when the worker is gone
 */
export function closeUntaken(child: ChildProcess, ended: Promise<unknown>): void {
  const given = new Map<unknown, { close(): void }>();
  const send = child.send as (message: object, handle?: SendHandle, ...rest: unknown[]) => boolean;
  child.send = (message: ClusterMessage, handle?: unknown, ...rest: unknown[]) => {
    if (message.cmd === 'NODE_CLUSTER' && message.act === 'newconn' && isOpen(handle)) {
      given.set(message.seq, handle);
    }
    return send.call(child, message, handle as SendHandle, ...rest);
  };
  // Taken, or refused: then it is handed to another one.
  child.on('internalMessage', ({ cmd, ack }: ClusterMessage) => {
    if (cmd === 'NODE_CLUSTER' && ack !== undefined) given.delete(ack);
  });
  void ended.then(() => {
    for (const handle of given.values()) handle.close();
    given.clear();
  });
}

function isOpen(handle: unknown): handle is { close(): void } {
  return typeof handle === 'object' && handle !== null && 'close' in handle;
}
