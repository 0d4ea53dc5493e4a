import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { checkedFetch } from '../support/checked-requests.ts';
import { execute } from '../support/envelopes.ts';
import { CATALOG, startHazardHouse } from '../support/hazard-house.ts';
import '../support/patient-redis.ts';
import { askRedis } from '../support/redis-server.ts';
import { sampled, sizes } from '../support/sizes.ts';
import { askStamped, inSession, type StampedAnswer } from '../support/stamped-client.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

/** The machine may be busy (ms). */
const PATIENCE = 300_000;

const house = shared(() => startHazardHouse());

/** Something that happens to Redis. */
interface Hazard {
  readonly name: string;
  /** What goes before it, when the cache is warm and nothing was purged. */
  prepare?(): Promise<unknown>;
  strike(): Promise<unknown>;
}

type Moment = 'before the purge' | 'while the purge waits' | 'after the purge';
const MOMENTS: readonly Moment[] = ['before the purge', 'while the purge waits', 'after the purge'];

let rounds = 0;

interface Warm {
  readonly cube: string;
  readonly session: string;
}

/** Both gateways answer from their memories, without a session and in one of the other's. */
async function warm(): Promise<Warm> {
  rounds += 1;
  const cube = `Cube ${rounds}`;
  const { purger, deaf } = house;
  await house.untilHit(purger, cube);
  await house.untilHit(deaf, cube);
  const session = await house.begin(purger);
  await house.untilHit(deaf, cube, session);
  return { cube, session };
}

/** What was asked after the acknowledgement, with what it was answered. */
async function afterwards({ cube, session }: Warm): Promise<readonly StampedAnswer[]> {
  const { purger, deaf } = house;
  const answers: StampedAnswer[] = [];
  for (const gateway of [deaf, purger]) {
    answers.push(await house.ask(gateway, cube, session));
    answers.push(...(await house.untilHit(gateway, cube)));
    answers.push(await house.ask(gateway, `Straddling ${cube}`));
    answers.push(await house.ask(gateway, `Straddling ${cube}`));
  }
  return answers;
}

/**
 * One purge, and what happens to Redis at a moment of it; at each of both gateways one engine request began before it
 * and ends after it.
 */
async function round(moment: Moment, hazardOf: (warm: Warm) => Promise<Hazard>): Promise<void> {
  const { purger, deaf, engine } = house;
  const about = await warm();
  const hazard = await hazardOf(about);
  await hazard.prepare?.();
  const straddling = [];
  for (const gateway of [purger, deaf]) {
    const held = engine.hold(({ statement }) => statement.includes('Straddling'), 'answer');
    straddling.push({ held, answer: house.ask(gateway, `Straddling ${about.cube}`) });
    await held.arrived;
  }
  await house.load();
  if (moment === 'before the purge') await hazard.strike();
  await house.purge(rounds % 2 === 0 ? CATALOG : undefined, async () => {
    if (moment !== 'while the purge waits') return;
    await hazard.strike();
    for (const gateway of [deaf, purger]) await house.ask(gateway, about.cube);
  });
  if (moment === 'after the purge') await hazard.strike();
  for (const { held, answer } of straddling) {
    held.release();
    await answer;
  }
  const seen = (await afterwards(about)).map(({ status, stamp }) => ({
    status,
    data: stamp?.data,
  }));
  const wrong = seen.filter(({ data }) => data !== house.data);
  expect({ hazard: hazard.name, moment, wrong }).toEqual({
    hazard: hazard.name,
    moment,
    wrong: [],
  });
}

/** A key's name without what is new for every entry, session, query or gateway. */
const kindOf = (key: string) =>
  key.replaceAll(/[A-Za-z0-9_-]{43}/gu, '…').replaceAll(/[A-Za-z0-9_-]{22}/gu, '…');

async function kinds(): Promise<ReadonlySet<string>> {
  return new Set((await house.keys()).map(kindOf));
}

/** Redis evicts what it likes. */
const evictionOf = (kind: string) => async (): Promise<Hazard> => ({
  name: `eviction of ${kind}`,
  async strike() {
    const victims = (await house.keys()).filter((key) => kindOf(key) === kind);
    for (const key of victims) await askRedis(house.redis.port, `DEL ${key}`);
  },
});

const DISASTERS: readonly Hazard[] = [
  { name: 'FLUSHALL', strike: () => askRedis(house.redis.port, 'FLUSHALL') },
  { name: 'SCRIPT FLUSH', strike: () => askRedis(house.redis.port, 'SCRIPT FLUSH') },
  {
    name: 'lost connections',
    strike: () => askRedis(house.redis.port, 'CLIENT KILL TYPE normal'),
  },
  { name: 'restart, empty', strike: () => house.redis.restart({ signal: 'SIGKILL' }) },
  {
    name: 'restart from a snapshot',
    prepare: () => askRedis(house.redis.port, 'SAVE'),
    strike: () => house.redis.restart({ signal: 'SIGKILL' }),
  },
];

