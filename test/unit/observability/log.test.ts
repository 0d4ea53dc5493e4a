import { describe, expect, test } from '@jest/globals';
import type { GatewayEvent } from '../../../src/common/events.ts';
import type { LogConfig } from '../../../src/observability/config.ts';
import { EVENTS } from '../../../src/features/events.ts';
import { auditLines, createLog } from '../../../src/observability/log.ts';
import { answered } from '../../support/answered.ts';

const CONFIG: LogConfig = { level: 'debug', slow: 5_000, statements: 'off' };

function logged(config: Partial<LogConfig> = {}) {
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const { on, configure } = createLog(EVENTS, { ...CONFIG, ...config }, { write });
  return {
    lines,
    on,
    configure,
    told: () => lines.splice(0).map((line) => JSON.parse(line) as Record<string, unknown>),
  };
}

describe('an error in the log', () => {
  test('is told by type, message, code, stack and cause', () => {
    const { lines, on } = logged();
    const error = Object.assign(new TypeError('no way', { cause: new Error('deeper') }), {
      code: 'E1',
    });
    on({ type: 'internal-error', id: 'x', error });
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({
      level: 'error',
      err: { type: 'TypeError', message: 'no way', code: 'E1', cause: { message: 'deeper' } },
    });
  });

  test('never holds what a driver hangs on it: passwords, keys, bodies', () => {
    const { lines, on } = logged();
    const error = Object.assign(new Error('WRONGPASS invalid pair'), {
      command: { name: 'auth', args: ['default', 'a secret'] },
      cause: Object.assign(new Error('deeper'), { options: { password: 'a secret' } }),
    });
    on({ type: 'redis-failed', operation: 'connect', error });
    const unknown = "ERR unknown command 'AUTH', with args beginning with: 'user' 'a secret' ";
    on({ type: 'redis-failed', operation: 'connect', error: new Error(unknown) });
    on({ type: 'internal-error', id: 'x', error });
    on({ type: 'engine-failed', project: '', reason: 'engine-unreachable', error });
    expect(lines).toHaveLength(4);
    expect(lines.join('')).not.toContain('a secret');
  });

  test('of an engine is told with the replica, message and code, and without its stack', () => {
    const { lines, on } = logged();
    const refused = Object.assign(new Error('connect ECONNREFUSED', { cause: new Error('why') }), {
      code: 'ECONNREFUSED',
    });
    const replica = 'http://olap-1/mdx/xmla';
    on({
      type: 'engine-failed',
      project: 'p',
      replica,
      reason: 'engine-unreachable',
      error: refused,
    });
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({
      project: 'p',
      replica,
      err: { type: 'Error', message: 'connect ECONNREFUSED', code: 'ECONNREFUSED', cause: {} },
    });
    expect(lines.join('')).not.toContain('stack');
  });

  test('of an engine keeps its stack when the program is mistaken', () => {
    const { lines, on } = logged();
    const error = new TypeError('x is not a function');
    on({ type: 'engine-failed', project: '', reason: 'engine-unreachable', error });
    expect(lines.join('')).toContain('"stack"');
  });

  test('is told when it is no Error at all', () => {
    const { lines, on } = logged();
    on({ type: 'internal-error', id: 'x', error: 'a text' });
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ err: 'a text' });
  });
});

test('what keeps Redis away is told as a warning, without a stack; that it is back as news', () => {
  const { lines, on } = logged();
  on({ type: 'redis-state', state: 'down', why: 'connect ECONNREFUSED', code: 'ECONNREFUSED' });
  on({ type: 'redis-state', state: 'up' });
  const [down, up] = lines.map((line) => JSON.parse(line) as object);
  expect(down).toEqual({
    level: 'warn',
    time: expect.any(String),
    state: 'down',
    why: 'connect ECONNREFUSED',
    code: 'ECONNREFUSED',
    msg: 'redis-state',
  });
  expect(up).toEqual({ level: 'info', time: expect.any(String), state: 'up', msg: 'redis-state' });
});

test('a request that was not understood says what was odd about it', () => {
  const { lines, on } = logged();
  on(answered({ outcome: { kind: 'bypass', detail: 'unknown-shape' }, why: 'element Hint' }));
  on(answered({ outcome: { kind: 'bypass', detail: 'session' } }));
  expect(lines.map((line) => (JSON.parse(line) as { why?: string }).why)).toEqual([
    'element Hint',
    undefined,
  ]);
});

test('what an administrator looked into is told with the name, and stays when other lines are dropped', () => {
  const { on, told } = logged({ level: 'info' });
  const looked: readonly GatewayEvent[] = [
    { type: 'explained', id: 'x', principal: 'ADMIN', user: 'alice', project: 'Shop' },
    {
      type: 'compared',
      ...{ id: 'x', principal: 'ADMIN', project: '', digest: 'D', verdict: 'stale' },
    },
    { type: 'diagnosis-saved', principal: 'eve' },
  ];
  for (const event of looked) on(event);
  const lines = told();
  const form = { level: 'info', time: expect.any(String) };
  expect(lines).toEqual(
    looked.map(({ type, ...facts }) => Object.assign({ msg: type }, form, facts)),
  );
  const isAuditLine = auditLines(EVENTS);
  expect(lines.map((line) => isAuditLine(String(line['msg']), line))).toEqual([true, true, true]);
  expect(isAuditLine('xmla-answered', {})).toBe(false);
});

