import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { hash } from 'bcrypt';
import { buildGateway } from '../../bench/built-gateway.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { ensureDebianPackages } from '../support/debian-packages.ts';
import { execute } from '../support/envelopes.ts';
import { listening, runCommand, type GatewayProcess } from '../support/gateway-process.ts';
import { askXmla, send, until } from '../support/http-client.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic } from '../support/test-gateway.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const shipped = (name: string) => join(ROOT, 'deploy/systemd', name);
const UNIT = readFileSync(shipped('mdx-gateway.service'), 'utf8');
const CONFIG = '/etc/mdx-gateway/gateway.yaml';
const USERS = '/etc/mdx-gateway/users.htpasswd';
const QUERY = execute({ statement: 'SELECT FROM [Sales]' });
const isRoot = process.getuid?.() === 0;

/** What stands behind each `NAME=` of the unit, in its order. */
const valuesOf = (name: string): string[] =>
  [...UNIT.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value = '']) => value);
const valueOf = (name: string): string => {
  const [value, ...others] = valuesOf(name);
  if (value === undefined || others.length > 0)
    throw new Error(`${name} does not stand there once`);
  return value;
};

/** A folder in the place of `/`, with the gateway in /opt. */
let host: string;
const at = (path: string) => join(host, path);
const PLACES = /\/(?:opt|etc|var\/lib|run\/credentials)\/mdx-gateway/g;
/** With the paths of the unit inside of that folder. */
const mapped = (text: string) => text.replaceAll(PLACES, (path) => at(path));

beforeAll(async () => {
  await ensureDebianPackages([
    { name: 'systemd', probe: 'systemd-analyze' },
    { name: 'strace', probe: 'strace' },
  ]);
  host = mkdtempSync(join(tmpdir(), 'mdx-gateway-systemd-'));
  await buildGateway(ROOT, at('/opt/mdx-gateway'));
  cpSync(join(ROOT, 'bin'), at('/opt/mdx-gateway/bin'), { recursive: true });
  mkdirSync(at('/etc'));
});
afterAll(() => rmSync(host, { recursive: true, force: true }));

/** What a command prints. @throws when it fails */
const run = (command: string, ...args: string[]) =>
  execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

describe('the unit', () => {
  test('says nothing that systemd does not understand', () => {
    const unit = at('mdx-gateway.service');
    writeFileSync(unit, mapped(UNIT));
    const verified = spawnSync('systemd-analyze', ['verify', unit], { encoding: 'utf8' });
    expect([verified.status, verified.stdout, verified.stderr]).toEqual([0, '', '']);
  });

  test('leaves an intruder little: its exposure is at most 2.0', () => {
    const text = run(
      ...(['systemd-analyze', 'security', '--offline=true', '--no-pager'] as const),
      shipped('mdx-gateway.service'),
    );
    const [, exposure] = /Overall exposure level for \S+: (\d+\.\d+)/.exec(text) ?? [];
    expect(Number(exposure)).toBeLessThanOrEqual(2);
  });
});

/** Every system call that SystemCallFilter lets through: sets are added, and with `~` taken away, in their order. */
function allowedCalls(): ReadonlySet<string> {
  const allowed = new Set<string>();
  for (const line of valuesOf('SystemCallFilter')) {
    const isTakenAway = line.startsWith('~');
    for (const call of line.replace('~', '').split(' ').flatMap(callsOf)) {
      if (isTakenAway) allowed.delete(call);
      else allowed.add(call);
    }
  }
  return allowed;
}

function callsOf(name: string): readonly string[] {
  if (!name.startsWith('@')) return [name];
  const lines = run('systemd-analyze', 'syscall-filter', '--no-pager', name).split('\n').slice(1);
  const members = lines.map((line) => line.trim()).filter((line) => /^@?\w/.test(line));
  return members.flatMap(callsOf);
}

