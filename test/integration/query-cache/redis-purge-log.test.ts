import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { PurgeLine } from '../../../src/query-cache/purge/purge-log.ts';
import { createRedisPurgeLines } from '../../../src/redis/redis-purge-log.ts';
import { createSealer, NO_SEALER, type Sealer } from '../../../src/sealing.ts';
import '../../support/patient-redis.ts';
import { askRedis, startRedis, type RedisServer } from '../../support/redis-server.ts';
import { house, type House } from './redis-house.ts';

let redis: RedisServer;
const houses: House[] = [];

beforeAll(async () => {
  redis = await startRedis();
});
afterEach(async () => {
  for (const one of houses.splice(0)) await one.close();
  await askRedis(redis.port, 'FLUSHALL');
});
afterAll(() => redis?.close());

async function lines(sealer: Sealer = NO_SEALER, namespace = 'test') {
  const one = await house(redis.url);
  houses.push(one);
  return createRedisPurgeLines({ connections: one.connections, namespace, sealer });
}

function line(at: number): PurgeLine {
  return {
    line: `line ${at}`,
    record: {
      id: `id ${at}`,
      at,
      principal: 'Jörg "the loader"\n',
      cause: 'clear-cache',
      scope: at % 2 === 0 ? 'everything' : { project: 'Straße' },
      result: 'cleared',
      replicas: 3,
      waited: 1_100,
      engine_calls: 2,
    },
  };
}

const SEALERS = [
  ['plain', NO_SEALER],
  ['sealed', createSealer('a secret of at least thirty-two characters')],
] as const;

describe('the log of purges in Redis', () => {
  test.each(SEALERS)('gives back what gateways wrote, in order (%s)', async (_name, sealer) => {
    const [one, other] = [await lines(sealer), await lines(sealer)];
    expect(await one.all(9)).toEqual([]);
    await one.add([line(1), line(2)], 9);
    await other.add([line(3)], 9);
    expect(await one.all(9)).toEqual([line(1), line(2), line(3)]);
    expect(await one.all(2)).toEqual([line(2), line(3)]);
  });

  test('keeps the latest only', async () => {
    const one = await lines();
    for (let at = 1; at <= 7; at += 1) await one.add([line(at)], 5);
    expect((await one.all(99)).map(({ record }) => record.at)).toEqual([3, 4, 5, 6, 7]);
    expect(await askRedis(redis.port, 'LLEN {test}:purges')).toBe(':5\r\n');
  });

  test('takes a thousand at one time', async () => {
    const one = await lines();
    const all = Array.from({ length: 1_000 }, (_, at) => line(at));
    await one.add(all, 1_000);
    expect(await one.all(1_000)).toEqual(all);
  });

  test('skips what cannot be read', async () => {
    const one = await lines();
    await one.add([line(1)], 9);
    const { record } = line(2);
    const wrong: unknown[] = [
      'nonsense',
      [],
      null,
      { line: 'x' },
      { line: 1, record },
      { line: 'x', record: null },
      { line: 'x', record: { ...record, at: 'now' } },
      { line: 'x', record: { ...record, at: 1e300 } },
      { line: 'x', record: { ...record, at: -1 } },
      { line: 'x', record: { ...record, cause: 'of another version' } },
      { line: 'x', record: { ...record, cause: 'toString' } },
      { line: 'x', record: { ...record, result: 1 } },
      { line: 'x', record: { ...record, scope: {} } },
      { line: 'x', record: { ...record, scope: 'all' } },
      { line: 'x', record: { ...record, principal: null } },
      { line: 'x', record: { ...record, replicas: '3' } },
    ];
    const client = houses[0]?.connections.writer;
    for (const one of wrong) await client?.lpush('{test}:purges', JSON.stringify(one));
    await client?.lpush('{test}:purges', 'no JSON', Buffer.from([0xff, 0x00]));
    await one.add([line(3)], 99);
    expect(await one.all(99)).toEqual([line(1), line(3)]);
  });

  test('skips what was sealed under another key, or not at all, and shows nothing of what is sealed', async () => {
    const [, [, sealer]] = SEALERS;
    const [sealed, other, plain] = [
      await lines(sealer),
      await lines(createSealer('another secret of at least 32 characters')),
      await lines(),
    ];
    await sealed.add([line(1)], 9);
    expect(await askRedis(redis.port, 'LRANGE {test}:purges 0 -1')).not.toMatch(
      /loader|id 1|clear/,
    );
    await other.add([line(2)], 9);
    await plain.add([line(3)], 9);
    expect(await sealed.all(9)).toEqual([line(1)]);
    expect(await other.all(9)).toEqual([line(2)]);
    expect(await plain.all(9)).toEqual([line(3)]);
  });

  test('of one namespace is not that of another', async () => {
    const [one, other] = [await lines(), await lines(NO_SEALER, 'other')];
    await one.add([line(1)], 9);
    expect(await other.all(9)).toEqual([]);
  });

  test('says so when its key holds something else', async () => {
    const one = await lines();
    await askRedis(redis.port, 'SET {test}:purges foreign');
    await expect(one.add([line(1)], 9)).rejects.toThrow('WRONGTYPE');
    await expect(one.all(9)).rejects.toThrow('WRONGTYPE');
  });
});
