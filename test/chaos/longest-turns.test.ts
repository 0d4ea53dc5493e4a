import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { measureHolds } from '../../bench/holds.ts';
import { createHouse, startEngine } from '../../bench/house.ts';

const GATEWAY = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
/** CPU time of a turn of the event loop (ms), and not its length: other programs do not count. */
const MOST_MS = 20;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-turns-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('no page, purge, reload or crowd of long hits holds the event loop', async () => {
  const settings = { quick: true, peers: false, gateway: GATEWAY, rounds: 1, seconds: 1 };
  const { house, close } = createHouse(settings, folder, () => {});
  try {
    const longest = await Array.fromAsync(measureHolds(house, await startEngine(house), ''));
    expect(longest.length).toBeGreaterThan(30);
    expect(longest.filter(({ cpuMs }) => cpuMs > MOST_MS)).toEqual([]);
  } finally {
    await close();
  }
}, 300_000);
