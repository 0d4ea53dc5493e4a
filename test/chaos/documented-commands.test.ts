import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildGateway } from '../../bench/built-gateway.ts';
import { rowsetAnswer } from '../support/answers.ts';
import { ensureDebianPackages } from '../support/debian-packages.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const DOCUMENTS = ['README.md', 'docs/DEPLOY.md', 'docs/ENGINES.md'];

/** What a reader types where a command asks for a password. */
const PASSWORD = 'a documented password';

/** Answers any XMLA at the address that the documents have for an engine. */
const ENGINE = `
  const answer = ${JSON.stringify(rowsetAnswer())};
  require('node:http').createServer((request, response) => {
    request.resume().once('end', () => response.writeHead(200, { 'Content-Type': 'text/xml' }).end(answer));
  }).listen(8080, '127.0.0.1', () => console.log('listening'));
`;

/** What the configurations of the documents take from files. */
const NAMED_FILES = ['users.htpasswd', 'watcher.password'];

interface Block {
  readonly commands: string;
  /** Why it is not run; undefined where it is. */
  readonly notRun: string | undefined;
}

/** The blocks of commands of a document, in order. Those that cannot be run here say so above them, unseen by readers. */
function blocksOf(document: string): Block[] {
  const text = readFileSync(join(ROOT, document), 'utf8');
  const blocks = text.matchAll(/(?:^ *<!-- not run: ([^\n]+) -->\n)?^( *)```sh\n(.*?)^ *```$/gms);
  return [...blocks].map(([, notRun, indent = '', commands = '']) => ({
    notRun,
    commands: commands.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  }));
}

/** Its whole configurations, of which each names an engine. */
function configurationsOf(document: string): string[] {
  const text = readFileSync(join(ROOT, document), 'utf8');
  const blocks = [...text.matchAll(/^```yaml\n(.*?)^```$/gms)].map(([, yaml = '']) => yaml);
  return blocks.filter((yaml) => /^engine:/m.test(yaml));
}

/** A host of its own, on which every port is free: what the documents say is run as it stands. */
const HOST = `mdx-docs-${process.pid}`;
let folder: string;
const started: ChildProcess[] = [];

interface Ran {
  readonly exit: number | null;
  readonly output: string;
}

/** Without a terminal, so that a password is read from standard input. `until`: it goes on, and has said this. */
function run(command: readonly string[], until?: string): Promise<Ran> {
  const env = { PATH: process.env['PATH'], HOME: folder };
  const child = spawn('ip', ['netns', 'exec', HOST, ...command], {
    cwd: folder,
    env,
    detached: true,
  });
  let output = '';
  child.stdin.on('error', () => {});
  child.stdin.end(`${PASSWORD}\n`);
  return new Promise((resolve, reject) => {
    const hear = (bytes: Buffer) => {
      output += String(bytes);
      if (until === undefined || !output.includes(until)) return;
      started.push(child);
      resolve({ exit: 0, output });
    };
    child.stdout.on('data', hear);
    child.stderr.on('data', hear);
    child.once('error', reject);
    child.once('close', (exit) => resolve({ exit, output }));
  });
}

const runBlock = (commands: string) =>
  run(
    ['bash', '-euo', 'pipefail', '-c', commands],
    / serve /.test(commands) ? 'listening' : undefined,
  );

/** Sets up the host and what a reader has who followed step 1 of the README. */
async function setUp(): Promise<void> {
  folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-docs-'));
  for (const name of ['bin', 'config', 'LICENSE']) {
    cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  }
  await buildGateway(ROOT, folder);
  await new Promise((resolve) => spawn('ip', ['netns', 'add', HOST]).once('close', resolve));
  await run(['ip', 'link', 'set', 'lo', 'up']);
  await run([process.execPath, '-e', ENGINE], 'listening');
}

function tearDown(): void {
  // Each is the leader of a group of its own.
  for (const { pid } of started.splice(0)) if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  spawn('ip', ['netns', 'del', HOST]);
  rmSync(folder, { recursive: true, force: true });
}

describe.each(DOCUMENTS)('the commands of %s do what they say', (document) => {
  const blocks = blocksOf(document);
  const commands = blocks.flatMap((block) => (block.notRun === undefined ? [block.commands] : []));
  beforeAll(async () => {
    await ensureDebianPackages([
      { name: 'iproute2', probe: 'ip' },
      { name: 'curl', probe: 'curl' },
    ]);
    await setUp();
  });
  afterAll(tearDown);

  test('of which there are some, or configurations', () => {
    expect([...commands, ...configurationsOf(document)]).not.toEqual([]);
  });

  // In order: each finds what those before it left behind.
  commands.forEach((block) =>
    test(`run as they stand: ${block}`, async () => {
      expect(await runBlock(block)).toMatchObject({ exit: 0 });
    }),
  );

  commands
    .filter((block) => block.includes('<Envelope'))
    .forEach((query) =>
      test(`and what was answered once is answered from the cache: ${query}`, async () => {
        expect((await runBlock(query)).output).toMatch(/^cache-status: mdx-gateway; hit/im);
      }),
    );

  configurationsOf(document).forEach((yaml) =>
    test(`a configuration that is taken as it stands: ${yaml}`, async () => {
      NAMED_FILES.forEach((name) => writeFileSync(join(folder, 'config', name), 'none:none\n'));
      writeFileSync(join(folder, 'config/tried.yaml'), yaml);
      expect(await runBlock('bin/mdx-gateway check --config config/tried.yaml')).toMatchObject({
        exit: 0,
      });
    }),
  );
});
