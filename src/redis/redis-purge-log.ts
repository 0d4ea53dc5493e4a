import type { PurgeLine, PurgeLines } from '../query-cache/purge/purge-log.ts';
import type { Sealer } from '../sealing.ts';
import { readPurgeLine } from './purge-line.ts';
import type { RedisConnections } from './redis-connections.ts';
import { redisScript } from './redis-script.ts';

/** ARGV 1 how many are kept · 2… lines. The latest is the first. */
const addLines = redisScript(`
for i = 2, #ARGV do redis.call('LPUSH', KEYS[1], ARGV[i]) end
return redis.call('LTRIM', KEYS[1], 0, ARGV[1] - 1)
`);

/** What a line is sealed for. */
const CONTEXT = 'purges';

/** The log of purges as one list in Redis, each line JSON that is sealed. What cannot be read there is skipped. */
export function createRedisPurgeLines(options: {
  connections: RedisConnections;
  namespace: string;
  sealer: Sealer;
}): PurgeLines {
  const { connections, sealer } = options;
  const key = `{${options.namespace}}:purges`;
  return {
    async add(lines, most) {
      const sealed = lines.map((line) => sealer.seal(Buffer.from(JSON.stringify(line)), CONTEXT));
      await addLines(connections.epochs, [key], [most, ...sealed]);
    },
    async all(most) {
      const sealed = await connections.writer.lrangeBuffer(key, 0, most - 1);
      const lines = sealed.map((line) => sealer.open(line, CONTEXT)?.toString());
      // The list has the latest first, the port the oldest.
      return lines.toReversed().map(readPurgeLine).filter(isLine);
    },
  };
}

function isLine(line: PurgeLine | undefined): line is PurgeLine {
  return line !== undefined;
}
