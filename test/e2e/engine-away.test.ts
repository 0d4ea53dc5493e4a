import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { faultAnswer, mddatasetAnswer, rowsetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus, until, type Answer } from '../support/http-client.ts';
import { callKylinHook } from '../support/hooks.ts';
import '../support/patient-redis.ts';
import { untilRemembered } from '../support/remembered.ts';
import { startSessionEngine } from '../support/session-engine.ts';
import { beginSession, inSession } from '../support/stamped-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { gate, sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const MINUTE = 60_000;
/** Time passes when a test says so, and else as it always does. */
let passed = 0;
const clock = { now: () => performance.now() + passed, wall: () => Date.now() + passed };

let engine: StubEngine;
let redis: RedisServer;
const started: TestGateway[] = [];
/** What the engine has loaded. */
let data = 'old';

beforeAll(async () => {
  redis = await startRedis();
  engine = await startStubEngine((response, request) =>
    sendXml(mddatasetAnswer({ members: [data] }))(response, request),
  );
});
beforeEach(() => {
  data = 'old';
  engine.answerWith((response, request) =>
    sendXml(mddatasetAnswer({ members: [data] }))(response, request),
  );
});
afterEach(async () => {
  for (const gateway of started.splice(0)) await gateway.close();
  await engine.comeBack().catch(() => {});
  engine.seen.length = 0;
});
afterAll(async () => {
  await engine.close();
  await redis.stop();
});

const CACHE = { ttl: '1m', stale_if_error: '4h', share: 'everyone', lease: '100ms' };

async function start(cache: object = {}, more: Record<string, object> = {}): Promise<TestGateway> {
  const settings = { engine: { url: engine.url }, cache: { ...CACHE, ...cache }, ...more };
  const gateway = await startTestGateway(settings, { clock });
  started.push(gateway);
  return gateway;
}

const queryOf = (what: string, catalog = 'Sales') =>
  execute({ statement: `SELECT FROM [${what}]`, properties: { Catalog: catalog } });
const SALES = queryOf('Sales');
/** Detail of its Cache-Status, and what it holds. */
const toldOf = ({ headers, status }: Answer) =>
  /; hit; .*detail=([\w-]+)/.exec(String(headers['cache-status']))?.[1] ??
  `${status} ${shortStatus({ headers })}`;
const told = async (gateway: TestGateway, body = SALES, headers = {}) =>
  toldOf(await askXmla(gateway.url, body, { headers }));
const CHANGE = execute({
  statement: 'UPDATE CUBE [Sales] SET [Measures].[x] = 1',
  properties: { Catalog: 'Sales' },
});
const clear = (gateway: TestGateway) =>
  send(gateway.url, {
    path: '/mdx/xmla/Sales/clearCache',
    headers: { authorization: basic('ADMIN') },
  });
const AWAY = 'engine-away';
const FAILED = '502 gateway engine-unreachable';

