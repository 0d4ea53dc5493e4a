import { connectRedis, type RedisTarget } from '../../../src/redis/redis-connections.ts';
import { watchRedisConditions } from '../../../src/redis/redis-conditions.ts';
import { until } from '../cache/redis-house.ts';

/** So that nothing is told but what a test is about. */
export const SOUND = ['--maxmemory', '100mb', '--maxmemory-policy', 'volatile-lru'];

export interface Watch {
  readonly conditions: ReturnType<typeof watchRedisConditions>;
  readonly told: string[];
  /** Resolves when the conditions are as many, and gives them. */
  until(count: number): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** What an operator is told of that Redis. */
export function watch(target: RedisTarget): Watch {
  const connections = connectRedis(target, () => {});
  const told: string[] = [];
  const conditions = watchRedisConditions({
    target,
    namespace: 'mdx',
    connections,
    onProblem: (problem) => void told.push(problem),
  });
  return {
    conditions,
    told,
    until: (count) => until(conditions.list, ({ length }) => length === count),
    async close() {
      conditions.close();
      await connections.close();
    },
  };
}
