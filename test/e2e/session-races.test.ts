import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { execute } from '../support/envelopes.ts';
import { send, until } from '../support/http-client.ts';
import { interleavings } from '../support/interleavings.ts';
import '../support/patient-redis.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import {
  askStamped,
  beginSession,
  inSession,
  type StampedAnswer,
} from '../support/stamped-client.ts';
import { gate } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { sizes, strided } from '../support/sizes.ts';

const LEASE = 100;
const MEMBER = "CREATE SESSION MEMBER [Sales].[Measures].[Mine] AS '1'";
const PROPERTIES = { Catalog: 'Sales' };

/** What happens to a SELECT and to a CREATE side by side: to each in this order. */
const STEPS = ['sent', 'processed', 'answered'] as const;
type Step = `${'select' | 'create'} ${(typeof STEPS)[number]}`;

const ORDERS = interleavings(
  STEPS.map((step): Step => `select ${step}`),
  STEPS.map((step): Step => `create ${step}`),
);

interface House {
  readonly selecting: TestGateway;
  readonly creating: TestGateway;
}

let engine: SessionEngine;
let redis: RedisServer;
const houses = new Map<string, House>();
const ALONE = 'a gateway that is alone';
const TWO = 'two gateways with a Redis';
const opened: TestGateway[] = [];
/** The second of the two gateways waits here before others have surely forgotten; open but where a test says so. */
let patience = Promise.resolve();
let waitsForOthers = 0;

beforeAll(async () => {
  engine = await startSessionEngine({ kind: 'emondrian' });
  redis = await startRedis();
  const alone = await gatewayOf({});
  houses.set(ALONE, { selecting: alone, creating: alone });
  const shared = { redis: { url: redis.url }, lease: `${LEASE}ms` };
  const sleep = async (milliseconds: number) => {
    waitsForOthers += 1;
    await Promise.all([delay(milliseconds), patience]);
    waitsForOthers -= 1;
  };
  houses.set(TWO, { selecting: await gatewayOf(shared), creating: await gatewayOf(shared, sleep) });
});
afterAll(async () => {
  for (const gateway of opened) await gateway.close();
  await engine?.close();
  await redis?.close();
});

async function gatewayOf(
  cache: object,
  sleep?: (milliseconds: number) => Promise<void>,
): Promise<TestGateway> {
  const gateway = await startTestGateway(
    {
      engine: { url: engine.url, kind: 'emondrian', timeout: '20s' },
      cache,
      limits: { per_user: 500, concurrency: 500, queue: 1_000 },
    },
    sleep === undefined ? {} : { sleep },
  );
  opened.push(gateway);
  return gateway;
}

let count = 0;
const newStatement = () => `SELECT FROM [Sales ${(count += 1)}]`;
const ask = ({ url }: TestGateway, statement: string, id?: string) => {
  const session = id === undefined ? {} : { session: inSession(id) };
  return askStamped(url, execute({ statement, properties: PROPERTIES, ...session }));
};
const begin = ({ url }: TestGateway) => beginSession(url, { properties: PROPERTIES });

/** A busy machine missed the deadlines of Redis, so that the gateway was careful: then an order is tried again. */
class Busy extends Error {}

/** @throws Busy when the answer says that Redis came too late, which no answer may be wrong for */
function expectCreated({ status, stamp }: StampedAnswer, created: readonly string[]): void {
  if (stamp !== undefined) expect(stamp.created).toEqual(created);
  if (/unavailable|epochs-unknown|gateway unknown-session/.test(status)) throw new Busy(status);
  expect([status, stamp?.created]).toEqual([status, created]);
}

/** One request that goes on when a test says so. */
function stepwise(gateway: TestGateway, statement: string, id: string) {
  const fits = (request: SessionEngine['asked'][number]) =>
    request.session.id === id && request.statement === statement;
  const arrival = engine.hold(fits);
  const made = engine.hold(fits, 'answer');
  let answer: Promise<StampedAnswer> | undefined;
  /** It may be answered without the engine, and then never comes there. */
  const reached = async (door: Promise<void>) => {
    const early = await Promise.race([door, answer]);
    if (early) throw new Busy(early.status);
  };
  return {
    /** @param waits until it is at the engine's door */
    async sent(waits: boolean): Promise<void> {
      answer = ask(gateway, statement, id);
      if (waits) await reached(arrival.arrived);
    },
    async processed(): Promise<void> {
      await reached(arrival.arrived);
      arrival.release();
      await reached(made.arrived);
    },
    async answered(): Promise<StampedAnswer | undefined> {
      made.release();
      return answer;
    },
    async over(): Promise<void> {
      arrival.release();
      made.release();
      await answer;
    },
  };
}

