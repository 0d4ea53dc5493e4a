import { describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import type { GatewayEvent } from '../../../src/common/events.ts';
import { API_OPERATIONS } from '../../../src/api/api.ts';
import { throttled } from '../../../src/auth/authenticator.ts';
import { basic } from '../auth/support.ts';
import { createTestApi, dataOf, failureOf } from './support-api.ts';

const SALES = { name: 'Sales', contains: [], description: '' };
const targetOf = (path: string) => path.replace(':roleId', '1').replace(':project', 'p');
const changes = API_OPERATIONS.filter(({ changes }) => changes !== undefined);
const reads = API_OPERATIONS.filter(({ changes }) => changes === undefined);

describe('a login', () => {
  test.each([...API_OPERATIONS.map(({ method, path }) => [method, path] as const), ['GET', '/x']])(
    'is needed for %s %s',
    async (method, path) => {
      const { ask } = createTestApi();
      const answer = await ask(method, targetOf(path), { user: null });
      expect(failureOf(answer)).toMatch(/^401 \[unauthenticated\] /);
      expect(answer.headers['www-authenticate']).toMatch(/^Basic /);
    },
  );

  test('that is throttled says when to try again', async () => {
    const { ask } = createTestApi({
      login: () => Promise.reject(throttled(7)),
    });
    const answer = await ask('GET', '/role/1');
    expect(failureOf(answer)).toMatch(/^429 \[throttled\] /);
    expect(answer.headers['retry-after']).toBe('7');
  });
});

describe('the rights of another user', () => {
  const KINDS: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
    ['?EXECUTE_AS_USER_ID=ADMIN', {}],
    ['?a=b&execute%5fas_user_id', {}],
    ['', { EXECUTE_AS_USER_ID: 'ADMIN' }],
    ['', { 'execute-as-user-id': '' }],
  ];

  test.each([
    ...API_OPERATIONS.map(({ method, path }) => [method, path] as const),
    ['OPTIONS', '/role'],
    ['PATCH', '/role'],
    ['GET', '/x'],
  ])('are not given to %s %s', async (method, path) => {
    const { ask, events } = createTestApi();
    for (const [search, headers] of KINDS) {
      const answer = await ask(method, `${targetOf(path)}${search}`, { user: 'alice', headers });
      expect(failureOf(answer)).toMatch(/^403 \[identity-refused\] EXECUTE_AS_USER_ID /);
    }
    expect(events.map((event) => 'reason' in event && event.reason)).toEqual(
      KINDS.map(() => 'identity-refused'),
    );
  });

  test('are no matter of those who have no login', async () => {
    const { ask } = createTestApi();
    const answer = await ask('GET', '/role/1?EXECUTE_AS_USER_ID=ADMIN', { user: null });
    expect(failureOf(answer)).toMatch(/^401 /);
  });
});

