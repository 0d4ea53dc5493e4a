import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus, type Answer } from '../support/http-client.ts';
import '../support/patient-redis.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
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
});