/** Goes through one order, and looks at everything that could have been stored or shared. */
async function run({ selecting, creating }: House, order: readonly Step[], waits: boolean) {
  const [racing = '', joining, clean] = await Promise.all([1, 2, 3].map(() => begin(selecting)));
  const statement = newStatement();
  // The selecting gateway holds the session for clean now.
  expectCreated(await ask(selecting, newStatement(), racing), []);
  const select = stepwise(selecting, statement, racing);
  const create = stepwise(creating, MEMBER, racing);
  try {
    let joined: Promise<StampedAnswer> | undefined;
    let selected: StampedAnswer | undefined;
    for (const step of order) {
      if (step === 'select sent') await select.sent(waits);
      else if (step === 'create sent') await create.sent(waits);
      else if (step === 'create processed') await create.processed();
      else if (step === 'create answered') await create.answered();
      else if (step === 'select processed') {
        await select.processed();
        joined = ask(selecting, statement, joining);
      } else selected = await select.answered();
    }
    if (!selected || !joined) throw new Error('a step was left out');
    const isLater = order.indexOf('create processed') < order.indexOf('select processed');
    // What it was answered is what the engine made of it.
    expectCreated(selected, isLater ? [MEMBER] : []);
    const expected = expectedStatus(order);
    if (waits && selected.status !== expected) {
      // Redis did not say in time that the session is as it was, or the head of the answer did not wait for that.
      const isCareful = expected === 'miss stored' && selected.status === 'miss session-changed';
      if (isCareful || selected.status === 'miss') throw new Busy(selected.status);
      expect([order, selected.status]).toEqual([order, expected]);
    }
    expectCreated(await joined, []);
    for (const gateway of [selecting, creating]) {
      for (const id of [clean, undefined, joining]) {
        expectCreated(await ask(gateway, statement, id), []);
      }
      const again = await ask(gateway, statement, racing);
      expectCreated(again, [MEMBER]);
      expect(again.status).toBe('bypass dirty-session');
    }
  } finally {
    await Promise.all([select.over(), create.over()]);
  }
}

/** A few orders at one time. */
async function runAll(
  house: House,
  waits: boolean,
  orders: readonly (readonly Step[])[],
): Promise<void> {
  const left = [...orders];
  const work = async () => {
    for (let order = left.pop(); order !== undefined; order = left.pop()) {
      const again = order;
      await run(house, order, waits).catch((error: unknown) => {
        if (house.selecting === house.creating || !(error instanceof Busy)) throw error;
        left.push(again);
      });
    }
  };
  await Promise.all([work(), work(), work(), work()]);
}

/** What becomes of the SELECT for the cache, where each step waits for the one before. */
function expectedStatus(order: readonly Step[]): string {
  const at = (step: Step) => order.indexOf(step);
  if (at('create sent') < at('select sent')) return 'bypass dirty-session';
  return at('create sent') < at('select answered') ? 'miss session-changed' : 'miss stored';
}

test('there are 20 orders', () => expect(ORDERS).toHaveLength(20));

describe('a SELECT and a CREATE SESSION MEMBER side by side in one session', () => {
  test.each([ALONE, TWO])('leave nothing of the session to others, in every order (%s)', (which) =>
    runAll(houses.get(which) as House, true, ORDERS),
  );

  test.each([ALONE, TWO])(
    'leave nothing of the session to others when nobody waits for anybody (%s)',
    (which) => runAll(houses.get(which) as House, false, strided(ORDERS, sizes.raceStride)),
  );
});

describe('a SELECT in a session that is being made dirty', () => {
  test('is not shared with one of another session that waited for it', async () => {
    const { selecting } = houses.get(ALONE) as House;
    const [racing, waiting] = [await begin(selecting), await begin(selecting)];
    const statement = newStatement();
    const select = stepwise(selecting, statement, racing);
    await select.sent(true);
    await select.processed();
    const joined = ask(selecting, statement, waiting);
    await waitersAt(selecting, 1);
    await ask(selecting, MEMBER, racing);
    expect(await select.answered()).toMatchObject({
      status: 'miss session-changed',
      stamp: { created: [] },
    });
    expect(await joined).toMatchObject({
      status: 'miss stored',
      computedIn: waiting,
      stamp: { created: [] },
    });
  });

  test('is shared with one of another session that waited for it, when nothing came between', async () => {
    const { selecting } = houses.get(ALONE) as House;
    const [first, waiting] = [await begin(selecting), await begin(selecting)];
    const statement = newStatement();
    const select = stepwise(selecting, statement, first);
    await select.sent(true);
    await select.processed();
    const joined = ask(selecting, statement, waiting);
    await waitersAt(selecting, 1);
    await select.answered();
    expect(await joined).toMatchObject({ status: 'hit', computedIn: first, session: waiting });
  });

  test('is not kept by a gateway that may still take the session for clean', async () => {
    const house = houses.get(TWO) as House;
    await askWhileOthersForget(house).catch((error: unknown) => {
      if (!(error instanceof Busy)) throw error;
      return askWhileOthersForget(house);
    });
  });
});

/** Asks while a session is marked as dirty in Redis, and what made it so is not yet at the engine. */
async function askWhileOthersForget({ selecting, creating }: House): Promise<void> {
  const [racing, clean] = [await begin(selecting), await begin(selecting)];
  expectCreated(await ask(selecting, newStatement(), racing), []);
  const door = gate();
  patience = door.opened;
  const create = stepwise(creating, MEMBER, racing);
  try {
    await create.sent(false);
    const isAtEngine = () =>
      engine.asked.some((one) => one.session.id === racing && one.statement === MEMBER);
    await until(() => waitsForOthers > 0 || isAtEngine());
    const statement = newStatement();
    const during = await ask(selecting, statement, racing);
    expectCreated(during, []);
    expect(during.status).not.toMatch('stored');
    expect((await ask(selecting, statement, clean)).computedIn).toBe(clean);
    expect(isAtEngine()).toBe(false);
    door.open();
    await create.processed();
    await create.answered();
    for (const gateway of [selecting, creating]) {
      expectCreated(await ask(gateway, statement, racing), [MEMBER]);
      expectCreated(await ask(gateway, statement, clean), []);
    }
  } finally {
    door.open();
    patience = Promise.resolve();
    await create.over();
  }
}

async function waitersAt({ url }: TestGateway, waiters: number): Promise<void> {
  const headers = { authorization: basic('ADMIN') };
  for (;;) {
    const { text } = await send(url, { path: '/metrics', headers });
    if (text.includes(`mdx_gateway_flight_waiters ${waiters}\n`)) return;
  }
}
