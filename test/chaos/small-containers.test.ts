import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { buildGateway } from '../../bench/built-gateway.ts';
import { type ControlGroup, createControlGroup } from '../support/control-group.ts';
import type { Crowd, CrowdReport } from '../support/crowd/clients.ts';
import {
  configFolder,
  listening,
  PROGRAM_ENVIRONMENT,
  runCommand,
  type ConfigFolder,
  type GatewayProcess,
} from '../support/gateway-process.ts';
import { portOf, send } from '../support/http-client.ts';
import { sizes } from '../support/sizes.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const MIB = 1024 * 1024;
const USERS = Array.from({ length: 64 }, (_, number) => `reader${number}`);
/** What of the resident memory are files, which the system can drop (MiB). */
const FILES = 64;

let built: string;
let program: string;
let folder: ConfigFolder;
let group: ControlGroup | undefined;
let gateway: GatewayProcess | undefined;
let children: ChildProcess[];

beforeAll(async () => {
  // From the sources Node.js would need the memory of a compiler.
  built = mkdtempSync(join(tmpdir(), 'mdx-gateway-built-'));
  await buildGateway(ROOT, built);
  cpSync(join(ROOT, 'bin'), join(built, 'bin'), { recursive: true });
  program = join(built, 'bin/mdx-gateway');
});
afterAll(() => rmSync(built, { recursive: true }));
beforeEach(async () => {
  [group, gateway, children] = [undefined, undefined, []];
  folder = await configFolder();
  await folder.writeUsers(USERS);
});
afterEach(async () => {
  for (const child of children) child.kill('SIGKILL');
  gateway?.kill('SIGTERM');
  await gateway?.ended;
  group?.remove();
  folder.remove();
});

/** Starts the gateway where there are so many bytes, or where it is made to believe so. */
function startIn(limit: number, settings: object): GatewayProcess {
  group = createControlGroup(limit);
  const file = folder.write({
    auth: { admins: USERS },
    listen: { open: ['metrics'] },
    ...settings,
  });
  const command = [program, 'serve', '--config', file];
  // By this Node.js would choose the sizes of its heap, too.
  const heap = `--max-old-space-size=${limit / MIB} --max-semi-space-size=8`;
  const believed = `data:text/javascript,process.constrainedMemory=()=>${limit}`;
  return (gateway = runCommand(group === undefined ? command : [...group.command, ...command], {
    env: group === undefined ? { NODE_OPTIONS: `--import=${believed} ${heap}` } : {},
  }));
}

/** Runs a program of the folder test/support/crowd. */
function run(name: string, argument = '') {
  const path = fileURLToPath(new URL(`../support/crowd/${name}.ts`, import.meta.url));
  const child = spawn(process.execPath, [path, argument], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: PROGRAM_ENVIRONMENT,
  });
  children.push(child);
  return child;
}

async function startEngine(): Promise<string> {
  const [port] = (await once(run('large-engine').stdout, 'data')) as [Buffer];
  return `http://127.0.0.1:${port.toString().trim()}/xmla`;
}

test.each([
  [256, {}],
  [512, {}],
  [512, { workers: 2 }],
])(
  'in a container of %d MiB a crowd and many misses are answered with the defaults: %j',
  async (limit, settings) => {
    const started = startIn(limit * MIB, { engine: { url: await startEngine() }, ...settings });
    const base = await listening(started);
    expect(started.log.map(({ msg }) => msg)).toContainEqual(
      expect.stringContaining(`fitted to the memory limit of ${limit}MiB: cache.memory `),
    );
    const visit = async (crowd: Pick<Crowd, 'clients' | 'least' | 'slow'> & Partial<Crowd>) => {
      const given = { port: portOf(base), users: USERS, statement: 'cacheable', same: false };
      const clients = run('clients', JSON.stringify({ ...given, ...crowd }));
      const { failures, answered } = JSON.parse(await text(clients.stdout)) as CrowdReport;
      expect({ failures, answered }).toEqual({ failures: [], answered: crowd.clients });
    };
    const large = { clients: 64, least: 4_000_000, slow: 32 };
    await visit(large);
    await visit({ clients: sizes.containerMisses, atOnce: 32, least: 1, slow: 0 });
    await visit(large);
    expect((await send(base, { path: '/health/live' })).status).toBe(200);
    const most = group?.most() ?? residentMost(started.pid) - FILES;
    process.stdout.write(
      `${limit} MiB ${JSON.stringify(settings)}: ${most.toFixed(0)} MiB taken\n`,
    );
    expect(group?.kills() ?? 0).toBe(0);
    expect(most).toBeLessThanOrEqual(limit);
  },
  600_000,
);

/** MiB. */
const residentMost = (pid = 0): number =>
  Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

test('where there is too little memory one sentence says so, and what is needed', async () => {
  const { exit, stdout, stderr } = await startIn(160 * MIB, {}).ended;
  expect({ exit, stdout }).toEqual({ exit: 1, stdout: '' });
  expect(stderr).toBe(
    `${join(folder.path, 'gateway.yaml')}: the memory limit of 160MiB is too little: the gateway needs 192MiB\n`,
  );
});
