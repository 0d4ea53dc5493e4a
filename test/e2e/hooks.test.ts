import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { handClock } from '../unit/cache/fakes.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { askLearn, clearingSettings, statusOf } from '../support/clearing.ts';
import { execute } from '../support/envelopes.ts';
import {
  callDbtHook,
  callHook,
  callKylinHook,
  dbtRun,
  kylinJob,
  SECRET,
  signatureOf,
} from '../support/hooks.ts';
import { askXmla, portOf, send, shortStatus, until, type Answer } from '../support/http-client.ts';
import { sendText, startKylinEngine } from '../support/kylin-engine.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const HOOKS = {
  kylin: { format: 'kylin5', user: 'kylin-hook', projects: { shop: 'Shop' } },
  dbt: { format: 'dbt', secret: SECRET, projects: ['Shop', 'Stock'] },
};

let engine: StubEngine;
let gateway: TestGateway;
const query = execute({ statement: 'SELECT FROM [Sales]', properties: { Catalog: 'Sales' } });

const startOne = (settings: object = {}, parts: Parameters<typeof startTestGateway>[1] = {}) =>
  startTestGateway({ engine: { url: engine.url }, hooks: HOOKS, ...settings }, parts, [
    'kylin-hook',
  ]);
const ask = async (project: string) =>
  shortStatus(await askXmla(gateway.url, query, { path: `/mdx/xmla/${project}` }));
const PROJECTS = ['Shop', 'Stock', 'Other'];
const cached = async () => {
  const statuses: string[] = [];
  for (const project of PROJECTS) statuses.push(await ask(project));
  return PROJECTS.filter((_, at) => statuses[at] === 'hit');
};
const calls = () => gateway.events.filter(({ type }) => type === 'hook-called');
const purges = () => gateway.events.filter(({ type }) => type === 'purged');
const told = ({ status, text }: Answer) => [status, JSON.parse(text) as unknown];

async function counted(hook: string, result: string): Promise<number> {
  const headers = { authorization: basic('alice') };
  const { text } = await send(gateway.url, { path: '/metrics', headers });
  const line = `mdx_gateway_hook_calls_total{hook="${hook}",result="${result}"} `;
  return Number(text.split(line)[1]?.split('\n')[0] ?? 0);
}

beforeAll(async () => {
  engine = await startStubEngine(sendXml(mddatasetAnswer()));
  gateway = await startOne();
});
afterAll(async () => {
  await gateway.close();
  await engine.close();
});
/** Every test begins with an answer of each project. */
beforeEach(async () => {
  for (const project of PROJECTS) await ask(project);
});

