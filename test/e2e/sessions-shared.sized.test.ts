import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { setTimeout as wait } from 'node:timers/promises';
import { propertyOf } from '../support/engine-request.ts';
import { execute, type SessionSpec } from '../support/envelopes.ts';
import { startBlackHole, type BlackHole } from '../support/black-hole.ts';
import { withDeadlines } from '../support/patient-redis.ts';
import { bodyOf, type Reading, READS, TWISTED } from '../support/reading-requests.ts';
import { askRedis, startRedis, type RedisServer } from '../support/redis-server.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import {
  askStamped,
  beginSession,
  inSession,
  type StampedAnswer,
} from '../support/stamped-client.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { sampled } from '../support/sizes.ts';

const MEMBER = "CREATE SESSION MEMBER [Sales].[Measures].[Mine] AS '1'";
const PROPERTIES = { Catalog: 'Sales' };
const KINDS = ['emondrian', 'mondrian'] as const;
const MODES = ['refuse', 'hang'] as const;
/** A change that Redis did not confirm is soon tried again; leases are waited out. */
const sleep = (milliseconds: number) => wait(milliseconds > LEASE * 2 ? 10 : milliseconds);
const LEASE = 100;

let redis: RedisServer;
let hole: BlackHole;
let engine: SessionEngine;
const gateways: TestGateway[] = [];

beforeEach(async () => {
  redis = await startRedis();
  hole = await startBlackHole(redis.port);
});
afterEach(async () => {
  for (const gateway of gateways.splice(0)) await gateway.close();
  await engine?.close();
  await hole?.close();
  await redis?.close();
});

async function gatewayOf(kind: (typeof KINDS)[number], port = redis.port): Promise<TestGateway> {
  const gateway = await startTestGateway(
    {
      engine: { url: engine.url, kind },
      cache: { redis: { url: `redis://127.0.0.1:${port}` }, lease: `${LEASE}ms` },
    },
    { sleep },
  );
  gateways.push(gateway);
  return gateway;
}

let count = 0;
beforeEach(() => {
  count += 1;
});
const execution = (statement: string, session?: SessionSpec, catalog = 'Sales') =>
  execute({ statement, properties: { Catalog: catalog }, ...(session && { session }) });
const ask = (
  { url }: TestGateway,
  id?: string,
  statement = `SELECT FROM [Sales ${count}]`,
  catalog?: string,
) => askStamped(url, execution(statement, id === undefined ? undefined : inSession(id), catalog));
const begin = ({ url }: TestGateway) => beginSession(url, { properties: PROPERTIES });

/** Asks until an answer fits: a busy machine misses the deadlines of Redis, and goes on uncached. */
async function askUntil(
  fits: (answer: StampedAnswer) => boolean,
  next: () => Promise<StampedAnswer>,
): Promise<StampedAnswer> {
  for (;;) {
    const answer = await next();
    if (fits(answer)) return answer;
  }
}

const isHit = ({ status }: StampedAnswer) => status === 'hit';
const isSure = ({ status }: StampedAnswer) =>
  !['bypass session-unavailable', 'bypass epochs-unknown', 'gateway session-unavailable'].includes(
    status,
  );

