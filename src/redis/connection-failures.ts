import type { Redis } from 'ioredis';
import type { RedisTarget } from './redis-clients.ts';

/**
 * Called for every failed try to connect and every lost connection.
 * @param partial whether another node or sentinel may serve in the place of the one that failed
 */
export type OnConnectionError = (error: unknown, partial: boolean) => void;

/** Servers that want TLS, or a certificate, say nothing else. */
const ENDED = 'the connection was ended before it was ready';
const CUT_OFF: ReadonlySet<unknown> = new Set(['ECONNRESET', 'EPIPE']);

/**
 * Tells what goes wrong with one connection, with a hint where the error itself says too little.
 * @param secure whether it is spoken to with TLS
 */
export function tellFailures(
  redis: Redis,
  { master }: Pick<RedisTarget, 'master'>,
  secure: boolean,
  onError: OnConnectionError,
): void {
  const ended = `${ENDED}; does Redis want ${secure ? 'a client certificate' : 'TLS'}?`;
  // Between the connection and the word that it can be used, or that it cannot.
  let beginning = false;
  redis.on('connect', () => (beginning = true));
  redis.on('ready', () => (beginning = false));
  redis.on('error', (error) => {
    const code = 'code' in error ? error.code : undefined;
    const why =
      secure && code === 'ETIMEDOUT'
        ? `${error.message}; does Redis speak TLS there?`
        : beginning && CUT_OFF.has(code)
          ? ended
          : undefined;
    beginning = false;
    onError(why === undefined ? error : failure(why, code, error), false);
  });
  redis.on('close', () => {
    if (beginning) onError(new Error(ended), false);
    beginning = false;
  });
  redis.on('sentinelError', (error: Error) => {
    // What it answers when it is asked for the master, and when it is asked for the other sentinels.
    const unknown = /invalid reply: null$|No such master/u.test(error.message);
    const sentinel = /sentinel \S+/u.exec(error.message)?.[0] ?? 'a sentinel';
    onError(unknown ? new Error(`${sentinel} knows no master ${master}`) : error, true);
  });
}

const failure = (why: string, code: unknown, cause: Error) =>
  Object.assign(new Error(why, { cause }), { code });
