import { describe, expect, jest, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { systemClock } from '../../src/common/clock.ts';
import type { Parts } from '../../src/compose/parts.ts';
import { startBlackHole } from '../support/black-hole.ts';
import { execute } from '../support/envelopes.ts';
import {
  EXCEL_HEADERS,
  excelBegin,
  excelEnd,
  excelRequests,
  excelStatement,
  GROUPING,
  type ExcelRequest,
} from '../support/excel-session.ts';
import { linkPair } from '../support/link-pair.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import { sizes, strided } from '../support/sizes.ts';
import {
  askStamped,
  beginSession,
  inSession,
  type StampedAnswer,
} from '../support/stamped-client.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { closeLatest, opened } from '../support/opened.ts';
import { testPrimary } from '../support/primary.ts';

jest.setTimeout(300_000);

const KINDS = ['generic', 'ssas', 'emondrian'] as const;
const USERS = Array.from({ length: sizes.awayUsers }, (_, at) => `analyst${at + 1}`);
const MEMBER = "CREATE SESSION MEMBER [Sales].[Measures].[Mine] AS '1'";

type Kind = (typeof KINDS)[number];

const gatewayOf = (kind: Kind, engine: SessionEngine, port: number, parts: Partial<Parts> = {}) =>
  opened(
    startTestGateway(
      {
        engine: { url: engine.url, kind, login: 'forward' },
        cache: {
          share: 'everyone',
          engine_permissions_ignored: true,
          lease: '100ms',
          redis: { url: `redis://127.0.0.1:${port}` },
        },
        limits: { per_user: 64, concurrency: 64, queue: 10_000 },
      },
      parts,
      USERS,
    ),
  );

type Workbook = Awaited<ReturnType<typeof openWorkbook>>;

/**
 * What a user sees who opens a workbook and works in it. Nobody is refused, whatever is asked.
 * @param fromFirst whether its session is dirty from its first moment
 */
async function openWorkbook(gateway: TestGateway, user: string, fromFirst: boolean) {
  /** What was made in its session. */
  let made: readonly string[] = [];
  let asked = 0;
  let isDirty = fromFirst;

  const send = ({ url }: TestGateway, { body, soapAction }: ExcelRequest) =>
    askStamped(url, body, { user, headers: { ...EXCEL_HEADERS, soapaction: soapAction } });

  async function ask(request: ExcelRequest): Promise<StampedAnswer> {
    const answer = await send(gateway, request);
    const { status, fault } = answer;
    expect([answer.answer.status, status, fault]).toEqual([200, status, undefined]);
    expect(status).not.toMatch(/unknown-session/u);
    return answer;
  }

  // As Excel does it: the catalog comes later.
  const { body, ...begin } = excelBegin();
  const text = body.toString().replace('<Catalog>FoodMart</Catalog>', '');
  const { session = '' } = await ask({ ...begin, body: Buffer.from(text) });
  const requests = excelRequests(session);
  function next(): ExcelRequest {
    const request = requests[(asked += 1) % requests.length];
    if (request === undefined) throw new Error('a workbook asks nothing');
    return request;
  }

  return {
    /** The next so many requests. Resolves to what became of the last. */
    async work(count: number): Promise<string> {
      let last = '';
      for (let at = 0; at < count; at += 1) {
        const { stamp, status } = await ask(next());
        expect(stamp?.created).toEqual(made);
        if (isDirty) expect(status).not.toBe('hit');
        isDirty ||= status === 'bypass dirty-session';
        last = status;
        await delay(sizes.awayThinking);
      }
      return last;
    },
    /** A statement that its session remembers. */
    async group(): Promise<void> {
      await ask(excelStatement(GROUPING, session));
      made = [...made, GROUPING];
      isDirty = true;
    },
    /** One more request, to another gateway, however that takes it. */
    statusAt: async (other: TestGateway) => (await send(other, next())).status,
    end: () => ask(excelEnd(session)),
  };
}

const all = <T, U>(many: readonly T[], work: (one: T) => Promise<U>) => Promise.all(many.map(work));

/** How Redis goes away, and comes back. */
const OUTAGES: readonly {
  readonly name: string;
  readonly appendonly?: boolean;
  away(redis: RedisServer): Promise<void>;
  back(redis: RedisServer): unknown;
}[] = [
  {
    name: 'is stopped, and restarted empty',
    away: (redis) => redis.stop('SIGKILL'),
    back: (redis) => redis.restart(),
  },
  {
    name: 'is stopped, and restarted with its data',
    appendonly: true,
    away: (redis) => redis.stop('SIGKILL'),
    back: (redis) => redis.restart(),
  },
  { name: 'hangs, and goes on', away: (redis) => redis.pause(), back: (redis) => redis.resume() },
];

const CASES = KINDS.flatMap((kind) =>
  OUTAGES.map((outage) => [kind, outage.name, outage] as const),
);

describe('no user is turned away, whenever the workbooks were opened', () => {
  test.each(strided(CASES, sizes.awayStride))(
    'before %s, while Redis %s',
    async (kind, _name, { appendonly = false, away, back }) => {
      const engine = await opened(startSessionEngine({ kind }));
      const redis = await opened(startRedis({ appendonly }));
      const gateway = await gatewayOf(kind, engine, redis.port);
      const openedBefore = await all(USERS, (user) => openWorkbook(gateway, user, false));
      await all(openedBefore, (workbook) => workbook.work(12));

      await away(redis);
      const until = Date.now() + sizes.awayTime;
      const openedMeanwhile: Workbook[] = [];
      await Promise.all([
        all(openedBefore, async (workbook) => {
          do await workbook.work(4);
          while (Date.now() < until);
        }),
        all(USERS, async (user) => {
          do {
            const workbook = await openWorkbook(gateway, user, true);
            openedMeanwhile.push(workbook);
            await workbook.work(12);
            await workbook.group();
            await workbook.work(4);
          } while (Date.now() < until);
        }),
      ]);
      await back(redis);

      const both = [...openedBefore, ...openedMeanwhile];
      const other = await gatewayOf(kind, engine, redis.port);
      await all(openedMeanwhile, async (workbook) => {
        do await workbook.work(1);
        while ((await workbook.statusAt(other)) !== 'bypass dirty-session');
      });
      await all(both, (workbook) => workbook.work(12));
      await all(both, (workbook) => workbook.end());
      // What is opened now is served from the cache again.
      const isServed = async () => {
        const workbook = await openWorkbook(gateway, 'alice', false);
        return (await workbook.work(12)) === 'hit';
      };
      while (!(await isServed())) await delay(10);
      console.log(`workbooks while Redis was away: ${openedMeanwhile.length}`);
    },
  );
});

test('a gateway that ends before Redis is back tells how many sessions it loses', async () => {
  const engine = await opened(startSessionEngine({ kind: 'generic' }));
  const redis = await opened(startRedis());
  const gateway = await gatewayOf('generic', engine, redis.port);
  await redis.stop();
  await openWorkbook(gateway, 'alice', true);
  await closeLatest();
  expect(gateway.events).toContainEqual({
    type: 'warning',
    message: 'sessions that Redis was not told of are lost: 1',
  });
});

describe('a gateway with workers', () => {
  test('knows at each of them what began at one that Redis was away for, and what Redis has lost', async () => {
    const engine = await opened(startSessionEngine({ kind: 'generic' }));
    const redis = await opened(startRedis());
    const attach = testPrimary(systemClock);
    const join = async () => {
      const hole = await opened(startBlackHole(redis.port));
      const pair = linkPair();
      attach(pair.primary);
      const worker = await gatewayOf('generic', engine, hole.port, { primary: pair.worker });
      return { hole, worker };
    };
    const [one, other] = [await join(), await join()];
    const ask = (at: typeof one, id: string, statement = 'SELECT FROM [Sales]') =>
      askStamped(at.worker.url, execute({ statement, session: inSession(id) }));
    const isDirty = async (at: typeof one, id: string, made: readonly string[]) => {
      const { status, stamp, fault } = await ask(at, id);
      expect([fault, stamp?.created]).toEqual([undefined, made]);
      return status === 'bypass dirty-session';
    };
    const early = await beginSession(one.worker.url);
    await one.hole.set('refuse');
    const id = await beginSession(one.worker.url);
    expect((await ask(one, id, MEMBER)).answer.status).toBe(200);
    for (const at of [one, other]) expect(await isDirty(at, id, [MEMBER])).toBe(true);
    // Noted by the one that still reaches Redis; the other needs not wait for that.
    const later = { ...one, worker: await gatewayOf('generic', engine, redis.port) };
    while ((await ask(later, id)).status !== 'bypass dirty-session') await delay(5);
    expect((await ask(one, id, MEMBER)).answer.status).toBe(200);
    const made = [MEMBER, MEMBER];
    await redis.restart({ signal: 'SIGKILL' });
    await one.hole.set('forward');
    // The other one never heard of it; Redis is away for it for a moment.
    for (const at of [other, one]) {
      while (!(await isDirty(at, early, []))) await delay(5);
      while (!(await isDirty(at, id, made))) await delay(5);
    }
  });
});
