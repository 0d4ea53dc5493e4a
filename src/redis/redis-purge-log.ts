import type { PurgeLines } from '../cache/purge/purge-log.ts';
import type { Sealer } from '../common/sealing.ts';
import type { RedisConnections } from './redis-connections.ts';
import { freshnessKey } from './redis-freshness.ts';
import { redisScript } from './redis-script.ts';

/** ARGV 1 a line · 2 how many are kept. The latest is the first. */
const addLine = redisScript(`
redis.call('LPUSH', KEYS[1], ARGV[1])
return redis.call('LTRIM', KEYS[1], 0, ARGV[2] - 1)
`);

/** What a line is sealed for. */
const CONTEXT = 'purges';

/** The log of purges as one list in Redis, each line sealed. What does not open there is skipped. */
export function createRedisPurgeLines(options: {
  connections: RedisConnections;
  namespace: string;
  sealer: Sealer;
}): PurgeLines {
  const { connections, sealer } = options;
  const key = freshnessKey(options.namespace, 'purges');
  return {
    async add(line, most) {
      const sealed = sealer.seal(Buffer.from(line), CONTEXT);
      await addLine(connections.epochs, [key], [sealed, most]);
    },
    async all() {
      const sealed = await connections.writer.lrangeBuffer(key, 0, -1);
      // The list has the latest first, the port the oldest.
      return sealed.toReversed().flatMap((line) => sealer.open(line, CONTEXT)?.toString() ?? []);
    },
  };
}
