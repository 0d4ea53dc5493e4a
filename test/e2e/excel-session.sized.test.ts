import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import {
  DISTINCT_QUESTIONS,
  EXCEL_HEADERS,
  excelBegin,
  excelEnd,
  excelRequests,
  excelStatement,
  GROUPING,
  type ExcelRequest,
} from '../support/excel-session.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import { sampled, sizes } from '../support/sizes.ts';
import { askStamped, type StampedAnswer } from '../support/stamped-client.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const KINDS = ['emondrian', 'ssas', 'generic', 'mondrian'] as const;
const USERS = Array.from({ length: sizes.excelUsers }, (_, at) => `analyst${at + 1}`);
const WORKBOOKS = USERS.flatMap((user) =>
  Array.from({ length: sizes.excelWorkbooks }, (_, at) => ({ user, number: at + 1 })),
);

let engine: SessionEngine;
let gateway: TestGateway;
/** All answers of all workbooks. */
let answers: StampedAnswer[];

async function start(kind: (typeof KINDS)[number]): Promise<void> {
  engine = await startSessionEngine({ kind });
  gateway = await startTestGateway(
    {
      engine: { url: engine.url, kind, login: 'forward' },
      cache: { share: 'everyone', engine_permissions_ignored: true },
      limits: { per_user: 64, concurrency: 64, queue: 10_000 },
    },
    {},
    USERS,
  );
}

beforeEach(() => {
  answers = [];
});
afterEach(async () => {
  await gateway?.close();
  await engine?.close();
});

/** Asks as the workbook of a user does. */
async function ask(user: string, request: ExcelRequest): Promise<StampedAnswer> {
  const headers = { ...EXCEL_HEADERS, soapaction: request.soapAction };
  const answer = await askStamped(gateway.url, request.body, { user, headers });
  answers.push(answer);
  expect([answer.answer.status, answer.fault]).toEqual([200, undefined]);
  return answer;
}

interface Opened {
  readonly session: string;
  readonly answers: readonly StampedAnswer[];
}

/**
 * Opens a workbook, works with it, and closes it.
 * @param grouping after how many requests its user groups something
 */
async function work(user: string, grouping = Infinity): Promise<Opened> {
  const session = (await ask(user, excelBegin())).session ?? '';
  const own: StampedAnswer[] = [];
  for (const [at, request] of excelRequests(session).entries()) {
    if (at === grouping) await ask(user, excelStatement(GROUPING, session));
    own.push(await ask(user, request));
  }
  await ask(user, excelEnd(session));
  // Its own session or none; ssas shows it only sometimes, the others always.
  const shown = new Set(own.map((one) => one.session));
  expect([[session], [session, undefined], [undefined, session], [undefined]]).toContainEqual([
    ...shown,
  ]);
  return { session, answers: own };
}

/** What the engine was asked, in words, and how often. */
function seen(): Map<string, number> {
  const counted = new Map<string, number>();
  for (const { session, method, statement, requestType, restrictions } of engine.asked) {
    const what =
      session.kind === 'in'
        ? JSON.stringify([method, statement, requestType, restrictions])
        : session.kind;
    counted.set(what, (counted.get(what) ?? 0) + 1);
  }
  return counted;
}

/** That each distinct question came once, and nothing else but the beginning and the end of each session. */
function expectEachOnce(): void {
  const counted = seen();
  for (const kind of ['begin', 'end']) {
    expect([kind, counted.get(kind)]).toEqual([kind, WORKBOOKS.length]);
    counted.delete(kind);
  }
  expect([...counted].filter(([, times]) => times > 1)).toEqual([]);
  expect(counted.size).toBe(DISTINCT_QUESTIONS);
}

function expectTransportFlags(): void {
  const flags = answers.map(({ answer }) => answer.headers['x-transport-caps-negotiation-flags']);
  expect(new Set(flags)).toEqual(new Set(['0,0,0,0,0']));
}

const HOW = [
  ['all at one time', atOnce],
  ['one after the other', inTurn],
] as const;

async function inTurn<T>(works: readonly (() => Promise<T>)[]): Promise<T[]> {
  const done: T[] = [];
  for (const one of works) done.push(await one());
  return done;
}

function atOnce<T>(works: readonly (() => Promise<T>)[]): Promise<T[]> {
  return Promise.all(works.map((one) => one()));
}

describe.each(KINDS)('workbooks of several users over %s', (kind) => {
  const how = kind === KINDS[0] ? HOW : sampled(HOW);
  test.each(how)('ask the engine each question once (%s)', async (_how, all) => {
    await start(kind);
    const opened = await all(
      WORKBOOKS.map(
        ({ user }) =>
          () =>
            work(user),
      ),
    );
    expectEachOnce();
    expectTransportFlags();
    expect(new Set(opened.map(({ session }) => session)).size).toBe(WORKBOOKS.length);
    for (const { session, answers: own } of opened) {
      expect(own.map(({ stamp }) => stamp?.created)).toEqual(own.map(() => []));
      // Nothing but what its engine leaves out is left out.
      if (kind !== 'ssas')
        expect(new Set(own.map((one) => one.session))).toEqual(new Set([session]));
    }
    const hits = answers.filter(({ status }) => status === 'hit').length;
    expect(hits).toBe(answers.length - 2 * WORKBOOKS.length - DISTINCT_QUESTIONS);
  });

  test.each(how)('keep what one of them groups to itself (%s)', async (_how, all) => {
    await start(kind);
    const GROUPED_AFTER = 20;
    const works = WORKBOOKS.map(
      ({ user }, at) =>
        () =>
          work(user, at === 1 ? GROUPED_AFTER : Infinity),
    );
    const opened = await all(works);
    for (const [at, { session, answers: own }] of opened.entries()) {
      const grouped = own.map((_, turn) => (at === 1 && turn >= GROUPED_AFTER ? [GROUPING] : []));
      expect(own.map(({ stamp }) => stamp?.created)).toEqual(grouped);
      if (at !== 1) continue;
      const later = own.slice(GROUPED_AFTER);
      expect(new Set(later.map(({ status }) => status))).toEqual(new Set(['bypass dirty-session']));
      expect(new Set(later.map(({ computedIn }) => computedIn))).toEqual(new Set([session]));
      const reached = engine.asked.filter(
        (one) => one.session.id === session && one.session.kind === 'in',
      );
      expect(reached.slice(-later.length - 1)[0]?.statement).toBe(GROUPING);
    }
    expectTransportFlags();
  });
});

test('also an error and a refused login carry the transport flags that clients expect', async () => {
  await start('emondrian');
  const [request] = excelRequests('unknown');
  const { answer } = await askStamped(gateway.url, request?.body ?? Buffer.alloc(0), {
    user: 'analyst1',
    headers: EXCEL_HEADERS,
  });
  const refused = await askStamped(gateway.url, excelBegin().body, {
    user: 'nobody',
    headers: EXCEL_HEADERS,
  });
  expect([answer.status, refused.answer.status]).toEqual([200, 401]);
  for (const { headers } of [answer, refused.answer]) {
    expect(headers['x-transport-caps-negotiation-flags']).toBe('0,0,0,0,0');
  }
});
