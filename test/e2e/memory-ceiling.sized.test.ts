import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import {
  configFolder,
  listening,
  runMain,
  type ConfigFolder,
  type GatewayProcess,
} from '../support/gateway-process.ts';
import type { Crowd, CrowdReport } from '../support/crowd/clients.ts';
import { portOf, send } from '../support/http-client.ts';
import { sampled, sizes } from '../support/sizes.ts';

const USERS = Array.from({ length: 8 }, (_, number) => `reader${number}`);
const MIB = 1024 * 1024;

let folder: ConfigFolder;
let children: ChildProcess[] = [];
let gateway: GatewayProcess | undefined;

beforeEach(async () => {
  folder = await configFolder();
  await folder.writeUsers(USERS);
});
afterEach(async () => {
  gateway?.kill('SIGKILL');
  for (const child of children) child.kill('SIGKILL');
  await gateway?.ended;
  children = [];
  folder.remove();
});

/** Runs a program of the folder test/support/crowd. */
function run(name: string, argument: string) {
  const path = fileURLToPath(new URL(`../support/crowd/${name}.ts`, import.meta.url));
  const child = spawn(process.execPath, [path, argument], { stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  return child;
}

async function startEngine(): Promise<string> {
  const { stdout } = run('large-engine', '');
  const [port] = (await once(stdout, 'data')) as [Buffer];
  return `http://127.0.0.1:${port.toString().trim()}/xmla`;
}

/** A figure of /proc/PID/status, in MiB. */
function resident(pid: number, name: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024;
}

interface Weather {
  readonly statement?: Crowd['statement'];
  readonly max_entry?: string;
  readonly same?: boolean;
  /** Whether there is no room for all answers. */
  readonly full?: boolean;
  /** Whether some take nothing until the others are done. */
  readonly slow?: boolean;
}

/** Lets a crowd in, and says what became of it, and how much memory the gateway took at most (MiB). */
async function visitedBy({
  statement = 'cacheable',
  max_entry = '8MiB',
  same = false,
  slow = false,
}: Weather) {
  const url = await startEngine();
  const file = folder.write({
    engine: { url },
    auth: { admins: USERS },
    listen: { open: ['metrics'] },
    cache: { max_entry, memory: `${sizes.crowdMemory}MiB`, share: 'everyone' },
    limits: { in_flight: `${sizes.crowdInFlight}MiB` },
  });
  gateway = runMain(['serve', '--config', file], {
    env: { NODE_OPTIONS: '--max-old-space-size=512' },
  });
  const base = await listening(gateway);
  const port = portOf(base);
  const { pid = 0 } = gateway;
  let most = 0;
  const sampler = setInterval(() => (most = Math.max(most, resident(pid, 'VmRSS'))), 100);
  const crowd: Crowd = {
    port,
    users: USERS,
    clients: sizes.crowd,
    least: sizes.crowdAnswer,
    statement,
    same,
    slow: slow ? sizes.crowdSlow : 0,
  };
  const report = JSON.parse(
    await text(run('clients', JSON.stringify(crowd)).stdout),
  ) as CrowdReport;
  clearInterval(sampler);
  const metrics = await send(base, { path: '/metrics' });
  const noRoom = /not_stored_total\{reason="no-room"\} (\d+)/.exec(metrics.text)?.[1] ?? '0';
  return { report, most, peak: resident(pid, 'VmHWM'), noRoom: Number(noRoom) };
}

/** Room for one answer and its copy, where the limits leave that. */
const LARGE = `${Math.ceil((sizes.crowdAnswer * 1.2) / MIB)}MiB`;

const CROWDS: readonly [what: string, weather: Weather][] = [
  ['answers that are too long to be kept', {}],
  ['answers for which there is not room enough', { max_entry: LARGE, slow: true, full: true }],
  ['one answer that all are given', { same: true, max_entry: LARGE, slow: true }],
  ['one answer that is too long to be kept', { same: true }],
  ['answers that are passed through', { statement: 'passed', slow: true }],
  ['answers that are watched', { statement: 'watched', slow: true }],
];

test.each(sampled(CROWDS))(
  'a crowd that asks for %s is answered, and memory stays below the ceiling',
  async (what, weather) => {
    const { report, most, peak, noRoom } = await visitedBy(weather);
    process.stdout.write(
      `${sizes.crowd} × ${sizes.crowdAnswer / 1e6} MB, ${what}: ${most.toFixed(0)} MiB sampled, ${peak.toFixed(0)} MiB at most, ${noRoom} without room\n${JSON.stringify(report.statuses)}\n`,
    );
    expect(report.failures).toEqual([]);
    expect(report.answered).toBe(sizes.crowd);
    if (weather.full === true) expect(noRoom).toBeGreaterThan(0);
    expect(peak).toBeLessThanOrEqual(sizes.crowdCeiling);
  },
  600_000,
);