test('a target with a fragment is refused, which some servers take for a part of a parameter', async () => {
  const { app, events } = createTestApi();
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  try {
    const id = { 'x-request-id': 'R-1' };
    for (const path of ['/roles?pageNum=0&pageSize=1&containsDesc=true#x', '/role/1#', '/x#?a']) {
      // Other clients would not send it.
      const asked = httpRequest({
        port,
        path: `/api${path}`,
        headers: { authorization: basic('alice', 'x'), ...id },
      }).end();
      const [answer] = (await once(asked, 'response')) as [IncomingMessage];
      const body = Buffer.concat((await answer.toArray()) as Buffer[]);
      expect(failureOf({ status: answer.statusCode ?? 0, headers: id, body })).toBe(
        '400 [bad-request] The request target must not hold a fragment (#…).',
      );
    }
    expect(events).toHaveLength(3);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

describe('only administrators', () => {
  test.each(changes.map(({ method, path }) => [method, path]))(
    'may %s %s',
    async (method, path) => {
      const { ask, events } = createTestApi();
      for (const user of ['alice', 'admin', 'purger']) {
        const failure = failureOf(await ask(method, targetOf(path), { user, body: SALES }));
        expect(failure).toBe(`403 [forbidden] Nothing was done: ${user} is not in auth.admins.`);
      }
      expect(events).toHaveLength(3);
      expect(failureOf(await ask(method, targetOf(path), { body: '' }))).not.toMatch(/^403/);
    },
  );

  test.each(reads.map(({ method, path }) => [method, path]))(
    'and all others may %s %s',
    async (method, path) => {
      const { ask } = createTestApi();
      expect((await ask(method, targetOf(path), { user: 'alice' })).status).not.toBe(403);
    },
  );
});

describe('a change that a browser makes for another site', () => {
  test.each(
    changes.flatMap(({ method, path }) => [
      { method, path, headers: { 'sec-fetch-site': 'cross-site' } },
      { method, path, headers: { origin: 'http://evil.example' } },
    ]),
  )('is refused ($method $path $headers)', async ({ method, path, headers }) => {
    const { ask } = createTestApi();
    const failure = failureOf(await ask(method, targetOf(path), { headers, body: SALES }));
    expect(failure).toMatch(/^403 \[forbidden\] Nothing was done: the request comes from another /);
  });

  test('is refused even if the browser does not say so: other types of content are not read', async () => {
    const { ask } = createTestApi();
    for (const type of [
      ...['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x'],
      ...['text/json', 'application/jsonp', 'application/json+x', 'text/plain;application/json'],
      ...[
        'application/json, text/plain',
        'application/json;charset=utf-16',
        'application/json;a=b',
      ],
      ...[
        'application/json;charset=utf8;charset=utf-7',
        'application/json;charset="utf8',
        '*/*',
        null,
      ],
    ]) {
      const answer = await ask('POST', '/role', { type, body: JSON.stringify(SALES) });
      expect([type, failureOf(answer)]).toEqual([
        type,
        expect.stringMatching(/^415 \[media-type\] /),
      ]);
    }
    expect((await ask('GET', '/role/2')).status).toBe(404);
  });
});

test.each([
  ...['application/json', 'application/json;charset=utf8', 'application/json; charset=utf-8'],
  ...['Application/JSON ; Charset="UTF-8"', 'application/json;charset=UTF8', 'application/json;'],
])('the Content-Type may be %s', async (type) => {
  const { ask } = createTestApi();
  expect((await ask('POST', '/role', { type, body: SALES })).status).toBe(200);
});

describe('a body with a content coding', () => {
  test('is decoded', async () => {
    const { ask } = createTestApi();
    const body = gzipSync(JSON.stringify(SALES));
    const answer = await ask('POST', '/role', { headers: { 'content-encoding': 'gzip' }, body });
    expect(dataOf(answer)).toEqual({ role_id: 2 });
  });

  test('that is not known is refused', async () => {
    const { ask } = createTestApi();
    const answer = await ask('POST', '/role', {
      headers: { 'content-encoding': 'br' },
      body: SALES,
    });
    expect(failureOf(answer)).toMatch(/^415 \[content-coding\] /);
    expect(answer.headers['accept-encoding']).toBe('gzip, deflate');
  });

  test('that is broken is refused', async () => {
    const { ask } = createTestApi();
    const headers = { 'content-encoding': 'gzip' };
    expect(failureOf(await ask('POST', '/role', { headers, body: SALES }))).toMatch(
      /^400 \[bad-request\] /,
    );
  });
});

describe('paths and methods', () => {
  const ALLOW = {
    '/role': 'POST, OPTIONS',
    '/role/1': 'PUT, GET, HEAD, DELETE, OPTIONS',
    '/role/user/visibility/1': 'POST, DELETE, OPTIONS',
    '/roles': 'GET, HEAD, OPTIONS',
    '/dataset': 'GET, HEAD, POST, PUT, OPTIONS',
    '/datasets/MDX/p': 'GET, HEAD, OPTIONS',
  };

  test.each(Object.entries(ALLOW))('%s tells what it allows', async (path, allow) => {
    const { ask } = createTestApi();
    for (const target of [path, `${path}/`, `${path}?x=1`]) {
      const { status, headers, body } = await ask('OPTIONS', target, { user: 'alice' });
      expect([status, headers['allow'], body.length]).toEqual([204, allow, 0]);
    }
    const methods = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'TRACE', 'PROPFIND', 'LINK'];
    for (const method of methods.filter((method) => !allow.includes(method))) {
      const answer = await ask(method, path);
      expect([method, answer.status, answer.headers['allow']]).toEqual([method, 405, allow]);
      if (method !== 'HEAD') expect(failureOf(answer)).toContain('[method-not-allowed] ');
    }
  });

  test.each([
    ...['', '/', '/roles/1', '/role/user/visibility', '/Role/1', '/role/1/x'],
    ...['/ROLES', '/role/User/visibility/1', '/datasets/mdx/p', '/datasets/MDX', '/datasets/MDX/'],
    ...['/datasets/MDX/p/q', '/dataset/1', '//role/1', '/role//1', '/role/1//', '/role/1;x=1/y'],
  ])('nothing is under %j', async (path) => {
    const { ask } = createTestApi();
    const failure = failureOf(await ask('GET', path));
    expect(failure).toMatch(
      /^404 \[not-found\] No operation of the API has this path; it must be /,
    );
  });

  const OF_ROLES = '/api/role, /api/role/{roleId}, /api/role/user/visibility/{roleId}';
  const OF_DATASETS = '/api/datasets/MDX/{project}';
  test.each([
    ['/datasets/CUBE/Big', OF_DATASETS],
    ['/datasets/mdx/Big/', OF_DATASETS],
    ['/datasets/MDX', OF_DATASETS],
    ['/role/User/visibility/2', OF_ROLES],
    ['/Roles', `${OF_ROLES}, /api/roles, /api/dataset, ${OF_DATASETS}`],
  ])('of %s is told what it must be', async (path, right) => {
    const { ask } = createTestApi();
    expect(failureOf(await ask('GET', path))).toContain(`it must be ${right}.`);
  });

  test('a slash at the end does not count', async () => {
    const { ask } = createTestApi();
    expect(dataOf(await ask('POST', '/role/', { body: SALES }))).toEqual({ role_id: 2 });
    expect((await ask('GET', '/role/2/')).status).toBe(200);
    expect((await ask('GET', '/roles/?pageNum=0&pageSize=1&containsDesc=true')).status).toBe(200);
  });

  test('HEAD has the head of GET, for successes and for failures', async () => {
    const { ask } = createTestApi();
    for (const path of ['/role/1', '/role/9', '/roles', '/datasets/MDX/p', '/nothing']) {
      const headers = { 'x-request-id': 'id' };
      const [get, head] = [
        await ask('GET', path, { headers }),
        await ask('HEAD', path, { headers }),
      ];
      expect([head.status, head.body.length]).toEqual([get.status, 0]);
      expect(head.headers['content-length']).toBe(String(get.body.length));
    }
  });
});

describe('the gateway’s own failure', () => {
  test('says nothing of what failed, and is told once to those who look after it', async () => {
    const failing = () => Promise.reject(new Error('password=secret at /etc/passwd'));
    const { ask, events, storage } = createTestApi();
    Object.assign(storage.roles, { read: failing });
    expect(failureOf(await ask('GET', '/role/1'))).toBe(
      '500 [internal] The gateway failed; its log tells more.',
    );
    expect(events).toMatchObject([
      { type: 'internal-error', id: 'id-1', error: { message: 'password=secret at /etc/passwd' } },
      { type: 'api-answered', id: 'id-1', status: 500, reason: 'internal', error: undefined },
    ]);
  });

  test('that is thrown, and no error, is answered all the same', async () => {
    const failing = () => {
      throw 'a text';
    };
    const { ask, storage } = createTestApi();
    Object.assign(storage.datasets, { list: failing });
    expect(failureOf(await ask('GET', '/datasets/MDX/p'))).toMatch(/^500 \[internal\] /);
  });
});

describe('every answer is told as one event', () => {
  async function told(...question: Parameters<ReturnType<typeof createTestApi>['ask']>) {
    const { ask, events } = createTestApi();
    await ask(...question);
    return events as readonly (GatewayEvent & { type: 'api-answered' })[];
  }
  const common = { type: 'api-answered', id: 'id-1', principal: 'ADMIN', error: undefined };

  test('a change', async () => {
    expect(await told('POST', '/role', { body: SALES })).toEqual([
      {
        ...{ ...common, operation: 'createRole', changes: true, status: 200, reason: undefined },
        subject: 'role Sales, no users',
        milliseconds: 5,
      },
    ]);
  });

  const many = (name: string, count = 5_000) =>
    Array.from({ length: count }, (_, at) => ({ type: 'user', name: `${name} ${at}` }));
  const DATASET = { project: 'learn', dataset_name: 'Q1', secret: 'x', type: 'MDX' };
  const LONG = { ...DATASET, project: 'p'.repeat(255), dataset_name: '👍'.repeat(255) };

  test.each<[string, string, object | undefined, string]>([
    ['POST', '/role', { ...SALES, contains: many('u', 1) }, 'role Sales, user u 0'],
    [
      'PUT',
      '/role/1',
      { ...SALES, contains: many('u', 2) },
      'role Sales (id 1), 2 users: u 0, u 1',
    ],
    [
      'PUT',
      '/role/9',
      { ...SALES, contains: many('u', 200) },
      'role Sales (id 9), 200 users: u 0, u 1, u 2, …',
    ],
    ['PUT', '/role/9', { name: 7 }, 'role (id 9)'],
    ['DELETE', '/role/1', undefined, 'role (id 1)'],
    ['DELETE', '/role/9', undefined, 'role (id 9)'],
    ['DELETE', '/role/x', undefined, ''],
    [
      'POST',
      '/role/user/visibility/1',
      { name: 'Admin', contains: many('u', 1) },
      'role Admin (id 1), user u 0',
    ],
    [
      'DELETE',
      '/role/user/visibility/1',
      { name: 'Other', contains: many('u', 1) },
      'role Other (id 1), user u 0',
    ],
    ['POST', '/dataset?createType=import', DATASET, 'dataset Q1 of project learn'],
    ['PUT', '/dataset', DATASET, 'dataset Q1 of project learn'],
    ['PUT', '/dataset', { project: 'learn' }, ''],
    ['PUT', '/dataset', LONG, `dataset ${'👍'.repeat(50)}… of project ${'p'.repeat(100)}…`],
  ])('of which role or dataset a change is (%s %s)', async (method, path, body, subject) => {
    const given = body && { body };
    expect((await told(method, path, given)).map((event) => event.subject)).toEqual([subject]);
  });

  test('of which role a deletion was', async () => {
    const { ask, events } = createTestApi();
    await ask('POST', '/role', { body: SALES });
    await ask('DELETE', '/role/2');
    expect(events.at(-1)).toMatchObject({ status: 200, subject: 'role Sales (id 2)' });
  });

  test('in at most 255 characters, however long its names are', async () => {
    const contains = many('ü'.repeat(250), 9);
    const body = { name: 'n'.repeat(128), contains, description: 'secret' };
    const [event] = await told('POST', '/role', { body });
    expect(event?.subject).toHaveLength(255);
    expect(event?.subject).toMatch(/^role n{100}…, 9 users: ü+… ?/);
  });

  test('a read', async () => {
    expect(await told('HEAD', '/role/1', { user: 'alice' })).toMatchObject([
      { ...common, principal: 'alice', operation: 'readRole', changes: false, status: 200 },
    ]);
  });

  test('a refusal', async () => {
    expect(await told('DELETE', '/role/1')).toMatchObject([
      { ...common, operation: 'deleteRole', changes: true, status: 409, reason: 'built-in-role' },
    ]);
  });

  test('a refused login', async () => {
    expect(await told('POST', '/role', { user: null })).toMatchObject([
      { ...common, principal: '', operation: 'createRole', status: 401, reason: 'unauthenticated' },
    ]);
  });

  test.each([
    ['PATCH', '/role', 405],
    ['OPTIONS', '/role', 204],
    ['GET', '/nothing', 404],
    ['GET', '/role/%ff', 400],
  ])('what is no operation (%s %s)', async (method, path, status) => {
    expect(await told(method, path)).toMatchObject([{ ...common, operation: '', status }]);
  });
});