describe.each(sampled(KINDS))('gateways before %s that share a Redis', (kind) => {
  test('share its sessions, what was made in them, and their end', async () => {
    engine = await startSessionEngine({ kind });
    const [one, other] = [await gatewayOf(kind), await gatewayOf(kind)];
    const [used, clean] = [await begin(one), await begin(other)];
    await askUntil(isHit, () => ask(other, used));
    const shared = await askUntil(isHit, () => ask(one, clean));
    expect([shared.session, shared.stamp?.created]).toEqual([clean, []]);

    const made = await askUntil(isSure, () => ask(one, used, MEMBER));
    expect(made.status).toBe('bypass not-a-query');
    // Not one lease later: now.
    const { stamp } = await ask(other, used);
    expect(stamp?.created).toEqual([MEMBER]);
    const later = await askUntil(isSure, () => ask(other, used));
    expect(later.status).toBe('bypass dirty-session');
    expect((await askUntil(isHit, () => ask(other, clean))).stamp?.created).toEqual([]);

    await askStamped(other.url, execution('', { kind: 'end', id: clean }));
    const ended = await askUntil(
      (answer) => isSure(answer) && !isHit(answer),
      () => ask(one, clean),
    );
    expect(ended.status).toBe(
      kind === 'emondrian' ? 'gateway unknown-session' : 'bypass unknown-session',
    );
  });

  test('take what only reads for that at both, and its twin for a change at both', async () => {
    engine = await startSessionEngine({ kind });
    const [one, other] = [await gatewayOf(kind), await gatewayOf(kind)];
    const id = await begin(one);
    await askUntil(isHit, () => ask(other, id));
    const send = (reading: Reading) => askStamped(one.url, bodyOf(reading, inSession(id)));
    for (const [, reading] of READS) {
      await askUntil(isSure, () => send(reading));
      expect((await askUntil(isSure, () => ask(other, id))).status).toBe('hit');
    }
    const [, twin] = TWISTED[0] ?? ['', {}];
    await askUntil(isSure, () => send(twin));
    for (const gateway of [other, one]) {
      const { status, stamp } = await askUntil(isSure, () => ask(gateway, id));
      expect([status, stamp?.created[0]]).toEqual(['bypass dirty-session', 'LEAVE']);
    }
  });

  test('know of sessions after a restart, and after the loss of Redis of those that they knew, as dirty ones', async () => {
    engine = await startSessionEngine({ kind });
    const before = await gatewayOf(kind);
    const [clean, dirty] = [await begin(before), await begin(before)];
    await askUntil(isHit, () => ask(before, clean));
    await askUntil(isSure, () => ask(before, dirty, MEMBER));
    await gateways.pop()?.close();
    const after = await gatewayOf(kind);
    expect((await askUntil(isHit, () => ask(after, clean))).stamp?.created).toEqual([]);
    const known = await askUntil(isSure, () => ask(after, dirty));
    expect([known.status, known.stamp?.created]).toEqual(['bypass dirty-session', [MEMBER]]);

    await askRedis(redis.port, 'FLUSHALL');
    for (const id of [clean, dirty]) {
      const created = id === dirty ? [MEMBER] : [];
      const lost = await askUntil(
        (answer) => isSure(answer) && !isHit(answer),
        () => ask(after, id),
      );
      expect([lost.status, lost.stamp?.created]).toEqual(['bypass dirty-session', created]);
    }
    const anew = await begin(after);
    expect((await askUntil(isHit, () => ask(after, anew))).stamp?.created).toEqual([]);
  });

  test.each(sampled(MODES))(
    'go on without the cache while Redis is away, and send nothing that changes a session (%s)',
    async (mode) => {
      engine = await startSessionEngine({ kind });
      const gateway = await gatewayOf(kind, hole.port);
      const id = await begin(gateway);
      await askUntil(isHit, () => ask(gateway, id));
      const whileAway = async () => {
        await hole.set(mode);
        const away = await askUntil(
          (answer) => !isHit(answer),
          () => ask(gateway, id),
        );
        expect(away.status).toMatch(/^bypass (session-unavailable|epochs-unknown)$/);
        expect([away.stamp?.created, away.computedIn]).toEqual([[], id]);

        const refused = await ask(gateway, id, MEMBER);
        expect([refused.status, refused.answer.status]).toEqual([
          'gateway session-unavailable',
          503,
        ]);
        // For that is what works then.
        expect(refused.answer.text).toContain('Try again, or begin a new session.');
        expect(refused.answer.text).toContain('Fault>');
        expect(refused.answer.headers['retry-after']).toBe('5');
        expect(engine.asked.filter(({ statement }) => statement === MEMBER)).toEqual([]);

        // Who begins one now can do in it what he likes, and nothing of it is stored.
        const begun = await begin(gateway);
        const own = await ask(gateway, begun);
        expect([own.stamp?.created, own.computedIn]).toEqual([[], begun]);
        expect(own.status).toBe('bypass dirty-session');
        const member = `${MEMBER} /* away */`;
        expect((await ask(gateway, begun, member)).answer.status).toBe(200);
        expect((await ask(gateway, begun)).stamp?.created).toEqual([member]);
        const ofOther = await askStamped(gateway.url, execution('x', inSession(begun)), {
          user: 'bob',
        });
        expect(ofOther.status).toBe('gateway unknown-session');

        if (kind === 'emondrian') {
          // It would move there, and the other gateways would not know.
          const moved = await ask(gateway, id, undefined, 'HR');
          expect([moved.status, moved.answer.status]).toEqual(['gateway session-unavailable', 503]);
          expect(moved.answer.headers['retry-after']).toBe('5');
          expect((await ask(gateway, begun, undefined, 'HR')).stamp?.catalog).toBe('HR');
          // Nothing is known of it here.
          expect((await ask(gateway, 'of another gateway')).answer.status).toBe(503);
          const moves = engine.asked.filter((one) => propertyOf(one, 'Catalog') === 'HR');
          expect(moves.map(({ session }) => session.id)).toEqual([begun]);
        }

        await hole.set('forward');
        // Of the session that had to be kept clean nobody knows whether it is: what was not sent made it dirty here.
        const back = await askUntil(isSure, () => ask(gateway, id));
        expect([back.stamp?.created, back.fault]).toEqual([[], undefined]);
        // What began meanwhile is known here, and soon at others.
        const other = await gatewayOf(kind);
        for (const one of [gateway, other]) {
          const still = await askUntil(
            ({ status }) => status === 'bypass dirty-session',
            () => ask(one, begun),
          );
          expect(still.stamp?.created).toEqual([member]);
        }
        let anew = '';
        const served = await askUntil(isHit, async () => {
          anew = await begin(gateway);
          return ask(gateway, anew);
        });
        expect(served.session).toBe(anew);
        expect(engine.asked.filter(({ statement }) => statement === MEMBER)).toEqual([]);
      };
      await withDeadlines(whileAway);
    },
  );
});