describe('while the engine is away', () => {
  test('what was asked before is answered at once, marked, and a miss is told so', async () => {
    const gateway = await start();
    await told(gateway);
    engine.leave();
    expect(await told(gateway)).toBe('memory');
    passed += 2 * MINUTE;
    for (let n = 0; n < 3; n += 1) {
      const answer = await askXmla(gateway.url, SALES);
      expect(toldOf(answer)).toBe(AWAY);
      expect(answer.text).toContain('old');
      const [, ttl] = /; ttl=-(\d+); /.exec(String(answer.headers['cache-status'])) ?? [];
      expect(Number(ttl)).toBeGreaterThanOrEqual(60);
      expect(Number(answer.headers.age)).toBeGreaterThanOrEqual(120);
    }
    expect(await told(gateway, queryOf('New'))).toBe(FAILED);
    await engine.comeBack();
    passed += 1_000;
    expect(await told(gateway)).toBe('200 miss stored');
    expect(await told(gateway)).toBe('memory');
    const { text } = await send(gateway.url, {
      path: '/metrics',
      headers: { authorization: basic('ADMIN') },
    });
    expect(text).toMatch(/outcome="hit",reason="engine-away"[^}]*\} 3$/m);
  });

  test('nothing is answered past its ttl unless it is configured', async () => {
    const gateway = await start({ stale_if_error: '0' });
    await told(gateway);
    engine.leave();
    passed += 2 * MINUTE;
    expect(await told(gateway)).toBe(FAILED);
  });

  test('what is remembered byte by byte, and what Redis holds for another gateway, is answered too', async () => {
    const one = await start({ redis: { url: redis.url, namespace: 'away' } });
    const other = await start({ redis: { url: redis.url, namespace: 'away' } });
    const alone = await start();
    for (const gateway of [one, alone]) {
      await told(gateway);
      await untilRemembered(() => askXmla(gateway.url, SALES));
    }
    engine.leave();
    passed += 2 * MINUTE;
    for (const gateway of [one, other, alone]) {
      for (let n = 0; n < 4; n += 1) expect(await told(gateway)).toBe(AWAY);
    }
    await clear(other);
    for (const gateway of [one, other]) expect(await told(gateway)).toBe(FAILED);
    expect(await told(alone)).toBe(AWAY);
    await clear(alone);
    expect(await told(alone)).toBe(FAILED);
  });

  test('a statement that changed the data leaves nothing to be answered', async () => {
    const gateway = await start();
    await told(gateway);
    await askXmla(gateway.url, CHANGE, { user: 'ADMIN' });
    engine.leave();
    passed += 2 * MINUTE;
    expect(await told(gateway)).toBe(FAILED);
  });

  test('nor does a hook', async () => {
    const projects = { shop: 'Sales' };
    const loaded = { format: 'kylin5', user: 'ADMIN', projects };
    const gateway = await start({}, { hooks: { loaded } });
    await told(gateway);
    expect((await callKylinHook(gateway.url, 'loaded', 'ADMIN')).status).toBe(200);
    engine.leave();
    passed += 2 * MINUTE;
    expect(await told(gateway)).toBe(FAILED);
  });

  test('a user who may control the cache gets no old answer with no-cache, and none may store one', async () => {
    const gateway = await start({ client_control: 'everybody' });
    await told(gateway);
    engine.leave();
    passed += 2 * MINUTE;
    for (const control of ['no-cache', 'no-store']) {
      expect(await told(gateway, SALES, { 'cache-control': control })).toBe(FAILED);
    }
    expect(await told(gateway)).toBe(AWAY);
  });

  test('a ttl or a stale_if_error that a reload shortens counts at once', async () => {
    const gateway = await start();
    await told(gateway);
    engine.leave();
    passed += 30 * MINUTE;
    const settings = (cache: object) => ({
      engine: { url: engine.url },
      cache: { ...CACHE, ...cache },
    });
    await gateway.reload(settings({ stale_if_error: '1770s' }));
    expect(await told(gateway)).toBe(AWAY);
    await gateway.reload(settings({ stale_if_error: '1770s', ttl: '10s' }));
    expect(await told(gateway)).toBe(FAILED);
    await gateway.reload(settings({ stale_if_error: '10m' }));
    expect(await told(gateway)).toBe(FAILED);
  });

  test('a session that lives at the engine keeps its hits, and a new one begins when it is back', async () => {
    const inner = await startSessionEngine({ kind: 'generic', now: clock.now });
    engine.answerWith(async (response, { body, headers }) => {
      const { 'content-type': contentType = 'text/xml' } = headers;
      const sent = { 'content-type': contentType };
      const answer = await fetch(inner.url, {
        method: 'POST',
        headers: sent,
        body: new Uint8Array(body),
      });
      return sendXml(Buffer.from(await answer.arrayBuffer()))(response, undefined as never);
    });
    const gateway = await start(
      { ttl: '30m' },
      { engine: { url: engine.url, session_idle: '4m' } },
    );
    const id = await beginSession(gateway.url);
    const query = execute({
      statement: 'SELECT FROM [Sales]',
      properties: { Catalog: 'Sales' },
      session: inSession(id),
    });
    // The first of them chooses the catalog of the session.
    for (let n = 0; n < 2; n += 1) await told(gateway, query);
    expect(await told(gateway, query)).toBe('memory');
    engine.leave();
    passed += 2 * MINUTE;
    expect(await told(gateway, query)).toBe('memory');
    passed += 40 * MINUTE;
    for (let n = 0; n < 3; n += 1) expect(await told(gateway, query)).toBe(AWAY);
    await inner.close();
  });

  test('a request that the engine has left without an answer is answered past its ttl, unless it was purged', async () => {
    const gateway = await start();
    await told(gateway);
    passed += 2 * MINUTE;
    let door = gate();
    engine.answerWith(async (response) => {
      await door.opened;
      response.destroy();
    });
    const both = [told(gateway), told(gateway)];
    await until(() => engine.seen.length === 2);
    door.open();
    expect(await Promise.all(both)).toEqual([AWAY, AWAY]);
    door = gate();
    const late = told(gateway);
    await until(() => engine.seen.length === 3);
    await clear(gateway);
    door.open();
    expect(await late).toBe(FAILED);
  });

  test.each(['0', '1m'])(
    'a login that counts for %s is still right when the engine leaves its request later',
    async (verifiedFor) => {
      const auth = { verified_for: verifiedFor };
      const gateway = await start({}, { auth });
      await told(gateway);
      passed += 2 * MINUTE;
      const door = gate();
      engine.answerWith(async (response) => {
        await door.opened;
        response.destroy();
      });
      const waits = told(gateway);
      await until(() => engine.seen.length === 2);
      passed += 2 * MINUTE;
      door.open();
      expect(await waits).toBe(AWAY);
    },
  );

  test('half an answer, a status and a Fault are what the client gets', async () => {
    const gateway = await start();
    await told(gateway);
    passed += 2 * MINUTE;
    engine.answerWith(sendXml('<html/>', { status: 503 }));
    expect(await told(gateway)).toBe('503 miss engine-status');
    engine.answerWith(sendXml(faultAnswer()));
    expect(await told(gateway)).toBe('200 miss fault');
    engine.answerWith((response) => {
      response.writeHead(200, { 'content-type': 'text/xml', 'content-length': 1_000 });
      response.write('<a>', () => response.destroy());
    });
    expect(await told(gateway)).toBe(FAILED);
  });

  test('a watched project whose last poll failed gets no old answer, whatever when_blind says', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'mdx-watched-'));
    const path = join(folder, 'data');
    writeFileSync(path, 'x');
    const watch = { kind: 'file', path, every: '1s' };
    const gateway = await start({}, { projects: { Sales: { watch } } });
    const stateOf = async () => {
      const { text } = await send(gateway.url, {
        path: '/admin/watches',
        headers: { authorization: basic('ADMIN') },
      });
      const { watches } = JSON.parse(text) as {
        watches: readonly { failures: number; state: string }[];
      };
      return watches[0];
    };
    const untilState = async (is: (one: Awaited<ReturnType<typeof stateOf>>) => boolean) => {
      while (!is(await stateOf()));
    };
    await untilState((one) => one?.state === 'seeing');
    await told(gateway);
    engine.leave();
    passed += 2 * MINUTE;
    expect(await told(gateway)).toBe(AWAY);
    rmSync(path);
    await untilState((one) => (one?.failures ?? 0) > 0);
    expect(await told(gateway)).toBe(FAILED);
    rmSync(folder, { recursive: true });
  });
});

describe('a login that is believed', () => {
  test('is answered past the ttl as long as it is believed, and never longer', async () => {
    engine.answerWith((response, { headers, body }) => {
      const isRight = headers.authorization === basic('alice');
      if (!isRight) return sendXml(faultAnswer(), { status: 401 })(response, undefined as never);
      const answer = body.includes('DISCOVER_DATASOURCES')
        ? rowsetAnswer()
        : mddatasetAnswer({ members: [data] });
      return sendXml(answer)(response, undefined as never);
    });
    const gateway = await start(
      { engine_permissions_ignored: true },
      {
        engine: { url: engine.url, login: 'forward' },
        auth: { provider: 'engine', admins: ['ADMIN'], verified_for: '1m', believed_for: '10m' },
      },
    );
    const ask = async () => toldOf(await askXmla(gateway.url, SALES, { user: 'alice' }));
    expect(await ask()).toBe('200 miss stored');
    engine.leave();
    passed += 3 * MINUTE;
    for (let n = 0; n < 3; n += 1) expect(await ask()).toBe(AWAY);
    passed += 7 * MINUTE;
    expect(await ask()).toBe(FAILED);
  });
});
