import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createConfigFile } from '../../../src/config/config-file.ts';
import { HASHES } from '../auth/support.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-config-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const write = (name: string, text: string) => writeFileSync(join(folder, name), text);

/** A configuration; `meanwhile` happens in the first pause between two readings. */
function configFile(meanwhile: () => void) {
  let pauses = 0;
  const source = createConfigFile('gateway.yaml', {
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
