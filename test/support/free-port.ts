import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * A TCP port on 127.0.0.1 on which nobody listened a moment ago. It lies below the range from which Linux
 * chooses ports by itself (32768 and up), so that nobody is given it while its owner restarts.
 * Somebody may still take it first: the caller must be ready for that.
 */
export async function freePort(pick: () => number = anyPort): Promise<number> {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    const port = pick();
    if (await isFree(port)) return port;
  }
  throw new Error('No free port on 127.0.0.1 after 100 attempts.');
}

function anyPort(): number {
  return randomInt(20_000, 32_000);
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