describe('a hook', () => {
  test.each([
    ['kylin', () => callKylinHook(gateway.url, 'kylin', 'kylin-hook'), ['Shop']],
    ['dbt', () => callDbtHook(gateway.url, 'dbt'), ['Shop', 'Stock']],
  ])(
    'purges its projects and nothing else, and tells who did: %s',
    async (name, call, projects) => {
      expect(await cached()).toEqual(PROJECTS);
      const before = [purges().length, await counted(name, 'cleared')] as const;
      const answer = await call();
      const id = answer.headers['x-request-id'];
      expect(told(answer)).toEqual([200, { status: 'cleared', id }]);
      expect(answer.headers['content-type']).toBe('application/json');
      expect(await cached()).toEqual(PROJECTS.filter((one) => !projects.includes(one)));
      const by = { principal: `hook:${name}`, cause: 'hook', call: id, result: 'cleared' };
      const expected = projects.map((project) =>
        expect.objectContaining({ ...by, scope: { project } }),
      );
      expect(purges().slice(before[0])).toEqual(expected);
      expect(calls().at(-1)).toEqual({
        type: 'hook-called',
        id,
        hook: name,
        result: 'cleared',
        projects,
      });
      expect(await counted(name, 'cleared')).toBe(before[1] + 1);
      const headers = { authorization: basic('ADMIN') };
      const { text } = await send(gateway.url, { path: '/admin/purges?limit=1', headers });
      expect(JSON.parse(text)).toMatchObject({ purges: [{ ...by, call: id }] });
    },
  );

  test.each([
    ['kylin', kylinJob({ job_state: 'ERROR' })],
    ['kylin', kylinJob({ job_type: 'SNAPSHOT_REFRESH' })],
    ['kylin', kylinJob({ job_type: 'A_TYPE_OF_LATER_VERSIONS' })],
    ['dbt', dbtRun({ eventType: 'job.run.errored' })],
  ])('purges also by %s %s', async (name, body) => {
    const call = name === 'dbt' ? callDbtHook : callKylinBody;
    expect((await call(gateway.url, name, body)).status).toBe(200);
    expect(await cached()).not.toContain('Shop');
  });

  test.each([
    ['kylin', kylinJob({ job_type: 'INDEX_BUILD' })],
    ['kylin', kylinJob({ job_type: 'TABLE_SAMPLING' })],
    ['kylin', kylinJob({ job_type: 'ASYNC_QUERY' })],
    ['dbt', dbtRun({ eventType: 'job.run.started' })],
  ])('ignores what changes no answer: %s %s', async (name, body) => {
    const call = name === 'dbt' ? callDbtHook : callKylinBody;
    const before = [purges().length, await counted(name, 'ignored')] as const;
    const answer = await call(gateway.url, name, body);
    const id = answer.headers['x-request-id'];
    expect(told(answer)).toEqual([200, { status: 'ignored', id }]);
    expect([purges().length, await counted(name, 'ignored')]).toEqual([before[0], before[1] + 1]);
    expect(await cached()).toEqual(PROJECTS);
  });

  test('takes a message whose body is compressed', async () => {
    const authorization = basic('kylin-hook');
    const headers = { authorization, 'content-encoding': 'gzip' };
    const answer = await callHook(gateway.url, 'kylin', gzipSync(kylinJob()), headers);
    expect([answer.status, await cached()]).toEqual([200, ['Stock', 'Other']]);
  });
});

const callKylinBody = (base: string, name: string, body: string) =>
  callKylinHook(base, name, 'kylin-hook', body);

const proofOf = (body: string, secret?: string) => ({ authorization: signatureOf(body, secret) });
const ofUser = (user: string) => ({ authorization: basic(user) });
const good = dbtRun();
const old = dbtRun({}, Date.now() - 11 * 60_000);
const TOO_LONG = JSON.stringify({
  ...(JSON.parse(kylinJob()) as object),
  more: 'x'.repeat(65_536),
});

