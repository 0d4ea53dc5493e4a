import { describe, expect, test } from '@jest/globals';
import { createLog, logEvents } from '../../../src/observability/log.ts';

function logged(): { lines: string[]; on: ReturnType<typeof logEvents> } {
  const lines: string[] = [];
  const log = createLog({ level: 'debug' }, { write: (line: string) => void lines.push(line) });
  return { lines, on: logEvents(log) };
}

describe('an error in the log', () => {
  test('is told by type, message, code, stack and cause', () => {
    const { lines, on } = logged();
    const error = Object.assign(new TypeError('no way', { cause: new Error('deeper') }), {
      code: 'E1',
    });
    on({ type: 'internal-error', id: 'x', error });
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({
      level: 50,
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
    level: 40,
    time: expect.any(Number),
    state: 'down',
    why: 'connect ECONNREFUSED',
    code: 'ECONNREFUSED',
    msg: 'redis-state',
  });
  expect(up).toEqual({ level: 30, time: expect.any(Number), state: 'up', msg: 'redis-state' });
});

test('a request that was not understood says what was odd about it', () => {
  const { lines, on } = logged();
  const answered = {
    type: 'xmla-answered',
    ...{ id: 'x', principal: 'alice', project: '', subject: 'Execute', status: 200, bytes: 1 },
    ...{
      address: '',
      program: '',
      catalogs: [],
      cubes: '?' as const,
      digest: '',
      engine: undefined,
    },
    ...{ milliseconds: 1, saved: 0, complete: true },
  } as const;
  on({ ...answered, outcome: { kind: 'bypass', detail: 'unknown-shape' }, why: 'element Hint' });
  on({ ...answered, outcome: { kind: 'bypass', detail: 'session' }, why: '' });
  expect(lines.map((line) => (JSON.parse(line) as { why?: string }).why)).toEqual([
    'element Hint',
    undefined,
  ]);
});

test('of the API reads are told at debug, changes and refusals at info, with what is behind them', () => {
  const { lines, on } = logged();
  const read = {
    type: 'api-answered',
    ...{ id: 'x', principal: 'alice', operation: 'readRole', changes: false, status: 200 },
    ...{ reason: undefined, error: undefined, milliseconds: 1.4 },
  } as const;
  on(read);
  on({ ...read, operation: 'createRole', changes: true });
  on({ ...read, status: 404, reason: 'no-such-role' });
  const error = new Error('connection refused');
  on({ ...read, status: 503, reason: 'storage-unavailable', error });
  expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
    {
      level: 20,
      msg: 'api-answered',
      principal: 'alice',
      operation: 'readRole',
      status: 200,
      ms: 1,
    },
    { level: 30, operation: 'createRole' },
    { level: 30, status: 404, reason: 'no-such-role' },
    { level: 40, reason: 'storage-unavailable', err: { message: 'connection refused' } },
  ]);
});
