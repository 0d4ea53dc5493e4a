import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { buildGateway } from '../../bench/built-gateway.ts';
import { runImage, type RunningImage } from '../../scripts/image/run-image.ts';
import { until } from '../integration/cache/redis-house.ts';
import { ensureDebianPackages } from '../support/debian-packages.ts';
import {
  copyDeploy,
  readCompose,
  type ComposeFile,
  type ComposeService,
} from '../support/deploy-files.ts';
import { postgresProgram } from '../support/postgres-server.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const NODE = '/app/node_modules/node/bin';

/** What the image of PostgreSQL does before the server starts, as far as the variables of the file ask for it. */
const POSTGRES = `set -eu
initdb -D "$PGDATA" -U "$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" --auth-local=trust \
  --auth-host=scram-sha-256 --encoding=UTF8 --locale=C --no-sync
echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -D "$PGDATA" postgres
exec postgres`;

/** What stands in for each image: a program of Debian or the built gateway, with user and entrypoint of the image. */
const IMAGES: Readonly<Record<string, { user: string; path?: string; entrypoint: string[] }>> = {
  'mdx-gateway': { user: '10001:10001', path: NODE, entrypoint: ['/app/bin/mdx-gateway'] },
  redis: { user: '999:999', entrypoint: [] },
  postgres: {
    user: '999:999',
    path: join(postgresProgram('initdb'), '..'),
    entrypoint: ['sh', '-c', POSTGRES],
  },
  'prom/prometheus': { user: '65534:65534', entrypoint: ['prometheus'] },
};
/** There is no such program without its image. */
const NOT_RUN = new Set(['grafana']);

let folder: string;
let deploy: string;
let compose: ComposeFile;
let network: ChildProcess;
const running: RunningImage[] = [];

beforeAll(async () => {
  await ensureDebianPackages([
    { name: 'docker-compose', probe: 'docker-compose' },
    { name: 'redis-server', probe: 'redis-server' },
    { name: 'postgresql', probe: postgresProgram('initdb') },
    { name: 'prometheus', probe: 'prometheus' },
    { name: 'iproute2', probe: 'ip' },
    { name: 'openssl', probe: 'openssl' },
    { name: 'wget', probe: 'wget' },
    { name: 'curl', probe: 'curl' },
  ]);
  folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-compose-'));
  chmodSync(folder, 0o755);
  deploy = join(folder, 'deploy');
  copyDeploy(deploy);
  // Its first look at the gateway comes within the interval.
  const prometheus = join(deploy, 'prometheus/prometheus.yml');
  const text = readFileSync(prometheus, 'utf8');
  writeFileSync(prometheus, text.replace('scrape_interval: 15s', 'scrape_interval: 1s'));
  await buildGateway(ROOT, join(folder, 'app'));
  network = startNetwork();
  await once(network.stdout ?? network, 'data');
});
afterAll(async () => {
  await Promise.all(running.map(stop));
  if (network !== undefined) {
    network.stdin?.end();
    await once(network, 'close');
  }
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
});

/** A network with nothing but a loopback of its own: the ports of the file are free there. */
const startNetwork = () =>
  spawn('unshare', ['--net', 'sh', '-c', 'ip link set lo up && echo up && exec cat'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });

async function stop(one: RunningImage) {
  try {
    one.kill('SIGKILL');
  } catch {
    // It has ended.
  }
  await one.exit;
}