/** Makes the user, the folders and the files as docs/DEPLOY.md says. */
async function install(engine: StubEngine): Promise<void> {
  run('systemd-sysusers', `--root=${host}`, shipped('sysusers.conf'));
  const folders = readFileSync(shipped('tmpfiles.conf'), 'utf8');
  // Who is not root cannot give files away.
  const own = at('tmpfiles.conf');
  writeFileSync(own, isRoot ? folders : folders.replaceAll(/ root \S+$/gm, ' - -'));
  const create = () => run('systemd-tmpfiles', `--root=${host}`, '--create', own);
  create();
  const config = readFileSync(shipped('gateway.yaml'), 'utf8')
    // The login of the engine, which stands there as a comment.
    .replaceAll(/^ {2}# (login:|service:| {2}\w+:)/gm, '  $1')
    .replace(/url: \S+/, `url: ${engine.url}`)
    .replace('listen:\n', 'listen:\n  port: 0\n');
  writeFileSync(at(CONFIG), mapped(config));
  writeFileSync(at(USERS), `ADMIN:${await hash('admin', 4)}\n`);
  writeFileSync(at('/etc/mdx-gateway/secrets/engine'), 'engine-secret\n');
  create();
}

/** Starts what ExecStart says, as systemd does: with its state, credentials, mask and environment, and what it forbids. */
function startUnit(): GatewayProcess {
  mkdirSync(at(`/var/lib/${valueOf('StateDirectory')}`), {
    recursive: true,
    mode: Number.parseInt(valueOf('StateDirectoryMode'), 8),
  });
  const [id = '', folder = ''] = mapped(valueOf('LoadCredential')).split(':');
  const credentials = at('/run/credentials/mdx-gateway.service');
  mkdirSync(credentials, { recursive: true });
  for (const name of readdirSync(folder)) {
    cpSync(join(folder, name), join(credentials, `${id}_${name}`));
  }
  // SQLite gives its files to their owner where it is root, which it is in this test alone.
  const allowed = [...allowedCalls(), ...(isRoot ? ['fchown'] : [])];
  const calls = `!${allowed.map((call) => `?${call}`).join(',')}`;
  expect([valueOf('CapabilityBoundingSet'), valueOf('NoNewPrivileges')]).toEqual(['', 'yes']);
  const without = isRoot ? ['setpriv', '--bounding-set=-all', '--inh-caps=-all'] : ['setpriv'];
  return runCommand(
    [
      ...['sh', '-c', `umask ${valueOf('UMask')} && exec "$@"`, 'sh', ...without, '--no-new-privs'],
      // All other calls fail, and are told on standard error.
      ...['strace', '-f', '-qqq', '--seccomp-bpf', '--signal=none'],
      ...[
        '-e',
        `trace=${calls}`,
        '-e',
        `inject=${calls}:error=${valueOf('SystemCallErrorNumber')}`,
      ],
      ...mapped(valueOf('ExecStart')).split(' '),
    ],
    { env: Object.fromEntries(valuesOf('Environment').map((pair) => pair.split('='))) },
  );
}

/** What lies below a folder, with its mode. */
const filesIn = (path: string) =>
  readdirSync(at(path), { recursive: true, encoding: 'utf8' })
    .toSorted()
    .map((name) => [name, (statSync(join(at(path), name)).mode & 0o777).toString(8)]);

describe('what the unit starts', () => {
  let engine: StubEngine;
  let running: GatewayProcess;
  let base: string;
  beforeAll(async () => {
    engine = await startStubEngine(sendXml(mddatasetAnswer()));
    await install(engine);
    running = startUnit();
    base = await listening(running);
  });
  afterAll(async () => {
    running?.kill('SIGKILL');
    await engine?.close();
  });
  const pid = () => Number(running.log.find(({ msg }) => msg === 'listening')?.['pid']);

  test('lies in folders that only its user can read, and only root can change', () => {
    const group = (path: string) => {
      const { mode, uid, gid } = statSync(at(path));
      return [path, (mode & 0o777).toString(8), ...(isRoot ? [uid, gid] : [])];
    };
    const [, users = ''] =
      /^mdx-gateway:x:(\d+):/m.exec(readFileSync(at('/etc/group'), 'utf8')) ?? [];
    const owners = (gid: number) => (isRoot ? [0, gid] : []);
    expect(Number(users)).toBeGreaterThan(0);
    expect([valueOf('User'), valueOf('Group')]).toEqual(['mdx-gateway', 'mdx-gateway']);
    expect(group('/etc/mdx-gateway')).toEqual([
      '/etc/mdx-gateway',
      '750',
      ...owners(Number(users)),
    ]);
    expect(group(CONFIG)).toEqual([CONFIG, '640', ...owners(Number(users))]);
    expect(group(USERS)).toEqual([USERS, '640', ...owners(Number(users))]);
    expect(group('/etc/mdx-gateway/secrets').slice(1)).toEqual(['700', ...owners(0)]);
  });

  test('answers, with a secret that systemd handed to it', async () => {
    const answer = await askXmla(base, QUERY, { headers: { authorization: basic('ADMIN') } });
    expect([answer.status, answer.text]).toEqual([200, mddatasetAnswer()]);
    const login = Buffer.from('gateway:engine-secret').toString('base64');
    expect(engine.seen.at(-1)?.headers.authorization).toBe(`Basic ${login}`);
  });

  test('reads the users again when their file changes', async () => {
    appendFileSync(at(USERS), `alice:${await hash('alice', 4)}\n`);
    await until(() => running.log.some(({ msg, count }) => msg === 'users-loaded' && count === 2));
    expect((await askXmla(base, QUERY, { user: 'alice' })).status).toBe(200);
  });

  test('reads its configuration again at a reload', async () => {
    const metrics = () => send(base, { path: '/metrics' });
    expect((await metrics()).status).toBe(401);
    const config = readFileSync(at(CONFIG), 'utf8');
    writeFileSync(at(CONFIG), config.replace('listen:\n', 'listen:\n  open: [metrics]\n'));
    const [command = '', ...args] = valueOf('ExecReload')
      .replace('$MAINPID', `${pid()}`)
      .split(' ');
    run(command, ...args);
    await until(() => running.log.some(({ msg }) => msg === 'configuration reloaded'));
    expect((await metrics()).status).toBe(200);
  });

  test('ends with 0 at a stop, asked for nothing that is forbidden, and wrote in its own folder alone', async () => {
    // systemd sends SIGTERM to the main process alone, and waits longer than the gateway takes.
    expect(valueOf('KillMode')).toBe('mixed');
    expect(Number(valueOf('TimeoutStopSec'))).toBeGreaterThan(30);
    process.kill(pid(), 'SIGTERM');
    expect(await running.ended).toMatchObject({ exit: 0, stderr: '' });
    expect(filesIn('/var/lib')).toEqual([
      ['mdx-gateway', '700'],
      ['mdx-gateway/gateway.sqlite', '600'],
    ]);
    const names = (path: string) => readdirSync(at(path)).toSorted();
    expect(names('/etc/mdx-gateway')).toEqual(['gateway.yaml', 'secrets', 'users.htpasswd']);
    expect(names('/opt/mdx-gateway')).toEqual(['bin', 'dist', 'node_modules', 'package.json']);
  });
});
