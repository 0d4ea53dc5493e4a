import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Each process of jest has ports of its own: nobody takes one whose owner restarts, or refuses connections for a while. */
const PROCESSES = 2;
const OWN = Number(process.env['JEST_WORKER_ID'] ?? 0) % PROCESSES;

/** For the same reason none of these is given again. */
const given = new Set<number>();
/** Runs of hours start thousands of servers. */
const MOST_GIVEN = 2_000;

/**
 * A TCP port on 127.0.0.1 on which nobody listened a moment ago. It lies below the range from which Linux
 * chooses ports by itself (32768 and up), so that nobody is given it while its owner restarts.
 * Somebody may still take it first: the caller must be ready for that.
 */
export async function freePort(pick: () => number = anyPort): Promise<number> {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    const port = pick();
    if (given.has(port) || !(await isFree(port))) continue;
    given.add(port);
    const [oldest] = given;
    if (given.size > MOST_GIVEN && oldest !== undefined) given.delete(oldest);
    return port;
  }
  throw new Error('No free port on 127.0.0.1 after 100 attempts.');
}

function anyPort(): number {
  return PROCESSES * randomInt(20_000 / PROCESSES, 32_000 / PROCESSES) + OWN;
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  } catch {
    return false;
  }
  server.close();
  await once(server, 'close');
  return true;
}
