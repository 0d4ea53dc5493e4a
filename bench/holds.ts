/**
 * Work that must not hold the event loop for longer than the cache or the configuration is large, and the CPU time of the
 * longest turn that it took (ms): the least of several tries, since other programs and garbage collection only add to it.
 */

import { Agent } from 'node:http';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parse } from 'yaml';
import { ANALYST, basic } from './credentials.ts';
import { startGateway, type MeasuredGateway } from './gateway.ts';
import type { Engine, House } from './house.ts';
import { ask } from './http.ts';
import { template, XMLA_HEADERS } from './questions.ts';

export interface Hold {
  readonly what: string;
  readonly cpuMs: number;
}

const TRIES = 5;
/** In which what was asked for comes to its end (ms). */
const SETTLES = 100;
/** Requests, and the queries among them, that fill the statistics. */
const [REQUESTS, QUERIES] = [10_000, 3_000];
const PROJECTS = 2_000;
const HITS = 64;
const LONG_BYTES = 4_000_000;
const LONG = template({ size: LONG_BYTES, name: 'long' });
const SHORT = template({ size: 200, name: 'short' });
/** Pages with what they may be asked for beside what they tell by themselves. */
const QUERIES_OF: Readonly<Record<string, readonly string[]>> = {
  '/admin/entries': ['sort=bytes&limit=1000&offset=10000', 'sort=age', 'sort=rest'],
  '/admin/requests': ['limit=1000&offset=9000', 'project=x', 'slower=1000'],
  '/admin/statistics': ['limit=1000&sort=last', 'project=FoodMart'],
};
/** Console pages, which the document of the interface does not name. */
const CONSOLE = ['why', 'queries', 'purges', 'warm', 'system'].map((name) => `/console/${name}`);

/** Reads which pages there are, so that a new one is measured too. */
function pages(): readonly string[] {
  const file = join(import.meta.dirname, '../docs/openapi.yaml');
  const { paths } = parse(readFileSync(file, 'utf8')) as {
    paths: Readonly<Record<string, object>>;
  };
  const found = Object.entries(paths).flatMap(([path, item]) =>
    'get' in item && /^\/(?:admin|console|health|metrics)/.test(path) && !path.includes('{')
      ? path
      : [],
  );
  const asked = found.flatMap((path) =>
    (QUERIES_OF[path] ?? []).map((query) => `${path}?${query}`),
  );
  return [...found, ...asked, ...CONSOLE];
}

/** @param wanted part of the names of what is measured */
export async function* measureHolds(
  house: House,
  engine: Engine,
  wanted: string,
): AsyncGenerator<Hold> {
  const settings = {
    auth: { users: './users.htpasswd', admins: [ANALYST] },
    cache: { memory: '1GB' },
    engine: { url: `http://127.0.0.1:${engine.port}/xmla`, kind: 'mondrian' },
  };
  const name = 'filled gateway';
  const gateway = await startGateway(house, engine.port, { name, probe: true, settings });
  const agent = new Agent({ keepAlive: true, maxSockets: HITS });
  house.defer(() => agent.destroy());
  const { port, path } = gateway;
  const headers = { ...XMLA_HEADERS, ...basic(ANALYST) };
  const query = (body: string) => ask(port, { path, headers, body, agent });
  const get = (target: string) => ask(port, { method: 'GET', path: target, headers, agent });

  await Promise.all(
    Array.from({ length: HITS / 2 }, async (_, first) => {
      for (let at = first; at < REQUESTS; at += HITS / 2) {
        await query(template({ size: 200, name: `Q${at % QUERIES}` }));
      }
    }),
  );
  await query(SHORT);
  await gateway.asked('fill');
  for (const target of pages()) {
    if (!target.includes(wanted)) continue;
    yield { what: `GET ${target}`, cpuMs: await leastOf(gateway, () => get(target)) };
  }
  const explain = () => ask(port, { path: '/admin/explain', headers, body: SHORT, agent });
  const rest: Readonly<Record<string, () => Promise<number>>> = {
    'POST /admin/explain': () => leastOf(gateway, explain),
    'purge of everything': () =>
      leastOf(
        gateway,
        () => ask(port, { path: `${path}/clearCache`, headers, agent }),
        async () => {
          await query(SHORT);
          await gateway.asked('fill');
        },
      ),
    [`${HITS} hits of 4 MB at once`]: () => holdOfHits(gateway, query),
    [`reload with ${PROJECTS} projects`]: () => holdOfReload(house, gateway, name, settings),
  };
  for (const [what, measure] of Object.entries(rest)) {
    if (what.includes(wanted)) yield { what, cpuMs: await measure() };
  }
}

async function leastOf(
  gateway: MeasuredGateway,
  work: () => Promise<unknown>,
  prepare?: () => Promise<unknown>,
): Promise<number> {
  let least = Infinity;
  for (let tries = 0; tries < TRIES; tries += 1) {
    await prepare?.();
    await gateway.asked('turn');
    await work();
    await delay(SETTLES);
    least = Math.min(least, (await gateway.asked('turn')).most);
  }
  return least;
}

/** Lets all of them arrive while the gateway is stopped. */
async function holdOfHits(
  gateway: MeasuredGateway,
  query: (body: string) => Promise<unknown>,
): Promise<number> {
  for (let times = 0; times < 3; times += 1) await query(LONG);
  // So many connections are open from now on.
  await Promise.all(Array.from({ length: HITS }, () => query(SHORT)));
  const { pid } = gateway.running;
  return leastOf(gateway, async () => {
    process.kill(pid, 'SIGSTOP');
    const hits = Array.from({ length: HITS }, () => query(LONG));
    await delay(SETTLES);
    process.kill(pid, 'SIGCONT');
    await Promise.all(hits);
  });
}

async function holdOfReload(
  house: House,
  { running, asked }: MeasuredGateway,
  name: string,
  settings: object,
): Promise<number> {
  const folder = house.folder(name.replaceAll(' ', '-'));
  const file = join(folder, 'gateway.yaml');
  const written = parse(readFileSync(file, 'utf8')) as object;
  const reloads = () =>
    readFileSync(join(folder, 'gateway.log'), 'utf8').split('configuration reloaded').length;
  let least = Infinity;
  for (let tries = 0; tries < TRIES; tries += 1) {
    const projects = Array.from({ length: PROJECTS }, (_, at) => {
      const own = { ttl: `${tries + 1}h`, engine: { timeout: `${at + 1 + tries}s` } };
      return [`Project ${at}`, own] as const;
    });
    writeFileSync(
      file,
      JSON.stringify({ ...written, ...settings, projects: Object.fromEntries(projects) }),
    );
    await asked('turn');
    const before = reloads();
    process.kill(running.pid, 'SIGHUP');
    while (reloads() === before) await delay(SETTLES);
    await delay(SETTLES);
    least = Math.min(least, (await asked('turn')).most);
  }
  return least;
}
