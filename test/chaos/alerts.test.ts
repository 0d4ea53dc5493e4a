import { afterAll, afterEach, beforeAll, expect, jest, test } from '@jest/globals';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parse, stringify } from 'yaml';
import { mddatasetAnswer } from '../support/answers.ts';
import { makeAuthority } from '../support/certificates.ts';
import { clearCache, clearingSettings } from '../support/clearing.ts';
import { execute } from '../support/envelopes.ts';
import { callHook, dbtRun, SECRET, signatureOf } from '../support/hooks.ts';
import { askXmla, portOf, send } from '../support/http-client.ts';
import { sendText, startKylinEngine } from '../support/kylin-engine.ts';
import { ensurePrometheus, promtool, startPrometheus } from '../support/prometheus.ts';
import { startRedis } from '../support/redis-server.ts';
import { gate, sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

jest.setTimeout(120_000);

const FILES = join(import.meta.dirname, '../../deploy/prometheus');
const read = (name: string) => readFileSync(join(FILES, name), 'utf8');
/** The name of the user as whom Prometheus reads, as in prometheus.yml; the password is the same. */
const READER = 'metrics';
const DEAD = 'http://127.0.0.1:1';

const open = new Set<{ close(): unknown }>();
async function opened<T extends { close(): unknown }>(opening: Promise<T>): Promise<T> {
  const one = await opening;
  open.add(one);
  return one;
}
let folder: string;

beforeAll(async () => {
  await ensurePrometheus();
  folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-alerts-'));
});
afterEach(async () => {
  for (const one of [...open].toReversed()) await one.close();
  open.clear();
});
afterAll(() => rmSync(folder, { recursive: true }));

test('promtool takes the configuration and the rules', async () => {
  expect(await promtool(['check', 'config', join(FILES, 'prometheus.yml')])).toContain('SUCCESS');
  expect(await promtool(['check', 'rules', join(FILES, 'rules.yml')])).toContain('SUCCESS');
});

test('each alert fires once and stays quiet once', async () => {
  expect(await promtool(['test', 'rules', join(FILES, 'tests.yml')])).toContain('SUCCESS');
});

const query = (cube: string) => execute({ statement: `SELECT FROM [${cube}]` });
const answers = sendXml(mddatasetAnswer());

test('promtool finds nothing wrong with a page of metrics', async () => {
  const engine = await opened(startStubEngine(answers));
  const gateway = await opened(startTestGateway({ engine: { url: engine.url } }));
  await askXmla(gateway.url, query('Sales'));
  const page = await send(gateway.url, {
    path: '/metrics',
    headers: { authorization: basic('bob') },
  });
  expect(page.text.split('\n').length).toBeGreaterThan(100);
  expect(await promtool(['check', 'metrics'], page.text)).toBe('');
});

/** The shipped files, with these gateways as targets, and seconds in the place of minutes and days. */
function hurried(gateways: ReadonlyMap<string, TestGateway>): Record<string, string> {
  const config = parse(read('prometheus.yml')) as {
    global: object;
    scrape_configs: [{ job_name: string; basic_auth: object; static_configs: unknown }];
  };
  const [job] = config.scrape_configs;
  const password = join(folder, 'password');
  writeFileSync(password, READER);
  config.global = { scrape_interval: '1s', evaluation_interval: '1s' };
  config.scrape_configs = [
    {
      ...job,
      basic_auth: { ...job.basic_auth, password_file: password },
      ...{ tls_config: { insecure_skip_verify: true } },
      static_configs: [...gateways].map(([instance, { url }]) => ({
        targets: [`127.0.0.1:${portOf(url)}`],
        labels: { instance, __scheme__: new URL(url).protocol.slice(0, -1) },
      })),
    },
  ];
  const rules = read('rules.yml')
    .replaceAll(/\[\d+[mhd]\]/g, '[20s]')
    .replaceAll(/^ +for: .*/gm, '');
  return { 'prometheus.yml': stringify(config), 'rules.yml': rules };
}

test('what goes wrong at a running gateway has a real Prometheus fire the alert for it, and no other', async () => {
  const engine = await opened(startStubEngine(answers));
  const silent = gate();
  const slow = await opened(
    startStubEngine(async (...asked) => {
      await silent.opened;
      await answers(...asked);
    }),
  );
  const kylin = await opened(startKylinEngine());
  kylin.clearWith(sendText('no', { status: 500 }));
  const redis = await opened(startRedis());
  const authority = makeAuthority();
  open.add({ close: authority.remove });
  const { certificate, key } = authority.issue('gateway');
  const onRedis = (encryption_key: string) => ({
    cache: { lease: '100ms', redis: { url: redis.url, encryption_key: encryption_key.repeat(40) } },
  });
  const gateways = new Map<string, TestGateway>();
  const start = async (name: string, settings: Record<string, unknown> = {}) => {
    const all = { engine: { url: engine.url }, ...settings };
    const gateway = await opened(startTestGateway(all, {}, [READER]));
    gateways.set(name, gateway);
    return gateway;
  };
  const [good, gone] = [await start('good'), await start('gone')];
  const one = await start('one', onRedis('a'));
  const other = await start('other', onRedis('b'));
  const dying = await opened(startStubEngine(answers));
  const engineless = await start('engineless', { engine: { url: dying.url } });
  const clearing = await start('clearing', clearingSettings([kylin]));
  const watch = { kind: 'url', url: DEAD, every: '1s' };
  await start('blind', { projects: { Shop: { watch } } });
  const hooks = { dbt: { secret: SECRET, format: 'dbt', projects: ['Shop'] } };
  const hooked = await start('hooked', { hooks });
  await start('ending', { listen: { certificate, key } });
  const limits = { concurrency: 1, queue: 4 };
  const busy = await start('busy', { engine: { url: slow.url }, limits });

  const prometheus = await opened(startPrometheus(hurried(gateways)));
  const firing = async () => {
    const { alerts } = (await prometheus.ask('alerts')) as {
      alerts: { state: string; labels: Record<string, string> }[];
    };
    return alerts
      .filter(({ state }) => state === 'firing')
      .map(({ labels }) => `${labels['alertname']} ${labels['instance'] ?? labels['job']}`);
  };
  const fired = new Set<string>();
  /** Until all of them fired, or the test is given up. @param act what is done again and again meanwhile */
  async function until(wanted: readonly string[], act: () => Promise<unknown> = async () => {}) {
    while (!wanted.every((one) => fired.has(one))) {
      await act();
      for (const one of await firing()) fired.add(one);
      await delay(200);
    }
  }

  // What counts is to be seen before it happens.
  const up = encodeURIComponent('count(up == 1)');
  const scraped = async () =>
    ((await prometheus.ask(`query?query=${up}`)) as { result: { value: [number, string] }[] })
      .result[0]?.value[1];
  while ((await scraped()) !== String(gateways.size)) await delay(100);
  // Before its first scrape it knows no gateway.
  while ((await firing()).some((one) => one.startsWith('GatewayDown'))) await delay(100);

  // As at the start of the program.
  await engineless.gateway.askEngines();
  open.delete(dying);
  await dying.close();
  expect((await askXmla(engineless.url, query('Sales'))).status).toBe(502);
  expect((await clearCache(clearing)).status).toBe(502);
  const forged = { authorization: signatureOf(dbtRun(), 'another secret of dbt') };
  expect((await callHook(hooked.url, 'dbt', dbtRun(), forged)).status).toBe(401);
  const waiting = ['alice', 'bob', 'alice', 'bob', 'alice'].map((user, at) =>
    askXmla(busy.url, query(`Sales ${at}`), { user }).catch(() => {}),
  );
  let rounds = 0;
  const odd = Buffer.from(query('Sales').toString().replace('<Execute', '<Execute a="b"'));
  const calm = [
    ...['EngineUnreachable engineless', 'EngineReplicaDown engineless'],
    ...['PurgeFailed clearing', 'HooksRefused hooked', 'QueueFull busy', 'WatchBlind blind'],
    ...['CertificateEnds ending', 'RedisConditions one', 'RedisConditions other'],
    ...['BypassUnknownShape mdx-gateway', 'EntriesRejected other'],
  ];
  await until(calm, async () => {
    rounds += 1;
    for (const gateway of [one, other]) await askXmla(gateway.url, query(`Sales ${rounds}`));
    for (let i = 0; i < 5; i += 1) await askXmla(good.url, odd);
  });

  await redis.stop();
  open.delete(gone);
  await gone.close();
  expect((await clearCache(one)).status).toBe(503);
  const outage = ['RedisDown one', 'RedisDown other', 'PurgePending one', 'GatewayDown gone'];
  await until(outage);
  // A busy machine may need longer than a second for a page.
  fired.forEach((one) => /^GatewayDown (?!gone)/.test(one) && fired.delete(one));
  expect([...fired].toSorted()).toEqual([...calm, ...outage].toSorted());
  silent.open();
  await Promise.all(waiting);
});
