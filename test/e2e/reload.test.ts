import { describe, expect, test } from '@jest/globals';
import { mddatasetAnswer } from '../support/answers.ts';
import { startBlackHole } from '../support/black-hole.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus, until } from '../support/http-client.ts';
import '../support/patient-redis.ts';
import { startRedis } from '../support/redis-server.ts';
import { startSessionEngine } from '../support/session-engine.ts';
import { beginSession, inSession } from '../support/stamped-client.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const engine = shared(() => startStubEngine(sendXml(mddatasetAnswer())));

const query = execute({ statement: 'SELECT FROM [Sales]', properties: { Catalog: 'Bazaar' } });
const ask = async (gateway: TestGateway) => shortStatus(await askXmla(gateway.url, query));
const purge = (gateway: TestGateway, user: 'ADMIN' | 'alice' = 'ADMIN') =>
  send(gateway.url, {
    path: '/mdx/xmla/clearCache',
    headers: { authorization: basic(user) },
  });

describe('reloads that overtake each other', () => {
  test('take their turns: the last one asked for counts', async () => {
    const settings = { engine: { url: engine.url } };
    const gateway = await startTestGateway(settings);
    await ask(gateway);
    const first = gateway.reload({
      ...settings,
      cache: { lease: '900ms' },
      auth: { admins: ['ADMIN', 'alice'] },
    });
    const second = gateway.reload({ ...settings, cache: { lease: '900ms' } });
    await first;
    const purged = await purge(gateway);
    await second;
    expect([purged.status, (await purge(gateway, 'alice')).status]).toEqual([200, 403]);
    expect(await ask(gateway)).toBe('miss stored');
    expect(await ask(gateway)).toBe('hit');
    await gateway.close();
  });

  test('are refused when the gateway is shutting down', async () => {
    const settings = { engine: { url: engine.url } };
    const gateway = await startTestGateway(settings);
    await gateway.close();
    await expect(gateway.gateway.reload({} as never)).rejects.toThrow('shutting down');
  });
});

test('a reload tells what only a restart can change', async () => {
  const settings = { engine: { url: engine.url } };
  const gateway = await startTestGateway(settings);
  await gateway.reload({ ...settings, listen: { host: '0.0.0.0' } });
  expect(gateway.events).toContainEqual({
    type: 'warning',
    message: 'these keys change by a restart: listen.host',
  });
  await gateway.close();
});

test('a purge that is pending stays so across a reload', async () => {
  const redis = await startRedis();
  const way = await startBlackHole(redis.port);
  const settings = {
    engine: { url: engine.url },
    cache: { lease: '100ms', redis: { url: `redis://127.0.0.1:${way.port}` } },
  };
  const gateway = await startTestGateway(settings);
  try {
    await ask(gateway);
    expect(await ask(gateway)).toBe('hit');
    way.set('refuse');
    way.cut();
    const refused = await purge(gateway);
    expect(refused.status).toBe(503);
    expect(refused.text).not.toContain('cleared');
    await gateway.reload({ ...settings, cache: { ...settings.cache, lease: '110ms' } });
    way.set('forward');
    let status = 'bypass epochs-unknown';
    while (status === 'bypass epochs-unknown') status = await ask(gateway);
    expect(status).toBe('miss stored');
  } finally {
    await gateway.close();
    await way.close();
    await redis.close();
  }
});

describe('sessions, across a reload', () => {
  const house = async (cache: object) => {
    const sessionEngine = await startSessionEngine({ kind: 'emondrian' });
    const settings = { engine: { url: sessionEngine.url, kind: 'emondrian' }, cache };
    const gateway = await startTestGateway(settings);
    const asked = async (id: string, statement = 'SELECT FROM [Sales]') =>
      shortStatus(await askXmla(gateway.url, execute({ statement, session: inSession(id) })));
    const reload = (changed: object) =>
      gateway.reload({ ...settings, cache: { ...cache, ...changed } });
    const close = async () => {
      await gateway.close();
      await sessionEngine.close();
    };
    return { gateway, asked, reload, close };
  };

  test('of a gateway without Redis stay what they are, clean ones and dirty ones', async () => {
    const { gateway, asked, reload, close } = await house({});
    const [clean, dirty] = [await beginSession(gateway.url), await beginSession(gateway.url)];
    await asked(dirty, 'CREATE SESSION MEMBER [a].[b] AS 1');
    expect(await asked(clean)).toBe('miss stored');
    for (const changed of [{ lease: '900ms' }, { memory: '64MiB' }]) {
      await reload(changed);
      expect([await asked(clean), await asked(dirty)]).toEqual(['hit', 'bypass dirty-session']);
    }
    await close();
  });

  test('that became dirty before it are dirty behind it', async () => {
    const { gateway, asked, reload, close } = await house({});
    const id = await beginSession(gateway.url);
    await reload({ lease: '900ms' });
    expect(await asked(id)).toBe('miss stored');
    await asked(id, 'CREATE SESSION MEMBER [a].[b] AS 1');
    await reload({ lease: '800ms' });
    expect(await asked(id)).toBe('bypass dirty-session');
    await close();
  });
});

test('a request of before a reload does not hold a shutdown up beyond its deadline', async () => {
  const silent = await startStubEngine(() => {});
  const settings = { engine: { url: silent.url } };
  const gateway = await startTestGateway(settings);
  const asked = askXmla(gateway.url, query).catch(() => 'broken off');
  await until(() => silent.seen.length === 1);
  await gateway.reload({ ...settings, cache: { lease: '900ms' } });
  await gateway.gateway.close(100);
  expect(await asked).toBeDefined();
  await silent.close();
});

test('reloads leave nothing on the server', async () => {
  const settings = { engine: { url: engine.url } };
  const gateway = await startTestGateway(settings);
  const warnings: string[] = [];
  const onWarning = ({ name }: Error) => void warnings.push(name);
  process.on('warning', onWarning);
  for (let reloads = 0; reloads < 12; reloads += 1) {
    await gateway.reload({ ...settings, cache: { lease: `${reloads + 900}ms` } });
    expect(shortStatus(await askXmla(gateway.url, Buffer.from('<a/>')))).toBe(
      'bypass unknown-shape',
    );
  }
  process.off('warning', onWarning);
  expect(warnings).toEqual([]);
  await gateway.close();
});