describe.each(sampled(MOMENTS))('no answer from before an acknowledged purge comes', (moment) => {
  test(
    `when Redis evicts any one key ${moment}`,
    async () => {
      await warm();
      const known = await kinds();
      for (const kind of [
        '{mdx}:2:leases',
        '{mdx}:2:incarnation',
        '{mdx}:2:epoch:everything',
        'mdx:entry:…',
      ]) {
        expect(known).toContain(kind);
      }
      const done = new Set<string>();
      // Some keys are there only after the first purge.
      while (done.size < sizes.evictedKinds) {
        const next = [...(await kinds())].find((kind) => !done.has(kind));
        if (next === undefined) break;
        done.add(next);
        await round(moment, evictionOf(next));
      }
      console.log(`evicted ${moment}: ${[...done].sort().join(' ')}`);
    },
    PATIENCE,
  );

  test.each(DISASTERS.map((hazard) => [hazard.name, hazard] as const))(
    `after %s ${moment}`,
    async (_name, hazard) => {
      for (const _ of sampled(['everything', 'a project'])) {
        await round(moment, async () => hazard);
      }
    },
    PATIENCE,
  );
});

test('a session that was changed after a snapshot is not clean when the snapshot is back', async () => {
  const { purger, deaf, redis } = house;
  const { cube, session } = await warm();
  await askRedis(redis.port, 'SAVE');
  const statement = "CREATE SESSION MEMBER [Sales].[Measures].[Mine] AS '1'";
  const properties = { Catalog: CATALOG };
  await askStamped(purger.url, execute({ statement, properties, session: inSession(session) }));
  await redis.restart({ signal: 'SIGKILL' });
  for (const gateway of [deaf, purger]) {
    let answer: StampedAnswer;
    do answer = await house.ask(gateway, cube, session);
    while (/session-unavailable|epochs-unknown/u.test(answer.status));
    // It is made in the session, and shared with no other.
    expect([answer.status, answer.stamp?.created]).toEqual([
      expect.stringMatching(/^bypass (?:unknown|dirty)-session$/u),
      [statement],
    ]);
    // What is known to be dirty is so without Redis too; a session is noted only where that is back for this gateway.
    await house.untilHit(gateway, `Back ${cube}`);
    const clean = await house.begin(gateway);
    const elsewhere = await house.untilHit(gateway, cube, clean);
    expect(elsewhere.map(({ stamp }) => stamp?.created)).toEqual(elsewhere.map(() => []));
  }
});

describe('two namespaces on one Redis', () => {
  const NAMES = ['team', 'team.b'] as const;
  const gateways: TestGateway[] = [];
  beforeEach(async () => {
    for (const namespace of NAMES) {
      gateways.push(
        await startTestGateway({
          engine: { url: house.engine.url, kind: 'mondrian' },
          cache: {
            lease: '100ms',
            key_secret: 'one secret that both of them have',
            redis: { url: house.redis.url, namespace },
          },
        }),
      );
    }
  });
  afterEach(async () => {
    for (const gateway of gateways.splice(0)) await gateway.close();
  });

  const entriesOf = async (namespace: string) =>
    (await house.keys()).filter((key) => key.startsWith(`${namespace}:entry:`)).sort();

  test('share no answer, no session and no purge', async () => {
    const [one, other] = gateways as [TestGateway, TestGateway];
    await house.untilHit(one, 'Shared');
    const session = await house.begin(one);
    const answers = await house.untilHit(other, 'Shared');
    // What the other answers from its cache it has asked the engine for.
    expect(answers.map(({ status }) => status)).toContain('miss stored');
    let inSessionOfOne: StampedAnswer;
    do inSessionOfOne = await house.ask(other, 'Shared', session);
    while (inSessionOfOne.status === 'bypass session-unavailable');
    expect(inSessionOfOne.status).toBe('bypass unknown-session');

    await untilTrue(async () => (await entriesOf('team.b')).length === 1);
    const kept = await entriesOf('team.b');
    await house.load();
    const purged = (path: string) =>
      untilTrue(async () => {
        const { status } = await checkedFetch(`${one.url}/mdx/xmla${path}/clearCache`, {
          headers: { authorization: basic('ADMIN') },
        });
        return status === 200;
      });
    await Promise.all([purged(''), purged(`/${CATALOG}`)]);
    const renewed = await house.untilHit(one, 'Shared');
    expect(new Set(renewed.map(({ stamp }) => stamp?.data))).toEqual(new Set([house.data]));
    const untouched = (await house.untilHit(other, 'Shared')).at(-1);
    expect(untouched?.stamp?.data).toBe(house.data - 1);
    expect(await entriesOf('team.b')).toEqual(kept);
  });

  test('have no key in common', async () => {
    for (const gateway of gateways) await warmAt(gateway);
    const strange = (await house.keys()).filter(
      (key) => !/^(?:mdx|team|team\.b|\{(?:mdx|team|team\.b)\}):/u.test(key),
    );
    expect(strange).toEqual([]);
  });
});

async function warmAt(gateway: TestGateway): Promise<void> {
  await house.untilHit(gateway, 'Warm');
  await house.ask(gateway, 'Warm', await house.begin(gateway));
}

async function untilTrue(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await delay(5);
}
