import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { StorageUnavailable } from '../../../src/common/errors.ts';
import { startPostgres } from '../../support/postgres-server.ts';
import { sizes } from '../../support/sizes.ts';
import { storageAt } from './postgres-house.ts';
import { writeAll, writesIn } from './postgres-writes.ts';
import { shared } from '../../support/opened.ts';

const WRITER = fileURLToPath(new URL('postgres-writer.ts', import.meta.url));
const WRITES = sizes.writesUntilKill * 2;
/** More than a process does before it is killed, however late that is. */
const ENDLESS = 10_000_000;

const server = shared(() => startPostgres({ fsync: true }));

describe('a storage in PostgreSQL loses nothing that was acknowledged, and keeps nothing in part', () => {
  test('when the server is killed in the middle of many writes', async () => {
    const house = await server.house();
    const storage = storageAt(house.url);
    await storage.open();
    const acknowledged: number[] = [];
    const [inVain, unknown, others]: [number[], number[], unknown[]] = [[], [], []];
    let killed: Promise<void> | undefined;
    await writeAll(storage, WRITES, {
      acknowledged(write) {
        acknowledged.push(write);
        if (acknowledged.length === sizes.writesUntilKill) killed ??= server.stop('SIGKILL');
      },
      failed(write, error) {
        if (!(error instanceof StorageUnavailable)) others.push(error);
        else (error.outcome === 'unknown' ? unknown : inVain).push(write);
      },
    });
    await killed;
    expect(others).toEqual([]);
    expect(inVain.length).toBeGreaterThan(0);
    expect(acknowledged.length + inVain.length + unknown.length).toBe(WRITES);

    await server.restart();
    const found = await writesIn(storage);
    expect(acknowledged.filter((write) => !found.has(write))).toEqual([]);
    expect(inVain.filter((write) => found.has(write))).toEqual([]);
    await storage.close();
  });

  test('when the client is killed in the middle of many writes', async () => {
    const house = await server.house();
    const writer = spawn(process.execPath, [WRITER, house.url, String(ENDLESS)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(writer, 'exit');
    const lines: string[] = [];
    for await (const line of createInterface({ input: writer.stdout })) {
      lines.push(line);
      if (lines.length === sizes.writesUntilKill) writer.kill('SIGKILL');
    }
    expect(await ended).toEqual([null, 'SIGKILL']);
    const acknowledged = lines.slice(1).map(Number);
    expect(acknowledged.length).toBeLessThan(ENDLESS);

    const storage = storageAt(house.url);
    const found = await writesIn(storage);
    expect(acknowledged.filter((write) => !found.has(write))).toEqual([]);
    // The killed one holds nothing up.
    expect(await storage.roles.create({ name: 'next', description: '', contains: [] })).toEqual({
      id: expect.any(Number),
    });
    await storage.close();
  });
});
