import { afterEach, describe, expect, test } from '@jest/globals';
import type { EngineKind } from '../../src/common/engine-kinds.ts';
import { execute } from '../support/envelopes.ts';
import '../support/patient-redis.ts';
import { startRedis } from '../support/redis-server.ts';
import {
  startSessionEngine,
  UNKNOWN_SESSION,
  type SessionEngine,
} from '../support/session-engine.ts';
import { askStamped, beginSession, inSession } from '../support/stamped-client.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const MINUTE = 60_000;

/** One clock for all: time passes when a test says so, and else as it always does. */
let passed = 0;
const clock = { now: () => performance.now() + passed, wall: () => Date.now() + passed };

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
});

async function engineOf(kind: EngineKind, idle: number): Promise<SessionEngine> {
  const engine = await startSessionEngine({ kind, idle, now: clock.now });
  open.push(engine);
  return engine;
}

async function gatewayOf(
  { url }: SessionEngine,
  kind: EngineKind,
  settings: { engine?: object; cache?: object } = {},
): Promise<TestGateway> {
  const gateway = await startTestGateway(
    {
      engine: { url, kind, login: 'forward', ...settings.engine },
      cache: { ttl: '7d', ...settings.cache },
    },
    { clock },
  );
  open.push(gateway);
  return gateway;
}

const PROPERTIES = { Catalog: 'Sales' };
const begin = ({ url }: TestGateway) => beginSession(url, { properties: PROPERTIES });
const ask = ({ url }: TestGateway, id: string, user = 'alice') =>
  askStamped(
    url,
    execute({ statement: 'SELECT FROM [Sales]', properties: PROPERTIES, session: inSession(id) }),
    { user },
  );

/** Requests that the engine saw in a session beside the question itself. */
const touches = ({ asked }: SessionEngine) =>
  asked.filter(({ session, statement }) => session.kind === 'in' && statement === '');

/** In parts of the time after which a session is dropped: nobody is away for longer than two thirds of it. */
const PAUSES = [0.33, 0.66, 0.01, 0.34, 0.3, 0.66, 0.1, 0.1, 0.1, 0.1, 0.66, 0.32, 0.66];

describe.each([
  ['emondrian', 60 * MINUTE, {}],
  ['ssas', 45 * MINUTE, {}],
  ['generic', 2 * MINUTE, { session_idle: '2m' }],
] as const)('a session of %s that idles for %d ms', (kind, idle, settings) => {
  test('does not end for a user who is answered from the cache alone', async () => {
    const engine = await engineOf(kind, idle);
    const gateway = await gatewayOf(engine, kind, { engine: settings });
    const id = await begin(gateway);
    await ask(gateway, id);
    for (const pause of PAUSES) {
      passed += pause * idle;
      const { status, fault, session } = await ask(gateway, id);
      expect([pause, status, fault]).toEqual([pause, 'hit', undefined]);
      expect([id, undefined]).toContain(session);
    }
    const seen = touches(engine);
    expect(seen.length).toBeGreaterThan(0);
    expect(seen.length).toBeLessThan(PAUSES.length);
    // No credentials are kept: they are those of the request on which the touch rides.
    expect(new Set(seen.map(({ user }) => user))).toEqual(new Set(['alice']));
    const direct = await ask({ ...gateway, url: engine.url }, id);
    expect([direct.fault, direct.computedIn]).toEqual([undefined, id]);
  });

  test('ends for a user who was away for longer, and then begins anew', async () => {
    const engine = await engineOf(kind, idle);
    const gateway = await gatewayOf(engine, kind, { engine: settings });
    const id = await begin(gateway);
    expect((await ask(gateway, id)).status).toBe('miss stored');
    passed += 1.1 * idle;
    const { status, fault, answer } = await ask(gateway, id);
    expect([status, answer.status, fault]).toEqual([
      'bypass unknown-session',
      200,
      UNKNOWN_SESSION,
    ]);
    // What the engine itself says, not what the gateway would.
    expect(answer.body).toEqual((await ask({ ...gateway, url: engine.url }, id)).answer.body);
    expect((await ask(gateway, id)).fault).toBe(UNKNOWN_SESSION);
    const next = await begin(gateway);
    expect(await ask(gateway, next)).toMatchObject({ status: 'hit', computedIn: id });
  });

  test('is touched once where many ask at one time', async () => {
    const engine = await engineOf(kind, idle);
    const gateway = await gatewayOf(engine, kind, { engine: settings });
    const id = await begin(gateway);
    await ask(gateway, id);
    passed += 0.5 * idle;
    const held = engine.hold(({ statement }) => statement === '');
    const all = Array.from({ length: 10 }, () => ask(gateway, id));
    await held.arrived;
    held.release();
    const statuses = (await Promise.all(all)).map(({ status }) => status);
    expect([new Set(statuses), touches(engine).length]).toEqual([new Set(['hit']), 1]);
  });
});

test('what a stranger asks in a session does not stand for what its user asks', async () => {
  const engine = await engineOf('ssas', 45 * MINUTE);
  const gateway = await gatewayOf(engine, 'ssas');
  const id = await begin(gateway);
  await ask(gateway, id);
  for (let turn = 0; turn < 8; turn += 1) {
    passed += 10 * MINUTE;
    expect((await ask(gateway, id, 'bob')).fault).toBe(UNKNOWN_SESSION);
    passed += MINUTE;
    expect((await ask(gateway, id)).status).toBe('hit');
  }
  expect((await ask({ ...gateway, url: engine.url }, id)).computedIn).toBe(id);
});

test('a session that is asked through two gateways does not end either', async () => {
  const redis = await startRedis();
  open.push(redis);
  const idle = 60 * MINUTE;
  const engine = await engineOf('emondrian', idle);
  const cache = { redis: { url: redis.url }, lease: '100ms' };
  const gateways = [
    await gatewayOf(engine, 'emondrian', { cache }),
    await gatewayOf(engine, 'emondrian', { cache }),
  ];
  const [one] = gateways;
  if (one === undefined) throw new Error('no gateway');
  const id = await begin(one);
  await ask(one, id);
  for (const [turn, pause] of PAUSES.entries()) {
    passed += pause * idle;
    for (const gateway of turn % 2 === 0 ? gateways : gateways.toReversed()) {
      expect((await ask(gateway, id)).fault).toBe(undefined);
    }
  }
  // One mostly knows of the touches of the other.
  expect(touches(engine).length).toBeLessThan(2 * PAUSES.length);
  expect((await ask({ ...one, url: engine.url }, id)).computedIn).toBe(id);
});