const REFUSED: readonly (readonly [
  what: string,
  status: number,
  hook: 'kylin' | 'dbt',
  headers: Readonly<Record<string, string>>,
  body: string | Buffer,
])[] = [
  ['no login', 401, 'kylin', {}, kylinJob()],
  ['a wrong password', 401, 'kylin', { authorization: 'Basic eDp5' }, kylinJob()],
  ['the login of an administrator', 403, 'kylin', ofUser('ADMIN'), kylinJob()],
  ['a signature in the place of a login', 401, 'kylin', proofOf(good), good],
  ['a project of others', 403, 'kylin', ofUser('kylin-hook'), kylinJob({ project: 'Stock' })],
  [
    'a project as it is called here',
    403,
    'kylin',
    ofUser('kylin-hook'),
    kylinJob({ project: 'Shop' }),
  ],
  ['no project', 400, 'kylin', ofUser('kylin-hook'), kylinJob({ project: undefined })],
  [
    'a project that is no text',
    400,
    'kylin',
    ofUser('kylin-hook'),
    kylinJob({ project: ['shop'] }),
  ],
  ['no type of job', 400, 'kylin', ofUser('kylin-hook'), kylinJob({ job_type: '' })],
  ['no body', 400, 'kylin', ofUser('kylin-hook'), ''],
  ['no JSON', 400, 'kylin', ofUser('kylin-hook'), 'project=shop&job_type=INC_BUILD'],
  ['a list', 400, 'kylin', ofUser('kylin-hook'), `[${kylinJob()}]`],
  ['null', 400, 'kylin', ofUser('kylin-hook'), 'null'],
  [
    'JSON in another encoding',
    400,
    'kylin',
    ofUser('kylin-hook'),
    Buffer.from(kylinJob(), 'utf16le'),
  ],
  ['a long body', 413, 'kylin', ofUser('kylin-hook'), TOO_LONG],
  [
    'a body that is long once it is decoded',
    413,
    'kylin',
    { ...ofUser('kylin-hook'), 'content-encoding': 'gzip' },
    gzipSync(TOO_LONG),
  ],
  [
    'a page of another site',
    403,
    'kylin',
    { ...ofUser('kylin-hook'), 'sec-fetch-site': 'cross-site' },
    kylinJob(),
  ],
  [
    'a page of another origin',
    403,
    'kylin',
    { ...ofUser('kylin-hook'), origin: 'https://other.example' },
    kylinJob(),
  ],
  ...['eventId', 'eventType', 'timestamp'].map((field) => {
    const body = dbtRun({ [field]: field === 'timestamp' ? 'yesterday' : undefined });
    return [`a message without ${field}`, 400, 'dbt', proofOf(body), body] as const;
  }),
  ['no signature', 401, 'dbt', {}, good],
  ['a login in the place of a signature', 401, 'dbt', ofUser('ADMIN'), good],
  ['a signature by another secret', 401, 'dbt', proofOf(good, 'another secret of dbt'), good],
  ['the signature of another message', 401, 'dbt', proofOf(dbtRun()), good],
  ['a signature that is cut off', 401, 'dbt', { authorization: signatureOf(good).slice(2) }, good],
  ['a message of eleven minutes ago', 403, 'dbt', proofOf(old), old],
  [
    'a page of another site',
    403,
    'dbt',
    { ...proofOf(good), 'sec-fetch-site': 'cross-site' },
    good,
  ],
  ['a long body', 413, 'dbt', proofOf(TOO_LONG), TOO_LONG],
];

describe('is refused, purges nothing, and is counted', () => {
  test.each(REFUSED)('%s: %s', async (_what, status, name, headers, body) => {
    const before = [purges().length, await counted(name, 'refused')] as const;
    const answer = await callHook(gateway.url, name, body, headers);
    expect(answer.status).toBe(status);
    expect(answer.text).not.toMatch(/cleared|accepted|ignored/);
    const isLogin = status === 401 && name === 'kylin';
    expect(answer.headers['www-authenticate']?.split(' ')[0]).toBe(isLogin ? 'Basic' : undefined);
    const counts = [purges().length, await counted(name, 'refused')];
    expect(counts).toEqual([before[0], before[1] + 1]);
    const id = answer.headers['x-request-id'];
    expect(calls().at(-1)).toMatchObject({ id, hook: name, result: 'refused', projects: [] });
    expect(JSON.stringify(calls())).not.toContain(SECRET);
    expect(await cached()).toEqual(PROJECTS);
  });

  test.each(['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS'])('by %s', async (method) => {
    const before = await counted('kylin', 'refused');
    const preflight = { origin: 'https://bi.example', 'access-control-request-method': 'POST' };
    const headers = { ...ofUser('kylin-hook'), ...preflight };
    const answer = await send(gateway.url, { method, path: '/hooks/kylin', headers });
    expect([answer.status, answer.headers.allow]).toEqual([405, 'POST']);
    expect(Object.keys(answer.headers).join()).not.toContain('access-control');
    expect(await counted('kylin', 'refused')).toBe(before + 1);
  });

  test('what came already, until the gateway forgets it when it is too old anyway', async () => {
    const body = dbtRun();
    expect((await callDbtHook(gateway.url, 'dbt', body)).status).toBe(200);
    const before = purges().length;
    for (const headers of [proofOf(body), { ...proofOf(body), 'user-agent': 'other' }]) {
      expect((await callHook(gateway.url, 'dbt', body, headers)).status).toBe(403);
    }
    await gateway.reload({ engine: { url: engine.url }, hooks: HOOKS });
    expect((await callDbtHook(gateway.url, 'dbt', body)).status).toBe(403);
    expect(purges()).toHaveLength(before);
  });

  test('a body that does not come: its connection is closed', async () => {
    const before = await counted('kylin', 'refused');
    const socket = connect(portOf(gateway.url), '127.0.0.1');
    socket.write(
      `POST /hooks/kylin HTTP/1.1\r\nHost: a\r\nAuthorization: ${basic('kylin-hook')}\r\nContent-Length: 200\r\n\r\n{"project":`,
    );
    const [closed] = await Promise.all([once(socket, 'close'), once(socket.resume(), 'end')]);
    expect(closed).toBeDefined();
    expect(await counted('kylin', 'refused')).toBe(before + 1);
    expect(await cached()).toEqual(PROJECTS);
  }, 60_000);

  test('a name that is not configured is not found, whoever asks, and is not counted', async () => {
    const before = calls().length;
    for (const [path, headers] of [
      ['/hooks/other', {}],
      ['/hooks/other', ofUser('ADMIN')],
      ['/hooks/__proto__', {}],
      ['/hooks/kylin/more', {}],
      ['/hooks/%zz', {}],
      ['/hooks', {}],
    ] as const) {
      const answer = await send(gateway.url, { method: 'POST', path, headers, body: kylinJob() });
      expect(told(answer)).toMatchObject([404, { error: 'not-found' }]);
    }
    expect(calls()).toHaveLength(before);
  });
});

