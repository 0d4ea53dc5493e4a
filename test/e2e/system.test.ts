import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { freePort } from '../support/free-port.ts';
import { askXmla, send } from '../support/http-client.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const STATEMENT = 'SELECT FROM [Sales] WHERE [Customer].[Jane Roe]';
const QUERY = execute({ statement: STATEMENT, properties: { Catalog: 'Shop' } });
const AUTH = { viewers: ['bob'] };

const engine = shared(() => startStubEngine(sendXml(mddatasetAnswer())));
let gateway: TestGateway;

const settings = (more: Record<string, unknown> = {}) => ({
  engine: { url: engine.url },
  auth: AUTH,
  ...more,
});
beforeEach(async () => {
  gateway = await startTestGateway(settings());
});
afterEach(() => gateway.close());

const get = (path: string, user = 'bob') =>
  send(gateway.url, { path, headers: { authorization: basic(user) } });

interface System {
  readonly configuration: string;
  readonly waiting_for_restart: readonly string[];
  readonly metrics: readonly { name: string; type: string; help: string }[];
}
const system = async () => JSON.parse((await get('/admin/system')).text) as System;

describe.each(['/admin/system', '/admin/diagnosis'])('%s', (path) => {
  test.each([
    ['ADMIN', 200],
    ['bob', 200],
    ['alice', 403],
  ])('answers %s with %d', async (user, expected) => {
    const { status } = await get(path, user);
    expect(status).toBe(expected);
    const saved = gateway.events.filter(({ type }) => type === 'diagnosis-saved');
    const isTold = path === '/admin/diagnosis' && expected === 200;
    expect(saved).toEqual(isTold ? [{ type: 'diagnosis-saved', principal: user }] : []);
  });

  test('answers no other method, and takes no parameters', async () => {
    const headers = { authorization: basic('ADMIN') };
    const { status } = await send(gateway.url, { path, method: 'POST', headers });
    const asked = await get(`${path}?limit=1`);
    expect([status, asked.status]).toEqual([405, 400]);
    expect(asked.text).toContain('limit is no query parameter here; allowed are none');
  });
});

describe('the system', () => {
  test('is told with its process, engines, Redis, storage and metrics', async () => {
    await askXmla(gateway.url, QUERY);
    const told = await system();
    expect(told).toMatchObject({
      at: expect.stringMatching(/^\d{4}-.*Z$/),
      started_at: expect.stringMatching(/^\d{4}-.*Z$/),
      platform: expect.stringMatching(/^\w+ \w+$/),
      processes: [{ entries: 1, memory_bytes: expect.any(Number), at_engine: 0, waiting: 0 }],
      complete: true,
      engines: [{ url: engine.url, state: 'up' }],
      redis: { state: 'off', mode: 'none', purges_owed: 0 },
      storage: { driver: 'sqlite', state: 'up' },
      waiting_for_restart: [],
    });
    const page = (await get('/metrics')).text;
    const helps = [...page.matchAll(/^# HELP (\S+) (.*)\n# TYPE \S+ (\w+)$/gm)];
    expect(helps.length).toBeGreaterThan(40);
    expect(told.metrics).toEqual(helps.map(([, name, help, type]) => ({ name, type, help })));
  });

  test('holds the configuration in force, and what of the file waits for a restart', async () => {
    await gateway.reload(settings({ cache: { ttl: '10m', memory: '77MiB' }, log: { slow: '9s' } }));
    const { configuration, waiting_for_restart: waiting } = await system();
    expect(parse(configuration)).toMatchObject({
      engine: { url: engine.url },
      cache: { ttl: '10m', memory: '256MiB' },
      log: { slow: '9s' },
      auth: AUTH,
    });
    expect(waiting).toEqual(['cache.memory']);
    await gateway.reload(settings());
    expect((await system()).waiting_for_restart).toEqual([]);
  });
});

describe('a diagnosis', () => {
  test('is a file with all that is told elsewhere, and counts in the place of requests', async () => {
    await askXmla(gateway.url, QUERY);
    await askXmla(gateway.url, QUERY);
    await send(gateway.url, {
      path: '/mdx/xmla/Shop/clearCache',
      headers: { authorization: basic('ADMIN') },
    });
    const { headers, text } = await get('/admin/diagnosis');
    expect(headers['content-disposition']).toBe('attachment; filename="diagnosis.json"');
    const diagnosis = JSON.parse(text) as Record<string, object>;
    expect(Object.keys(diagnosis)).toEqual([
      'at',
      'status',
      'overview',
      'system',
      'statistics',
      'requests',
      'purges',
    ]);
    expect(diagnosis).toMatchObject({
      status: { user: 'bob', rights: { administer: false, view: true } },
      overview: { hour: { hits: 1, misses: 1 } },
      system: { redis: { state: 'off' } },
      statistics: { digests: [{ subject: 'Execute', cubes: 'Sales' }] },
      purges: { purges: [{ principal: 'ADMIN', scope: { project: 'Shop' } }] },
      requests: { hit: 1, miss: 1, bypass: 0, gateway: 0 },
    });
  });

  test('holds no statement, whatever is kept and whoever asks', async () => {
    await gateway.reload(settings({ statistics: { text: 'on' }, log: { statements: 'all' } }));
    await askXmla(gateway.url, QUERY);
    await askXmla(gateway.url, execute({ statement: `${STATEMENT} Now()` }));
    expect((await get('/admin/statistics', 'ADMIN')).text).toContain('Jane Roe');
    for (const path of ['/admin/diagnosis', '/admin/system']) {
      const { text } = await get(path, 'ADMIN');
      expect(text).not.toMatch(/Jane|SELECT/);
    }
  });
});

test('neither holds a secret of the configuration, also where Redis is away', async () => {
  const hush = (what: string) => `hush-${what}-${'x'.repeat(40)}`;
  const own = () => ({
    url: engine.url,
    login: 'service',
    service: { name: 'gateway', password: hush('service') },
  });
  const inner = gateway;
  gateway = await startTestGateway(
    settings({
      engine: own(),
      projects: { Shop: { engine: own() } },
      cache: {
        key_secret: hush('key'),
        redis: {
          url: `redis://gateway:${hush('redis')}@127.0.0.1:${await freePort()}`,
          encryption_key: hush('encryption'),
        },
      },
    }),
  );
  await inner.close();
  for (const path of ['/admin/diagnosis', '/admin/system']) {
    const { status, text } = await get(path, 'ADMIN');
    expect([status, text.split('(a secret)').length - 1]).toEqual([200, 5]);
    expect(text).not.toContain('hush');
    expect(text).toContain('"state": "down"');
  }
});