/** Runs the commands at the head of the file, which make the secrets and name the engine of the demo. */
function makeSecrets(): void {
  const docker = join(folder, 'docker');
  const main = join(folder, 'app/dist/main.js');
  writeFileSync(
    docker,
    `#!/bin/sh\n[ "$1 $2 $3 $4" = 'run -i --rm mdx-gateway' ] || exit 99\nshift 4\nexec ${process.execPath} ${main} "$@"\n`,
    { mode: 0o755 },
  );
  const head = readFileSync(join(deploy, 'compose.yaml'), 'utf8').split('\n\n', 1)[0] ?? '';
  const lines = head.match(/(?<=^# {3})(?:mkdir|for|docker run|chmod|echo) .*/gm) ?? [];
  expect(lines).toHaveLength(6);
  const env = { PATH: `${folder}:${process.env['PATH']}` };
  execFileSync('sh', ['-euc', lines.join('\n')], { cwd: deploy, env });
}

function serviceOf(name: string): ComposeService {
  const service = compose.services[name];
  if (service === undefined) throw new Error(`There is no service ${name}`);
  return service;
}

/** Runs a service of the file, or another command in its place. */
async function start(name: string, command?: readonly string[]): Promise<RunningImage> {
  const service = serviceOf(name);
  const image = IMAGES[service.image.split(':')[0] ?? ''];
  if (image === undefined) throw new Error(`Nothing stands in for ${service.image}`);
  const root = mkdtempSync(join(folder, 'root-'));
  chmodSync(root, 0o755);
  for (const part of ['bin', 'sbin', 'lib', 'lib64']) symlinkSync(`usr/${part}`, join(root, part));
  mkdirSync(join(root, 'etc'));
  const users = 'root:x:0:0::/:/bin/sh\nservice:x:999:999::/:/bin/sh\n';
  writeFileSync(join(root, 'etc/passwd'), users);
  const names = Object.keys(compose.services).join(' ');
  writeFileSync(join(root, 'etc/hosts'), `127.0.0.1 localhost ${names}\n`);

  const mounts = (service.volumes ?? []).map((volume) => volume.split(':'));
  const secrets = (service.secrets ?? []).map(({ source }) => [
    compose.secrets[source]?.file ?? '',
    `/run/secrets/${source}`,
  ]);
  const program = [
    ['/usr', '/usr'],
    [join(ROOT, 'bin'), '/app/bin'],
    [join(folder, 'app/dist'), '/app/dist'],
    [join(ROOT, 'node_modules'), '/app/node_modules'],
    [join(ROOT, 'package.json'), '/app/package.json'],
  ];
  const shown = [...program, ...mounts.filter(([source = '']) => isAbsolute(source)), ...secrets];
  const volumes = mounts.flatMap(([source = '', place = '']) =>
    isAbsolute(source) ? [] : [place],
  );
  const one = await runImage({
    config: {
      User: service.user ?? image.user,
      Env: [`PATH=${image.path ?? '/usr/bin'}:/usr/bin`],
      WorkingDir: '/',
      Entrypoint: command === undefined ? [...image.entrypoint] : [],
      Cmd: [...(command ?? service.command ?? [])],
      StopSignal: 'SIGTERM',
      Volumes: Object.fromEntries(
        [...volumes, ...(service.tmpfs ?? []), '/dev/shm'].map((place) => [place, {}]),
      ),
      Healthcheck: { Test: [] },
      Labels: {},
    },
    root,
    env: service.environment ?? {},
    files: new Map(shown.map(([source = '', place = '']) => [source, place])),
    network: network.pid,
  });
  running.push(one);
  // Until then a command would run out here.
  while (rootOf(one) !== root) await delay(5);
  return one;
}

/** @throws with what it printed when it has ended */
function rootOf(one: RunningImage): string {
  try {
    return readlinkSync(`/proc/${one.pid}/root`);
  } catch (cause) {
    throw new Error(one.output(), { cause });
  }
}

async function isHealthy(one: RunningImage, { healthcheck }: ComposeService): Promise<boolean> {
  const [kind, ...words] = healthcheck.test;
  const command = kind === 'CMD-SHELL' ? ['/bin/sh', '-c', ...words] : words;
  return (await one.execute(command)).code === 0;
}

/** Starts services as docker compose does: each when those that it depends on are healthy. */
async function startAll(names: readonly string[]): Promise<Record<string, RunningImage>> {
  const started: Record<string, Promise<RunningImage>> = {};
  const begin = (name: string) => (started[name] ??= startHealthy(name));
  async function startHealthy(name: string) {
    const service = serviceOf(name);
    const first = Object.entries(service.depends_on ?? {});
    for (const [, { condition }] of first) expect(condition).toBe('service_healthy');
    await Promise.all(first.map(([other]) => begin(other)));
    const one = await start(name);
    let ended = false;
    void one.exit.then(() => (ended = true));
    while (!(await isHealthy(one, service))) {
      if (ended) throw new Error(`${name} ended:\n${one.output()}`);
      await delay(50);
    }
    return one;
  }
  const all = names.map(async (name) => [name, await begin(name)] as const);
  return Object.fromEntries(await Promise.all(all));
}

test('its secrets are made by the commands at its head, and docker-compose takes the file', () => {
  makeSecrets();
  compose = readCompose(deploy);
  expect(Object.keys(compose.services).toSorted()).toEqual([
    ...['engine', 'gateway', 'grafana', 'postgres', 'prometheus', 'redis'],
  ]);
  for (const [name, { file }] of Object.entries(compose.secrets)) {
    expect([name, readFileSync(file, 'utf8').trim()]).not.toEqual([name, '']);
  }
});

test('what it mounts exists', () => {
  const mounts = Object.values(compose.services).flatMap(({ volumes = [] }) => volumes);
  const sources = mounts.map((volume) => volume.split(':')[0] ?? '').filter(isAbsolute);
  expect(sources).toHaveLength(4);
  expect(sources.filter((source) => !existsSync(source))).toEqual([]);
});

test('every service is hardened, bounded and watched', () => {
  for (const [name, service] of Object.entries(compose.services)) {
    expect([name, service]).toEqual([
      name,
      expect.objectContaining({
        read_only: true,
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
        restart: 'unless-stopped',
        mem_limit: expect.stringMatching(/^\d+[mg]$/),
        healthcheck: expect.objectContaining({ test: expect.any(Array) }),
      }),
    ]);
    for (const port of service.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:(\d+):\1(\/tcp)?$/);
  }
  const { redis, postgres } = compose.services;
  for (const one of [redis, postgres]) {
    expect([Object.keys(one?.networks ?? {}), one?.ports]).toEqual([['inside'], undefined]);
  }
});

test('each health check says so where its service does not run', async () => {
  const names = Object.keys(compose.services).filter((name) => !NOT_RUN.has(name));
  const said = names.map(async (name) => {
    const one = await start(name, ['/usr/bin/sleep', '60']);
    return [name, await isHealthy(one, serviceOf(name))];
  });
  expect(await Promise.all(said)).toEqual(names.map((name) => [name, false]));
});

test('its services run as it says, become healthy, and answer a miss and then hits', async () => {
  const names = Object.keys(compose.services).filter((name) => !NOT_RUN.has(name));
  const { gateway, engine, redis, prometheus } = (await startAll(names)) as Record<
    string,
    RunningImage
  >;
  if (!gateway || !engine || !redis || !prometheus) throw new Error('One is missing');
  const password = readFileSync(join(deploy, 'secrets/admin_password'), 'utf8').trim();
  const login = `ADMIN:${password}`;
  const [curl = ''] = /^curl [^]*\/mdx\/xmla'$/m.exec(engine.output()) ?? [];
  const ask = async () => {
    const { output } = await gateway.execute(['sh', '-c', curl.replace('-u ADMIN', `-u ${login}`)]);
    return /^cache-status: (.*)$/im.exec(output)?.[1];
  };
  expect(await ask()).toMatch(/^mdx-gateway; fwd=miss/);
  let again = await ask();
  // Not stored yet: never for long.
  while (!again?.includes('hit')) again = await ask();
  expect(again).toMatch(/^mdx-gateway; hit/);

  const page = (path: string) =>
    gateway.execute(['curl', '-s', '-f', '-u', login, `http://127.0.0.1:7080${path}`]);
  expect(JSON.parse((await page('/health/ready')).output)).toMatchObject({ status: 'ready' });
  // Roles are in PostgreSQL.
  const roles = await page('/api/roles?pageNum=0&pageSize=10&containsDesc=false');
  expect(JSON.parse(roles.output)).toMatchObject({ data: { list: [{ name: 'Admin' }] } });
  const redisAs = `REDISCLI_AUTH=$(cat /run/secrets/redis_password) redis-cli`;
  const countEntries = `${redisAs} --scan --pattern 'mdx:entry:*' | wc -l`;
  // Written after its client has the answer.
  await until(
    () => redis.execute(['sh', '-c', countEntries]),
    ({ output }) => Number(output) > 0,
  );
  const settings = await redis.execute(['sh', '-c', `${redisAs} config get 'maxmemory*'`]);
  expect(settings.output.split('\n')).toEqual(
    expect.arrayContaining([String(512 * 1024 ** 2), 'volatile-lru']),
  );
  const refused = await redis.execute(['redis-cli', 'ping']);
  expect(refused.output).toContain('NOAUTH');

  // Prometheus reads the metrics with the login of its own.
  const query = 'http://127.0.0.1:9090/api/v1/query?query=up';
  let up = '';
  while (!up.includes('"1"]')) {
    await delay(100);
    up = (await prometheus.execute(['wget', '-q', '-O', '-', query])).output;
  }

  gateway.kill('SIGTERM');
  expect(await gateway.exit).toEqual({ code: 0, signal: null });
});
