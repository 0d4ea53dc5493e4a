import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { comparePassword, createFileAuthenticator } from '../../../src/auth/users-file.ts';
import type { GatewayEvent } from '../../../src/common/events.ts';
import { told } from '../../unit/auth/support-file-authenticator.ts';
import { until } from '../../support/http-client.ts';
import { basic, HASHES } from '../../unit/auth/support.ts';

const HERE = '192.0.2.1';
const OLD = `ANALYST:${HASHES.fastCars}\nADMIN:${HASHES.kylin}\n`;
const NEW = `ANALYST:${HASHES.newCars}\nADMIN:${HASHES.kylin}\n`;

let folder = '';

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'users-'));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

/** Real files, real bcrypt; only the timer is the test's. */
async function open(file: string) {
  const events: GatewayEvent[] = [];
  let comparisons = 0;
  const pauses: (() => void)[] = [];
  const authenticator = await createFileAuthenticator({
    file,
    verifiedFor: 60_000,
    clock: { now: () => 0 },
    random: randomBytes,
    compare: (password, hash) => {
      comparisons += 1;
      return comparePassword(password, hash);
    },
    pause: () => new Promise((resolve) => pauses.push(resolve)),
    emit: (event) => events.push(event),
  });
  return {
    authenticator,
    events,
    comparisons: () => comparisons,
    /** Until a change counts. */
    async noticed(): Promise<void> {
      for (let reading = 0; reading < 2; reading += 1) {
        pauses.shift()?.();
        await until(() => pauses.length > 0);
      }
    },
    canLogIn: async (name: string, password: string): Promise<boolean> =>
      (await told(authenticator).authenticate(basic(name, password), { id: 'id', address: HERE }))
        .ok,
  };
}

describe('a users file on disk', () => {
  test('lets in with the hashes of htpasswd, and remembers', async () => {
    const file = join(folder, 'users');
    await writeFile(file, `José:${HASHES.umlauts}\r\nmax:${HASHES.a72}\r\n`);
    const { canLogIn, comparisons } = await open(file);
    expect(await canLogIn('José', 'pä:ss wörd')).toBe(true);
    expect(await canLogIn('José', 'pä:ss wörd')).toBe(true);
    expect(await canLogIn('max', 'a'.repeat(72))).toBe(true);
    expect(comparisons()).toBe(2);
    expect(await canLogIn('max', 'a'.repeat(73))).toBe(false);
    expect(comparisons()).toBe(2);
    expect(await canLogIn('max', 'a'.repeat(71))).toBe(false);
    expect(await canLogIn('nobody', 'x')).toBe(false);
    expect(comparisons()).toBe(4);
  });

  const changes: [string, (file: string) => Promise<void>][] = [
    ['written in place', (file) => writeFile(file, NEW)],
    [
      'renamed over',
      async (file) => {
        await writeFile(`${file}.new`, NEW);
        await rename(`${file}.new`, file);
      },
    ],
    [
      'deleted and made anew',
      async (file) => {
        await rm(file);
        await writeFile(file, NEW);
      },
    ],
  ];

  test.each(changes)('is followed when it is %s', async (_how, change) => {
    const file = join(folder, 'users');
    await writeFile(file, OLD);
    const { canLogIn, noticed, comparisons } = await open(file);
    expect(await canLogIn('ANALYST', 'fast cars')).toBe(true);
    expect(await canLogIn('ADMIN', 'KYLIN')).toBe(true);
    await change(file);
    await noticed();
    expect(await canLogIn('ANALYST', 'fast cars')).toBe(false);
    expect(await canLogIn('ANALYST', 'new cars')).toBe(true);
    expect(await canLogIn('ADMIN', 'KYLIN')).toBe(true);
    expect(comparisons()).toBe(4);
  });

  test('is followed when Kubernetes swaps the folder behind its symlink', async () => {
    for (const [version, text] of Object.entries({ one: OLD, two: NEW })) {
      await mkdir(join(folder, version));
      await writeFile(join(folder, version, 'users'), text);
    }
    await symlink('one', join(folder, '..data'));
    await symlink(join('..data', 'users'), join(folder, 'users'));
    const { canLogIn, noticed } = await open(join(folder, 'users'));
    expect(await canLogIn('ANALYST', 'fast cars')).toBe(true);
    await symlink('two', join(folder, '..tmp'));
    await rename(join(folder, '..tmp'), join(folder, '..data'));
    await noticed();
    expect(await canLogIn('ANALYST', 'fast cars')).toBe(false);
    expect(await canLogIn('ANALYST', 'new cars')).toBe(true);
  });

  test('keeps its users while it is gone, empty or too large, and says what is wrong', async () => {
    const file = join(folder, 'users');
    await writeFile(file, OLD);
    const { canLogIn, noticed, events } = await open(file);
    await truncate(file, 0);
    await noticed();
    await truncate(file, 32 * 1024 * 1024);
    await noticed();
    await rm(file);
    await noticed();
    expect(await canLogIn('ANALYST', 'fast cars')).toBe(true);
    expect(events.slice(1)).toEqual([
      { type: 'warning', message: expect.stringContaining('it holds no user') },
      { type: 'warning', message: expect.stringContaining('larger than') },
      { type: 'warning', message: expect.stringContaining('there is no such file') },
    ]);
  });

  test('is not a folder', async () => {
    await expect(open(folder)).rejects.toThrow('it is not a regular file');
  });

  test('that is missing at the start is an error that says how to make one', async () => {
    await expect(open(join(folder, 'none'))).rejects.toThrow('htpasswd -c -B -C 10');
  });
});

/** Timers that keep the process alive. */
function timers(): number {
  return process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
}

test('what waits for the next reading does not keep the process alive', async () => {
  const before = timers();
  const file = join(folder, 'users');
  await writeFile(file, OLD);
  const common = { verifiedFor: 0, clock: { now: () => 0 }, random: randomBytes, emit() {} };
  const authenticator = await createFileAuthenticator({ file, ...common });
  expect(timers()).toBe(before);
  await authenticator.close();
});
