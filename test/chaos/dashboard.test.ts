import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { stringify } from 'yaml';
import { makeAuthority, type Authority } from '../support/certificates.ts';
import { filledIn, marks, queries, readDeployed, type Query } from '../support/dashboard.ts';
import { execute } from '../support/envelopes.ts';
import { type GatewayProcess, runMain } from '../support/gateway-process.ts';
import { callHook, callKylinHook } from '../support/hooks.ts';
import { ensurePrometheus, startPrometheus } from '../support/prometheus.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { sizes } from '../support/sizes.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { startWatchedEngine, type WatchedEngine } from '../support/watched-engine.ts';

interface Demo {
  readonly url: string;
  readonly password: string;
}

let running: GatewayProcess;
let demo: Demo;
let authority: Authority;
let engine: WatchedEngine;
let redis: RedisServer;
/** A gateway with what the demo has not: Redis, a watcher, a hook. */
let other: TestGateway;
/** One with a certificate of its own. */
let secured: TestGateway;
let prometheus: Awaited<ReturnType<typeof startPrometheus>>;

/** Resolves when the demo has shown everything, and goes on by itself. */
async function startDemo(): Promise<Demo> {
  const said: string[] = [];
  const told = Promise.withResolvers<Demo>();
  running = runMain(['demo'], {
    onLine(line) {
      said.push(line);
      const text = said.join('\n');
      const [, password] = /log in as demo with the password (\S+):/.exec(text) ?? [];
      const [, url] = /^(http:\S+)\/console$/m.exec(text) ?? [];
      if (password !== undefined && url !== undefined) told.resolve({ url, password });
    },
  });
  const ended = running.ended.then((end) => {
    throw new Error(`The demo ended: ${JSON.stringify(end)}`);
  });
  ended.catch(() => {});
  return Promise.race([told.promise, ended]);
}

/** What a busy machine may need beyond that (ms). */
const PATIENCE = 60_000;
const hostOf = (url: string): string => new URL(url).host;

/** As deploy/prometheus/prometheus.yml, for three gateways and fifteen times as often. */
function scrapes() {
  const job = (name: string, url: string, more: object = {}) => ({
    job_name: name,
    // The alerts look for this name.
    static_configs: [{ targets: [hostOf(url)], labels: { job: 'mdx-gateway' } }],
    ...more,
  });
  return stringify({
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: ['rules.yml'],
    scrape_configs: [
      job('demo', demo.url, { basic_auth: { username: 'demo', password: demo.password } }),
      job('other', other.url),
      job('secured', secured.url, { scheme: 'https', tls_config: { insecure_skip_verify: true } }),
    ],
  });
}

beforeAll(async () => {
  await ensurePrometheus();
  authority = makeAuthority();
  [demo, engine, redis] = await Promise.all([startDemo(), startWatchedEngine(), startRedis()]);
  const open = { open: ['metrics'] };
  const engineOf = { engine: { url: `${engine.url}/{project}` } };
  other = await startTestGateway({
    ...engineOf,
    listen: open,
    cache: { lease: '100ms', redis: { url: redis.url } },
    hooks: { kylin: { format: 'kylin5', user: 'alice', projects: { shop: 'a' } } },
    projects: { a: { watch: { kind: 'xmla', every: '1s' } } },
  });
  const { certificate, key } = authority.issue('gateway');
  secured = await startTestGateway({ ...engineOf, listen: { ...open, certificate, key } });
  prometheus = await startPrometheus({
    'prometheus.yml': scrapes(),
    'rules.yml': readDeployed('prometheus/rules.yml'),
  });
});
afterAll(async () => {
  await prometheus?.close();
  await other?.close();
  await secured?.close();
  await engine?.close();
  await redis?.close();
  authority?.remove();
  running?.kill('SIGTERM');
  await running?.ended;
});

/** The demo asks by itself. A person purges there, and asks for what the cache may not answer, for roles, and without a login. */
async function personVisits(): Promise<void> {
  const headers = { authorization: `Basic ${btoa(`demo:${demo.password}`)}` };
  const xmla = `${demo.url}/mdx/xmla`;
  const body = new Uint8Array(execute({ statement: 'CALL one()' }));
  const answers = [
    await fetch(`${xmla}/clearCache`, { headers }),
    await fetch(xmla, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'text/xml' },
      body,
    }),
    await fetch(`${demo.url}/api/datasets/MDX/Sales`, { headers }),
    await fetch(xmla, { method: 'POST' }),
  ];
  for (const answer of answers) await answer.text();
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 401]);
}

/** What only the other gateway has: calls of its hook, of which one is refused, so that an alert fires. */
async function loadsEnd(): Promise<void> {
  await callKylinHook(other.url, 'kylin', 'alice');
  await callHook(other.url, 'kylin', '{}', {});
}

interface Series {
  readonly values: readonly (readonly [number, string])[];
}

/** The queries whose panel has nothing to show of these gateways since then. */
async function silent(
  asked: readonly Pick<Query, 'title' | 'expr'>[],
  instance: string,
  since: number,
): Promise<string[]> {
  const values = { instance, project: '.*', __rate_interval: '4s', __range: '1m' };
  const found: string[] = [];
  for (const { title, expr } of asked) {
    const span = { start: `${since / 1000}`, end: `${Date.now() / 1000}`, step: '1' };
    const query = new URLSearchParams({ ...span, query: filledIn(expr, values) });
    const { result } = (await prometheus.ask(`query_range?${query}`)) as { result: Series[] };
    const figures = result.flatMap((series) => series.values.map(([, value]) => Number(value)));
    if (!figures.some(Number.isFinite)) found.push(title);
  }
  return found;
}

/** There, but nothing restarts here, so that none is above 0. */
const shown = [
  ...queries,
  ...marks.map(({ title, expr }) => ({ title, expr: expr.replace(/ > 0$/, '') })),
];

/** Panels of what the demo has not. */
const NOT_IN_THE_DEMO = [
  'Certificate ends in',
  'Watched projects {{project}}',
  'Since a watched source answered {{project}}',
  'Calls of hooks {{hook}}, {{result}}',
];

test(
  'every panel has something to show: of the demo, and of a certificate, a watcher and a hook where there are any',
  async () => {
    const since = Date.now();
    const enough = since + sizes.dashboardTraffic;
    const wanted = { anywhere: [], inTheDemo: NOT_IN_THE_DEMO };
    const look = async () => ({
      anywhere: await silent(shown, '.*', since),
      inTheDemo: await silent(queries, hostOf(demo.url), since),
    });
    let found = {};
    while (!isDeepStrictEqual(found, wanted) && Date.now() < enough + PATIENCE) {
      await Promise.all([personVisits(), loadsEnd()]);
      await delay(1_000);
      if (Date.now() > enough) found = await look();
    }
    expect(found).toEqual(wanted);
  },
  sizes.dashboardTraffic + 2 * PATIENCE,
);