describe('with gateways of their own', () => {
  let shared: TestGateway;
  beforeAll(() => void (shared = gateway));
  afterEach(async () => {
    if (gateway !== shared) await gateway.close();
    gateway = shared;
  });

  test('signatures are not guessed: after some that are wrong none is looked at', async () => {
    gateway = await startOne();
    const body = dbtRun();
    const statuses = [];
    for (let guess = 0; guess < 11; guess += 1) {
      statuses.push((await callHook(gateway.url, 'dbt', body, proofOf(body, `${guess}`))).status);
    }
    expect(statuses).toEqual([...Array<number>(10).fill(401), 429]);
    const right = await callDbtHook(gateway.url, 'dbt', body);
    expect([right.status, Number(right.headers['retry-after']) > 0]).toEqual([429, true]);
    expect((await callKylinHook(gateway.url, 'kylin', 'kylin-hook')).status).toBe(200);
  });

  test('a storm of messages purges sixty times, then once a second; one that was too many may come again', async () => {
    const clock = handClock();
    const now = clock.wall();
    gateway = await startOne({}, { clock });
    for (let count = 0; count < 60; count += 1) {
      const { status } = await callDbtHook(gateway.url, 'dbt', dbtRun({}, now));
      expect(status).toBe(200);
    }
    const body = dbtRun({}, now);
    const late = await callDbtHook(gateway.url, 'dbt', body);
    expect([late.status, late.headers['retry-after']]).toEqual([429, '1']);
    expect((await callKylinHook(gateway.url, 'kylin', 'kylin-hook')).status).toBe(200);
    const ignored = dbtRun({ eventType: 'job.run.started' }, now);
    expect((await callDbtHook(gateway.url, 'dbt', ignored)).status).toBe(200);
    clock.advance(1_000);
    expect((await callDbtHook(gateway.url, 'dbt', body)).status).toBe(200);
  });

  test('messages that come together count together', async () => {
    const clock = handClock();
    gateway = await startOne({}, { clock });
    for (let count = 0; count < 59; count += 1) {
      await callDbtHook(gateway.url, 'dbt', dbtRun({}, clock.wall()));
    }
    const begun = await Promise.all([
      beginCall(dbtRun({}, clock.wall())),
      beginCall(dbtRun({}, clock.wall())),
    ]);
    const statuses = await Promise.all(begun.map((end) => end()));
    expect(statuses.sort()).toEqual(['200', '429']);
  });

  /** Sends the head of a message and waits until it is read. @returns sends the rest, and tells the status */
  async function beginCall(body: string) {
    const socket = connect(portOf(gateway.url), '127.0.0.1').setEncoding('latin1');
    const head = `POST /hooks/dbt HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nAuthorization: ${signatureOf(body)}`;
    socket.write(`${head}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`);
    await once(socket, 'data');
    return async () => {
      socket.write(body);
      const [answer] = await once(socket, 'data');
      socket.destroy();
      return String(answer).split(' ')[1];
    };
  }

  test('a message counts for ten minutes before and after its time', async () => {
    const clock = handClock();
    const now = clock.wall();
    gateway = await startOne({}, { clock });
    const at = (seconds: number) =>
      callDbtHook(gateway.url, 'dbt', dbtRun({}, now + seconds * 1_000));
    const statuses = [];
    for (const seconds of [-601, -600, 600, 601]) statuses.push((await at(seconds)).status);
    expect(statuses).toEqual([403, 200, 200, 403]);
    const body = dbtRun({}, now + 600_000);
    await callDbtHook(gateway.url, 'dbt', body);
    clock.advance(1_199_000);
    expect(told(await callDbtHook(gateway.url, 'dbt', body))).toMatchObject([
      403,
      { message: expect.stringContaining('taken already') },
    ]);
    clock.advance(2_000);
    expect(told(await callDbtHook(gateway.url, 'dbt', body))).toMatchObject([
      403,
      { message: expect.stringContaining('more than ten minutes') },
    ]);
  });

  test('a reload brings other hooks and takes others away', async () => {
    gateway = await startOne();
    const body = dbtRun();
    const other = 'another secret of dbt';
    const hooks = { dbt: { ...HOOKS.dbt, secret: other } };
    await gateway.reload({ engine: { url: engine.url }, hooks });
    expect((await callDbtHook(gateway.url, 'dbt', body)).status).toBe(401);
    expect((await callHook(gateway.url, 'dbt', body, proofOf(body, other))).status).toBe(200);
    expect((await callKylinHook(gateway.url, 'kylin', 'kylin-hook')).status).toBe(404);
  });

  test('an engine that does not clear its own cache is told as clearCache tells it, and the message may come again', async () => {
    const kylin = await startKylinEngine();
    try {
      const hooks = { ...HOOKS, dbt: { ...HOOKS.dbt, projects: ['learn'] } };
      const login = { login: 'service', service: { name: 'loader', password: 'secret' } };
      gateway = await startTestGateway({ ...clearingSettings([kylin], login), hooks });
      await askLearn(gateway);
      kylin.clearWith(sendText('busy'));
      const body = dbtRun();
      const failed = await callDbtHook(gateway.url, 'dbt', body);
      expect(told(failed)).toMatchObject([
        502,
        { error: 'engine-not-cleared', status: 'engine-not-cleared', engines: [{ ok: false }] },
      ]);
      expect(calls().at(-1)).toMatchObject({ result: 'failed' });
      expect(await statusOf(gateway)).not.toBe('hit');
      kylin.clearWith();
      expect(told(await callDbtHook(gateway.url, 'dbt', body))).toMatchObject([
        200,
        { status: 'cleared' },
      ]);
      expect(kylin.cleared.length).toBeGreaterThan(1);
      expect(await counted('dbt', 'failed')).toBe(1);
    } finally {
      await kylin.close();
    }
  });

  test('an engine that gets the login of the client is told by that of the hook', async () => {
    const kylin = await startKylinEngine();
    try {
      const hooks = { kylin: { ...HOOKS.kylin, user: 'bob', projects: { shop: 'learn' } } };
      gateway = await startTestGateway({
        ...clearingSettings([kylin], { login: 'forward' }),
        hooks,
      });
      const body = kylinJob({ project: 'shop' });
      expect((await callKylinHook(gateway.url, 'kylin', 'bob', body)).status).toBe(200);
      expect(kylin.cleared).toHaveLength(1);
      expect(JSON.stringify(kylin.cleared)).toContain(basic('bob'));
    } finally {
      await kylin.close();
    }
  });

  test('a load that shows its data bit by bit is followed by the repetition of the purge', async () => {
    gateway = await startOne({ cache: { purge: { repeat_after: '1s' } } });
    await callKylinHook(gateway.url, 'kylin', 'kylin-hook');
    await until(() => purges().length > 1);
    expect(purges()).toMatchObject([
      { cause: 'hook' },
      { cause: 'repeat', principal: 'hook:kylin' },
    ]);
  });
});
