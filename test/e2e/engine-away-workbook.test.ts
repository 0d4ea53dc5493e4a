import { beforeEach, describe, expect, test } from '@jest/globals';
import type { IncomingHttpHeaders } from 'node:http';
import {
  ASKED,
  EXCEL_HEADERS,
  excelBegin,
  excelRequest,
  excelStatement,
  GROUPING,
  type ExcelRequest,
} from '../support/excel-session.ts';
import { opened } from '../support/opened.ts';
import '../support/patient-redis.ts';
import { startRedis } from '../support/redis-server.ts';
import { startSessionEngine, UNKNOWN_SESSION } from '../support/session-engine.ts';
import { askStamped } from '../support/stamped-client.ts';
import { basic, startTestGateway } from '../support/test-gateway.ts';

const MINUTE = 60_000;
/** Time passes when a test says so, and else as it always does. */
let passed = 0;
const clock = { now: () => performance.now() + passed, wall: () => Date.now() + passed };
beforeEach(() => {
  passed = 0;
});

type Kind = 'generic' | 'ssas' | 'emondrian' | 'mondrian';

/** An engine, a Redis, a gateway, and what a person sees in a workbook whose first questions are answered. */
async function openHouse(kind: Kind, auth: object = {}) {
  const engine = await opened(
    startSessionEngine({ kind, now: clock.now, knows: (login) => login === basic('alice') }),
  );
  const redis = await opened(startRedis());
  const gateway = await opened(
    startTestGateway(
      {
        engine: { url: engine.url, kind, login: 'forward' },
        cache: { ttl: '1m', stale_if_error: '4h', lease: '1s', redis: { url: redis.url } },
        auth,
      },
      { clock },
    ),
  );
  const send = ({ body, soapAction }: ExcelRequest) =>
    askStamped(gateway.url, body, { headers: { ...EXCEL_HEADERS, soapaction: soapAction } });
  const { session = '' } = await send(excelBegin());
  const ask = async (question: string) => {
    const told = await send(excelRequest(question, session));
    return { ...told, head: told.answer.headers, detail: detailOf(told.answer.headers) };
  };
  for (const question of [PIVOT, PIVOT]) await ask(question);
  expect((await ask(PIVOT)).detail).toBe('memory');
  return {
    engine,
    redis,
    ask,
    begin: () => send(excelBegin()),
    group: () => send(excelStatement(GROUPING, session)),
  };
}

const detailOf = ({ 'cache-status': told }: IncomingHttpHeaders) =>
  /; detail=([\w-]+)/.exec(String(told))?.[1];
const [PIVOT = '', OTHER = ''] = ASKED.filter((question) => question.startsWith('SELECT'));
const CANNOT_BE_REACHED = 'The engine cannot be reached.';

describe.each(['generic', 'ssas', 'emondrian', 'mondrian'] as const)(
  'in a workbook that was open when the engine (%s) went',
  (kind) => {
    test('what was asked goes on being answered, and says how old it is and why', async () => {
      const { engine, ask } = await openHouse(kind);
      const right = (await ask(PIVOT)).stamp;
      engine.leave();
      expect((await ask(PIVOT)).detail).toBe('memory');
      passed += 10 * MINUTE;
      for (let at = 0; at < 3; at += 1) {
        const { stamp, answer, head } = await ask(PIVOT);
        expect([answer.status, head['cache-status'], stamp]).toEqual([
          200,
          expect.stringContaining('engine-away'),
          right,
        ]);
        expect(head['cache-status']).toMatch(/^mdx-gateway; hit; ttl=-5\d\d; detail=engine-away$/);
        expect(Number(head.age)).toBeGreaterThanOrEqual(600);
      }
    });

    test('what is new is refused in words, and all goes on when the engine is back', async () => {
      const { engine, ask, begin, group } = await openHouse(kind);
      engine.leave();
      passed += 2 * MINUTE;
      for (const told of [await ask(OTHER), await begin(), await group()]) {
        expect(told.answer.status).toBe(502);
        expect(told.answer.text).toContain(CANNOT_BE_REACHED);
      }
      await engine.comeBack();
      passed += 2_000;
      const again = await ask(OTHER);
      expect([again.answer.status, again.stamp?.created]).toEqual([200, []]);
      expect((await group()).answer.status).toBe(200);
      const { stamp, detail } = await ask(PIVOT);
      expect(stamp?.created).toEqual([GROUPING]);
      expect(detail).not.toBe('engine-away');
    });

    test('a grouping is not forgotten in what is answered past its ttl', async () => {
      const { engine, ask, group } = await openHouse(kind);
      await group();
      engine.leave();
      passed += 2 * MINUTE;
      expect((await ask(PIVOT)).answer.status).toBe(502);
    });
  },
);

describe.each(['generic', 'ssas', 'emondrian'] as const)(
  'when the engine (%s) comes back and knows no session any more',
  (kind) => {
    test('Excel is told so as the engine tells it', async () => {
      const { engine, ask } = await openHouse(kind);
      engine.leave();
      engine.restart();
      passed += 2 * MINUTE;
      expect((await ask(PIVOT)).detail).toBe('engine-away');
      await engine.comeBack();
      passed += 2_000;
      const { fault, stamp } = await ask(OTHER);
      expect([fault, stamp]).toEqual([UNKNOWN_SESSION, undefined]);
    });
  },
);

describe('an engine that is away together with Redis', () => {
  test('leaves nothing, since nothing tells of purges, until Redis is heard again', async () => {
    const { engine, redis, ask } = await openHouse('ssas');
    engine.leave();
    await redis.pause();
    passed += 2 * MINUTE;
    const { answer } = await ask(PIVOT);
    expect([answer.status, answer.text]).toEqual([502, expect.stringContaining(CANNOT_BE_REACHED)]);
    redis.resume();
    while ((await ask(PIVOT)).detail !== 'engine-away') passed += 1_000;
  });
});

describe('with logins that the engine checks', () => {
  test('a login that is believed is answered past the ttl, and later it is told why not', async () => {
    const { engine, ask } = await openHouse('generic', { provider: 'engine' });
    engine.leave();
    passed += 5 * MINUTE;
    expect((await ask(PIVOT)).detail).toBe('engine-away');
    expect((await ask(OTHER)).answer.status).toBe(502);
    passed += 10 * MINUTE;
    const { answer } = await ask(PIVOT);
    expect([answer.status, answer.text]).toEqual([
      502,
      expect.stringContaining('The login could not be checked'),
    ]);
    await engine.comeBack();
    passed += 2_000;
    expect((await ask(PIVOT)).answer.status).toBe(200);
  });
});
