import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig, readInThread } from '../../../../src/config/load-config.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-config-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const USERS = 'auth: { users: ./users.htpasswd }\n';
function written(text: string) {
  writeFileSync(join(folder, 'users.htpasswd'), '');
  writeFileSync(join(folder, 'gateway.yaml'), USERS + text);
  const memory = { heap: Infinity, container: Infinity };
  return { file: 'gateway.yaml', env: { HOST: 'engine' }, workingFolder: folder, memory };
}
const ENGINE = 'engine: { url: "http://${HOST}/xmla" }\nprojects: { Shop: { ttl: 5m } }\n';

test('a thread reads just what the process reads', async () => {
  const options = written(ENGINE);
  const { config, text } = await readInThread(options);
  expect(config).toEqual(loadConfig({ ...options, readFile: (path) => readFileSync(path) }));
  expect(text).toBe(USERS + ENGINE);
  const given = await readInThread(options, `${USERS}${ENGINE}workers: 3\n`);
  expect([given.config.workers, given.config.projects.get('Shop')?.ttl]).toEqual([3, 300_000]);
});

test('a thread says of a wrong file what the process says', async () => {
  const options = written('cache: { tll: 5m }\n');
  const read = () => loadConfig({ ...options, readFile: (path) => readFileSync(path) });
  const message = await readInThread(options).catch((error: Error) => error.message);
  expect(message).toContain('unknown key; did you mean ttl?');
  expect(read).toThrow(message as string);
});
