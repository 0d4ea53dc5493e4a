import type { Redis } from 'ioredis';

/**
 * Sends what many requests ask in one turn of the event loop in one write. A write costs about as much as all else of a
 * short look-up: with 32 requests at one time a look-up takes 6 µs instead of 11; with one it takes 1 µs more.
 */
export function gatherWrites(redis: Pick<Redis, 'sendCommand' | 'status' | 'stream'>): void {
  const send = redis.sendCommand.bind(redis);
  let gathering = false;
  redis.sendCommand = (command, ...rest) => {
    const { stream } = redis;
    if (!gathering && redis.status === 'ready') {
      gathering = true;
      stream.cork();
      setImmediate(() => {
        gathering = false;
        // Also when it is no longer that of the client: then it is closed.
        stream.uncork();
      });
    }
    return send(command, ...rest);
  };
}
