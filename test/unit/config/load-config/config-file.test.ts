import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createConfigFile } from '../../../../src/config/load-config.ts';
import { HASHES } from '../../auth/support.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-config-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const write = (name: string, text: string) => writeFileSync(join(folder, name), text);

/** A configuration; `meanwhile` happens in the first pause between two readings. */
function configFile(meanwhile: () => void) {
  let pauses = 0;
  const source = createConfigFile({
    file: 'gateway.yaml',
    env: {},
    workingFolder: folder,
    async sleep() {
      pauses += 1;
      if (pauses === 1) meanwhile();
    },
  });
  return { source, pauses: () => pauses };
}

const FIRST = `ADMIN:${HASHES.kylin}\n`;
const BOTH = `${FIRST}ANALYST:${HASHES.fastCars}\n`;

test.each([
  ['nothing', () => {}, 1],
  ['itself', () => write('gateway.yaml', 'auth: { users: ./users }\nworkers: 1\n'), 2],
  ['a file that it names', () => write('users', BOTH), 2],
])(
  'a configuration is read again until nobody writes it any more: %s',
  async (_what, meanwhile, expected) => {
    write('users', FIRST);
    write('gateway.yaml', 'auth: { users: ./users }\n');
    const { source, pauses } = configFile(meanwhile);
    await source.readAgain();
    expect(pauses()).toBe(expected);
  },
);

test.each([
  ['that its writer has just emptied', ['', 'workers: 3\n']],
  ['of which half is written', ['work', 'workers: 3\n']],
  ['that is not there for a moment', [undefined, 'workers: 3\n']],
  ['that was whole between two readings that found it empty', ['', '', 'workers: 3\n']],
])('a file %s is waited for', async (_what, contents) => {
  write('users.htpasswd', FIRST);
  let written = 0;
  const next = () => {
    const text = contents[written];
    if (written >= contents.length) return;
    written += 1;
    rmSync(join(folder, 'gateway.yaml'), { force: true });
    if (text === undefined) return;
    write('gateway.yaml', text);
    utimesSync(join(folder, 'gateway.yaml'), written, written);
  };
  next();
  const source = createConfigFile({
    file: 'gateway.yaml',
    env: {},
    workingFolder: folder,
    sleep: async () => next(),
  });
  expect((await source.readAgain()).config.workers).toBe(3);
});

test('a file that stays away is told', async () => {
  await expect(configFile(() => {}).source.readAgain()).rejects.toThrow(
    'gateway.yaml: does not exist',
  );
});

test('a file that never comes to rest is refused with what to do', async () => {
  write('users.htpasswd', FIRST);
  write('gateway.yaml', '');
  let readings = 1;
  const source = createConfigFile({
    file: 'gateway.yaml',
    env: {},
    workingFolder: folder,
    async sleep() {
      readings += 1;
      write('gateway.yaml', '#'.repeat(readings));
    },
  });
  await expect(source.readAgain()).rejects.toThrow(
    'gateway.yaml: is still being written after 10 seconds; signal again when it is complete',
  );
  expect(readings).toBe(100);
});

test.each([
  ['a pipe as the users file', 'users', 'auth.users: '],
  ['a pipe as the configuration', 'gateway.yaml', ''],
])(
  'a configuration is not read again from what nobody may ever write: %s',
  async (_what, name, key) => {
    write('users', FIRST);
    write('gateway.yaml', 'auth: { users: ./users }\n');
    const { source } = configFile(() => {});
    expect(source.read().config.workers).toBe(1);
    rmSync(join(folder, name));
    execFileSync('mkfifo', [join(folder, name)]);
    await expect(source.readAgain()).rejects.toThrow(
      new RegExp(`^gateway.yaml: ${key}.*is no regular file, which alone can be read again`),
    );
  },
);
