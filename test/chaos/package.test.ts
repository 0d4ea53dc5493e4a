import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  cpSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PROGRAM_ENVIRONMENT, runCommand, type Finished } from '../support/gateway-process.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PACKED = ['LICENSE', 'README.md', 'bin', 'config', 'package.json', 'scripts', 'src'];
/** What an operator may have beside the examples. */
const SECRETS = ['config/gateway.yaml', 'config/users.htpasswd', '.npmrc', 'data/gateway.sqlite'];

let house: string;
let tree: string;
let empty: string;
beforeAll(() => {
  house = mkdtempSync(join(tmpdir(), 'mdx-gateway-package-'));
  [tree, empty] = [join(house, 'tree'), join(house, 'empty')];
  // Its build leaves the folder of these tests as it is.
  for (const name of PACKED) cpSync(join(ROOT, name), join(tree, name), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(tree, 'node_modules'));
  mkdirSync(join(tree, 'data'));
  for (const path of SECRETS) writeFileSync(join(tree, path), '');
  mkdirSync(empty);
});
afterAll(() => rmSync(house, { recursive: true, force: true }));

/** By default npm asks a registry that says nothing once more only after five minutes. */
const PATIENCE = ['--fetch-timeout=20000', '--fetch-retry-mintimeout=1000'];

/** Of the registry, where the system has it behind an authority of its own. */
const AUTHORITIES = process.env['NODE_EXTRA_CA_CERTS'] ?? '';

/** What it printed. It must have ended well. */
async function npm(cwd: string, ...args: readonly string[]): Promise<string> {
  const { exit, stdout, stderr } = await runCommand(
    ['npm', ...args, '--no-audit', '--no-fund', ...PATIENCE],
    {
      cwd,
      env: { HOME: process.env['HOME'] ?? '', NODE_EXTRA_CA_CERTS: AUTHORITIES },
    },
  ).ended;
  expect([exit, stderr]).toEqual([0, stderr]);
  return stdout;
}

/** The demo in the empty folder, where the Node.js of the system is of this version. */
function demo(version: string): Promise<Finished> {
  // Told by the process itself: an older one need not be there.
  const told = `Object.defineProperty(process.versions, 'node', { value: '${version}' });
    Object.defineProperty(process, 'version', { value: 'v${version}' });`;
  const system = join(house, 'system');
  mkdirSync(system, { recursive: true });
  writeFileSync(join(system, 'told.mjs'), told);
  writeFileSync(
    join(system, 'node'),
    `#!/bin/sh\nexec '${process.execPath}' --import '${join(system, 'told.mjs')}' "$@"\n`,
    { mode: 0o755 },
  );
  return runCommand(['node_modules/.bin/mdx-gateway', 'demo', '--once'], {
    cwd: empty,
    env: { PATH: `${system}:${PROGRAM_ENVIRONMENT.PATH ?? ''}` },
  }).ended;
}

test('what is packed is what runs, and nothing else that lies there', async () => {
  const [packed] = JSON.parse(await npm(tree, 'pack', '--json', '--silent')) as [
    { filename: string; files: { path: string }[] },
  ];
  const shipped = ['bin', 'dist'].flatMap((folder) =>
    globSync(`${folder}/**`, { cwd: tree, withFileTypes: true })
      .filter((one) => one.isFile() && !one.name.endsWith('.map'))
      .map((one) => join(one.parentPath, one.name).slice(tree.length + 1)),
  );
  const examples = globSync('config/{default,example-*}.yaml', { cwd: ROOT });
  expect(shipped).toContain('dist/parts/recordings/recordings.json');
  expect(packed.files.map(({ path }) => path).toSorted()).toEqual(
    ['LICENSE', 'README.md', 'package.json', ...examples, ...shipped].toSorted(),
  );
});

test('an empty folder in which it is installed runs the demo', async () => {
  const [tarball = ''] = globSync('*.tgz', { cwd: tree });
  await npm(empty, 'install', '--prefer-offline', join(tree, tarball));
  const { stdout, ...ended } = await runCommand(['npx', 'mdx-gateway', 'demo', '--once'], {
    cwd: empty,
  }).ended;
  expect(ended).toEqual({ exit: 0, stderr: expect.any(String) });
  expect(stdout).toContain('hit, memory');
});

test('where Node.js is older it says what to install, and takes that', async () => {
  expect(await demo('20.20.2')).toEqual({
    exit: 1,
    stdout: '',
    stderr: expect.stringMatching(
      /needs Node\.js 24 .* this is v20\.20\.2\..* npm install node@24/,
    ),
  });
  // That of the project, which npm need not fetch.
  await npm(
    empty,
    'install',
    '--ignore-scripts',
    '--prefer-offline',
    join(ROOT, 'node_modules/node'),
  );
  expect(await demo('20.20.2')).toMatchObject({ exit: 0, stderr: '' });
});
