import { Command } from 'ioredis';

/*
 * For tests in which Redis is well, or refuses at once: whoever imports this lets the gateways of its process wait for
 * every answer. A machine that keeps the process from running for longer than the deadlines of a gateway would
 * otherwise make it go past its cache, as it should, where a test wants to see what it does with Redis.
 */

/** For longer than any machine stands still (ms). */
const PATIENCE = 60_000;

let patience = PATIENCE;

const within = Command.prototype.setTimeout;
Command.prototype.setTimeout = function (milliseconds: number) {
  within.call(this, Math.max(milliseconds, patience));
};

/** Lets the deadlines count for what is asked meanwhile. */
export async function withDeadlines<T>(work: () => Promise<T>): Promise<T> {
  patience = 0;
  try {
    return await work();
  } finally {
    patience = PATIENCE;
  }
}
