import { describe, expect, test } from '@jest/globals';
import {
  createPurgeLog,
  readPurgeRecord,
  type PurgeLines,
  type PurgeRecord,
} from '../../../../src/cache/purge/purge-log.ts';

function purge(at: number, changed: Partial<PurgeRecord> = {}): PurgeRecord {
  return {
    id: `id ${at}`,
    at,
    principal: 'ADMIN',
    cause: 'clear-cache',
    scope: { project: 'a' },
    result: 'cleared',
    replicas: 1,
    waited: 0,
    known: true,
    engine_calls: 0,
    ...changed,
  };
}

describe('the log of a gateway that is alone', () => {
  test('gives the latest first, and no more than asked for', async () => {
    const log = createPurgeLog();
    for (const at of [1, 2, 3]) await log.add(purge(at));
    expect(await log.latest(2)).toEqual({ complete: true, purges: [purge(3), purge(2)] });
  });

  test('gives the one first that was added later, of two in one millisecond', async () => {
    const log = createPurgeLog();
    await log.add(purge(1, { id: 'first' }));
    await log.add(purge(1, { id: 'second' }));
    expect((await log.latest(9)).purges.map(({ id }) => id)).toEqual(['second', 'first']);
  });

  test('holds a thousand and forgets the oldest', async () => {
    const log = createPurgeLog();
    for (let at = 1; at <= 1_001; at += 1) await log.add(purge(at));
    const { purges } = await log.latest(5_000);
    expect([purges.length, purges.at(-1)?.at]).toEqual([1_000, 2]);
  });
});

/** What gateways share, as in Redis. */
function sharedLines() {
  const kept: string[] = [];
  const shared = { kept, reachable: true };
  const reached = () => {
    if (!shared.reachable) throw new Error('out of reach');
  };
  const lines: PurgeLines = {
    async add(line) {
      reached();
      kept.push(line);
    },
    async all() {
      reached();
      return kept;
    },
  };
  return { shared, lines };
}

function gateway(lines: PurgeLines) {
  const errors: unknown[] = [];
  const log = createPurgeLog(lines, (error) => errors.push(error));
  return { ...log, errors };
}

describe('the log that gateways share', () => {
  test('gives the purges of all, the latest first', async () => {
    const { lines } = sharedLines();
    const [one, other] = [gateway(lines), gateway(lines)];
    await one.add(purge(1));
    await other.add(purge(2));
    await one.add(purge(3));
    for (const log of [one, other]) {
      expect(await log.latest(2)).toEqual({ complete: true, purges: [purge(3), purge(2)] });
    }
  });

  test('gives those of this gateway when the others cannot be known, and says so', async () => {
    const { lines, shared } = sharedLines();
    const [one, other] = [gateway(lines), gateway(lines)];
    await other.add(purge(1));
    shared.reachable = false;
    await one.add(purge(2));
    expect(await one.latest(9)).toEqual({ complete: false, purges: [purge(2)] });
    expect(one.errors).toHaveLength(2);
  });

  test('skips what cannot be read', async () => {
    const { lines, shared } = sharedLines();
    shared.kept.push('nonsense', JSON.stringify(purge(1)), 'null', '[]', '{}');
    expect((await gateway(lines).latest(9)).purges).toEqual([purge(1)]);
  });
});

describe('a line of the log', () => {
  test.each([
    ['at', 'now'],
    ['at', 1e300],
    ['at', -1],
    ['cause', 'of another version'],
    ['cause', 'toString'],
    ['result', 1],
    ['scope', {}],
    ['scope', 'all'],
    ['scope', null],
    ['principal', null],
    ['replicas', '3'],
    ['waited', undefined],
    ['known', 1],
  ])('is none when its %s is %j', (field, value) => {
    const line = JSON.stringify({ ...purge(1), [field]: value });
    expect(readPurgeRecord(line)).toBeUndefined();
  });

  test.each(['everything', { project: 'Straße' }] as const)('is read with %j', (scope) => {
    expect(readPurgeRecord(JSON.stringify(purge(1, { scope })))).toEqual(purge(1, { scope }));
  });
});