test('a purge of a project that no gateway knows is a warning, where a client named it', () => {
  const { on, told } = logged();
  const purged = {
    type: 'purged',
    cause: 'clear-cache',
    result: 'cleared',
    ...{ id: 'x', scope: { project: 'Lern' }, principal: 'loader', replicas: 1, waited: 0 },
    ...{ engine_calls: 0, milliseconds: 1 },
  } as const;
  on({ ...purged, known: true });
  on({ ...purged, known: false });
  on({ ...purged, known: false, cause: 'change' });
  on({ ...purged, known: false, result: 'owed' });
  expect(told().map(({ level, known }) => [level, known])).toEqual([
    ['info', true],
    ['warn', false],
    ['info', false],
    ['error', false],
  ]);
});

test('of the API reads are told at debug, changes and refusals at info, with what is behind them', () => {
  const { lines, on } = logged();
  const read = {
    type: 'api-answered',
    ...{ id: 'x', principal: 'alice', operation: 'readRole', changes: false, status: 200 },
    ...{ subject: 'role Sales', reason: undefined, error: undefined, milliseconds: 1.4 },
  } as const;
  on(read);
  on({ ...read, operation: 'createRole', changes: true });
  on({ ...read, status: 404, reason: 'no-such-role' });
  const error = new Error('connection refused');
  on({ ...read, status: 503, reason: 'storage-unavailable', error });
  expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
    {
      level: 'debug',
      msg: 'api-answered',
      principal: 'alice',
      operation: 'readRole',
      status: 200,
      ms: 1,
    },
    { level: 'info', operation: 'createRole', subject: 'role Sales' },
    { level: 'info', status: 404, reason: 'no-such-role' },
    { level: 'warn', reason: 'storage-unavailable', err: { message: 'connection refused' } },
  ]);
});

describe('the line of a request', () => {
  const ANSWERED = answered({
    ...{ id: 'R-1', program: 'MSOLAP', catalogs: ['Shop'], cubes: ['Sales'], digest: 'D' },
    outcome: { kind: 'miss', stored: true },
    ...{ bytes: 7, milliseconds: 1_234.6, statement: 'SELECT FROM [Sales]' },
    engine: { waited: 1_000.4, first: 200.6, last: 234.2 },
    trace: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  });

  test('says who asked what, how long it waited and what the engine took, in rounded milliseconds', () => {
    const { on, told } = logged();
    on(ANSWERED);
    expect(told()).toEqual([
      {
        level: 'info',
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        ...{
          id: 'R-1',
          principal: 'alice',
          address: '10.0.0.7',
          program: 'MSOLAP',
          project: 'Shop',
        },
        ...{ catalogs: ['Shop'], cubes: ['Sales'], digest: 'D', subject: 'Execute' },
        ...{ kind: 'miss', stored: true, status: 200, bytes: 7, saved: 0, complete: true },
        ...{ ms: 1_235, waited_ms: 1_000, engine_first_ms: 201, engine_ms: 234 },
        trace: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        msg: 'xmla-answered',
      },
    ]);
  });

  test('is a warning for a slow one, a hit too, from log.slow on', () => {
    const { on, told, configure } = logged({ level: 'warn', slow: 1_000 });
    const hit: GatewayEvent = { ...ANSWERED, outcome: { kind: 'hit', detail: 'coalesced' } };
    on(hit);
    on({ ...ANSWERED, milliseconds: 999 });
    expect(told()).toMatchObject([{ level: 'warn', slow: true, kind: 'hit', ms: 1_235 }]);
    configure({ ...CONFIG, level: 'warn', slow: 0 });
    on(hit);
    expect(told()).toEqual([]);
  });

  test('holds the statement only where log.statements says so', () => {
    const { on, told, configure } = logged({ slow: 1_000 });
    const quick: GatewayEvent = { ...ANSWERED, milliseconds: 1 };
    const texts = () => {
      on(ANSWERED);
      on(quick);
      return told().map(({ statement }) => statement);
    };
    expect(texts()).toEqual([undefined, undefined]);
    configure({ ...CONFIG, slow: 1_000, statements: 'slow' });
    expect(texts()).toEqual(['SELECT FROM [Sales]', undefined]);
    configure({ ...CONFIG, slow: 1_000, statements: 'all' });
    expect(texts()).toEqual(['SELECT FROM [Sales]', 'SELECT FROM [Sales]']);
    on({ ...ANSWERED, statement: 'x'.repeat(5_000) });
    expect(String(told()[0]?.['statement'])).toHaveLength(2_000);
  });
});
