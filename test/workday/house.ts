import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { buildGateway } from '../../bench/built-gateway.ts';
import { cpuOf } from '../../bench/processes.ts';
import { freePort } from '../support/free-port.ts';
import { listening, runCommand, type GatewayProcess } from '../support/gateway-process.ts';
import { startProxy } from '../support/proxies.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { ADMIN, authorizationOf, KINDS, type Person } from './plan.ts';
import { startRemote, type Remote } from './remote.ts';

const ROOT = join(import.meta.dirname, '../..');

export interface HouseOptions {
  /** The program of the gateways. */
  readonly program: string;
  /** Beside what every house has; sections are merged. */
  readonly settings?: Readonly<Record<string, object>>;
  readonly people: readonly Person[];
  /** The bcrypt hash of each password. */
  readonly hashes: ReadonlyMap<string, string>;
  readonly seed: number;
}

export interface Gateway {
  /** Ends the process by a signal. */
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  start(): Promise<void>;
}

/** Two gateways with Redis behind the shipped nginx, an engine, and a process for the people. */
export interface House {
  readonly gateways: readonly [Gateway, Gateway];
  readonly redis: RedisServer;
  readonly engine: Remote;
  readonly enginePort: number;
  readonly people: Remote;
  readonly url: string;
  readonly ca: string;
  readonly forwardsLogin: boolean;
  readonly isShared: boolean;
  /** What nginx and the gateways have complained of, with how often. */
  complaints(): readonly string[];
  /** CPU time of all gateways so far (ms). */
  cpu(): number;
  close(): Promise<void>;
}

/** Builds the gateway as it is shipped, and returns what an operator starts. */
export async function buildProgram(folder: string): Promise<string> {
  await buildGateway(ROOT, folder);
  cpSync(join(ROOT, 'bin'), join(folder, 'bin'), { recursive: true });
  return join(folder, 'bin/mdx-gateway');
}

/** As docs/REDIS.md has it. */
const EVICTS = ['--maxmemory-policy', 'volatile-lru'] as const;

export async function openHouse(options: HouseOptions): Promise<House> {
  const stack = new AsyncDisposableStack();
  try {
    return await furnish(options, stack);
  } catch (error) {
    await stack.disposeAsync();
    throw error;
  }
}

async function furnish(
  { program, settings = {}, people, hashes, seed }: HouseOptions,
  stack: AsyncDisposableStack,
): Promise<House> {
  const folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-workday-'));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  const remote = (file: string) => {
    const started = startRemote(file, { FRAMING_SEED: String(seed) });
    stack.defer(started.stop);
    return started;
  };
  const [engine, asking] = [remote('./engine-main.ts'), remote('./people-main.ts')];
  const redis = await startRedis({ args: ['--maxmemory', '512mb', ...EVICTS] });
  stack.defer(redis.close);
  const enginePort = await engine.call<number>('port');
  const users = people.map(({ name, password }) => `${name}:${hashes.get(password)}\n`);
  writeFileSync(join(folder, 'users.htpasswd'), users.join(''));
  const url = `http://127.0.0.1:${enginePort}`;
  const configuration = (port: number, data: string) =>
    merged(usual({ url, redis: redis.url, port, data }), settings);
  const gateway = (name: string, port: number) => {
    mkdirSync(join(folder, name));
    const file = join(folder, name, 'gateway.yaml');
    writeFileSync(file, stringify(configuration(port, join(folder, name, 'gateway.sqlite'))));
    const made = createGateway([program, 'serve', '--config', file]);
    stack.defer(() => made.end('SIGKILL'));
    return made;
  };
  const ports = [await freePort(), await freePort()] as const;
  const gateways = [gateway('first', ports[0]), gateway('second', ports[1])] as const;
  await Promise.all(gateways.map(({ start }) => start()));
  const proxy = await startProxy('nginx', ports);
  stack.defer(proxy.stop);
  await asking.call('ready');
  const { engine: own, cache, auth } = configuration(0, '') as unknown as Configuration;
  if (auth.provider === 'engine') await engine.call('logins', people.map(authorizationOf));
  return {
    gateways,
    redis,
    engine,
    enginePort,
    people: asking,
    url: proxy.url,
    ca: proxy.ca,
    forwardsLogin: own.login === 'forward',
    isShared: cache.share === 'everyone',
    complaints: () =>
      counted([
        ...gateways.flatMap(({ warnings }) => warnings()).map((text) => `gateway: ${text}`),
        ...proxy
          .told()
          .matchAll(COMPLAINT)
          .map(([, text]) => `nginx: ${text}`),
      ]),
    cpu: () => gateways.reduce((sum, { cpu }) => sum + cpu(), 0),
    close: () => stack.disposeAsync(),
  };
}

/** A line of its log, without what is different each time. */
const COMPLAINT = /\d#\d+: (?:\*\d+ )?([^,]+),/g;

function counted(texts: readonly string[]): readonly string[] {
  const groups = Map.groupBy(texts, (text) => text);
  return [...groups].map(([text, { length }]) => `${length} × ${text}`);
}

interface Configuration {
  readonly auth: { readonly provider?: string };
  readonly engine: { readonly login: string };
  readonly cache: { readonly share?: string };
}

/** What is configured as an operator does it: a project for each kind of engine, and defaults. */
function usual({
  url,
  redis,
  port,
  data,
}: Record<'url' | 'redis' | 'data', string> & { port: number }) {
  return {
    listen: { port, trusted_proxies: ['127.0.0.1'] },
    auth: { users: '../users.htpasswd', admins: [ADMIN] },
    engine: { url: `${url}/generic/xmla`, login: 'forward' },
    projects: Object.fromEntries(
      KINDS.map((kind) => [kind, { engine: { url: `${url}/${kind}/xmla`, kind } }]),
    ),
    cache: { redis: { url: redis } },
    storage: { path: data },
  };
}

function merged(
  base: Readonly<Record<string, object>>,
  more: Readonly<Record<string, object>>,
): Record<string, object> {
  const names = new Set([...Object.keys(base), ...Object.keys(more)]);
  return Object.fromEntries([...names].map((name) => [name, { ...base[name], ...more[name] }]));
}

const WARNINGS: ReadonlySet<unknown> = new Set(['warn', 'error', 'fatal']);

function createGateway(command: readonly string[]) {
  let running: GatewayProcess | undefined;
  /** Of the processes that have ended. */
  let before = 0;
  const started: GatewayProcess[] = [];
  const now = () => (running?.pid === undefined ? 0 : cpuOf(running.pid) / 1_000);
  return {
    async start() {
      running = runCommand(['setpriv', '--pdeathsig', 'KILL', ...command], {});
      started.push(running);
      await listening(running);
    },
    async end(signal: 'SIGTERM' | 'SIGKILL') {
      before += now();
      const ending = running;
      running = undefined;
      ending?.kill(signal);
      await ending?.ended;
    },
    cpu: () => before + now(),
    /** Events that are told as a warning, but for requests that took long. */
    warnings: () =>
      started
        .flatMap(({ log }) => log)
        .filter(({ level, msg }) => WARNINGS.has(level) && /^(?!xmla-)[a-z-]+$/.test(String(msg)))
        .map(({ msg, state }) => [msg, state].filter(Boolean).join(' ')),
  };
}
