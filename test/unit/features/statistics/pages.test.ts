import { beforeAll, describe, expect, test } from '@jest/globals';
import express from 'express';
import supertest from 'supertest';
import { errorMapper } from '../../../../src/app.ts';
import { onlyMethods } from '../../../../src/http/answers.ts';
import {
  createPermissions,
  type Login,
  unauthenticated,
} from '../../../../src/auth/authenticator.ts';
import { statisticsPages } from '../../../../src/features/statistics/pages.ts';
import { createAdmin, createAdminHandler } from '../../../../src/http/admin.ts';
import { answered, asked } from '../../../support/answered.ts';
import { handClock, statisticsOf } from './answered.ts';
import { checkAgainstOpenApi } from '../../../support/openapi-check.ts';
import { principalOf } from '../../../../src/common/principal.ts';

const { on, shared } = statisticsOf(
  { clock: handClock() },
  {
    entries: () => ({ total: 1, each: [{ digest: 'd 1', bytes: 10, hits: 2, age: 5, rest: 7 }] }),
  },
);
const app = express();

beforeAll(() => {
  for (let i = 0; i < 150; i += 1) on(asked(100 + i, { id: String(i), digest: `d ${i}` }));
  on(answered({ id: 'last', principal: 'bob', digest: '', catalogs: [], cubes: '?' }));
  const login: Login = async ({ headers: { authorization } }) => {
    if (authorization === undefined) throw unauthenticated();
    const [name = ''] = Buffer.from(authorization.slice(6), 'base64').toString().split(':');
    return principalOf(name);
  };
  const permissions = createPermissions(
    { admins: ['ADMIN'], viewers: ['eve'], purgers: ['bob'] },
    'nobody',
  );
  const admin = createAdmin({
    purgeLog: { latest: async () => ({ complete: true, purges: [] }) },
    permissions,
    ofFeatures: [statisticsPages(shared, permissions)],
    clock: handClock(),
    emit() {},
  });
  for (const path of admin.paths) {
    app.all(path, onlyMethods('GET', 'HEAD'), createAdminHandler({ login, admin, path }));
  }
  app.use(
    errorMapper(
      () => 'id',
      () => {},
    ),
  );
});
/** Its answer must be one that the OpenAPI document describes. */
async function ask(path: string, user = 'ADMIN') {
  const request = supertest(app).get(path);
  const answer = await (user === '' ? request : request.auth(user, 'x'));
  const { status, headers, text } = answer;
  await checkAgainstOpenApi('GET', path, { status, headers, body: Buffer.from(text) });
  return { status, body: JSON.parse(text) as Record<string, unknown> };
}

const PATHS = ['/admin/statistics', '/admin/requests', '/admin/entries'] as const;

test.each(['/admin/statistics/', '/ADMIN/Statistics?limit=1'])(
  'however the path is spelt, rights count: %s',
  async (path) => {
    const ofUser = (user: string) => supertest(app).get(path).auth(user, 'x');
    expect([(await ofUser('ADMIN')).status, (await ofUser('bob')).status]).toEqual([200, 403]);
  },
);

describe.each(PATHS)('%s', (path) => {
  test.each([
    ['ADMIN', 200],
    ['eve', 200],
    ['bob', 403],
    ['alice', 403],
    ['', 401],
  ])('answers %j with %d', async (user, expected) => {
    const { status, body } = await ask(path, user);
    expect(status).toBe(expected);
    if (expected === 403) {
      expect(body).toEqual({
        error: 'forbidden',
        message: expect.stringMatching(
          new RegExp(
            `^Nothing is told: ${user} is neither in auth.admins nor in auth.viewers\\.`,
            'u',
          ),
        ),
      });
    }
  });

  test.each([
    ['limit=0', 'limit must be a whole number from 1 to 1000'],
    ['limit=1001', 'limit must be a whole number from 1 to 1000'],
    ['offset=-1', 'offset must be a whole number from 0 to 10000'],
    ['offset=10001', 'offset must be a whole number from 0 to 10000'],
    ['offset=01', 'offset must be a whole number from 0 to 10000'],
    ['offset=1&offset=2', 'offset is given more than once'],
    ['limt=1', 'limt is no query parameter here; allowed are '],
  ])('refuses %s, and says what is allowed', async (search, why) => {
    const { status, body } = await ask(`${path}?${search}`);
    expect([status, body['error'], body['message']]).toEqual([
      400,
      'bad-request',
      expect.stringContaining(why),
    ]);
  });
});

test.each([
  ['/admin/statistics', 'sort must be one of cost, saved, uncached, asks, engine, last'],
  ['/admin/entries', 'sort must be one of hits, bytes, age, rest'],
  [
    '/admin/requests',
    'allowed are user, project, digest, outcome, reason, id, until, slower, limit and offset',
  ],
])('%s says by what it sorts', async (path, why) => {
  const { status, body } = await ask(`${path}?sort=size`);
  expect([status, body['message']]).toEqual([400, expect.stringContaining(why)]);
});

test('a page of requests has a hundred, the newest first, and the next page goes on', async () => {
  const idsOf = async (search: string) => {
    const { body } = await ask(`/admin/requests${search}`);
    expect(Object.keys(body)).toEqual(['total', 'complete', 'requests']);
    expect(body['total']).toBe(151);
    return (body['requests'] as { id: string }[]).map(({ id }) => id);
  };
  const first = await idsOf('');
  expect([first.length, first[0], first[1]]).toEqual([100, 'last', '149']);
  const second = await idsOf('?offset=100');
  expect([second.length, second[0], second.at(-1)]).toEqual([51, '50', '0']);
  expect(await idsOf('?limit=2&offset=1')).toEqual(['149', '148']);
});

test.each([
  ['?id=7', 1],
  ['?user=bob', 1],
  ['?user=bob&outcome=miss', 0],
  ['?digest=', 1],
  ['?digest=d%203&project=Shop', 1],
  ['?reason=memory', 1],
  ['?reason=&outcome=miss&id=7', 1],
  ['?reason=memory&outcome=miss', 0],
  // They took 106 to 255 ms, and the last one 1 ms.
  ['?slower=246', 10],
  ['?slower=256', 0],
  ['?slower=246&until=2026-01-02T08:55:00Z', 10],
  ['?until=2026-01-02T08:54:59.999Z', 0],
])('requests are found by %s', async (search, found) => {
  const { body } = await ask(`/admin/requests${search}`);
  expect([body['total'], (body['requests'] as unknown[]).length]).toEqual([found, found]);
});

test.each([
  ['?digest=d%203', 1, ['d 3']],
  ['?project=Shop&digest=d%204', 1, ['d 4']],
  ['?project=&limit=1', 0, []],
  ['?project=Shop&limit=1', 150, ['d 149']],
])('digests are found by %s, and the totals stay', async (search, total, found) => {
  const { body } = await ask(`/admin/statistics${search}`);
  const digests = (body['digests'] as { digest: string }[]).map(({ digest }) => digest);
  expect([body['total'], digests]).toEqual([total, found]);
  expect(body['totals']).toMatchObject({ asks: 151 });
});

const NO_TIME = 'until must be a time of ISO 8601 in UTC, such as 2026-01-02T08:55:00.000Z';
const NO_DURATION = 'slower must be a whole number of milliseconds';
test.each([
  ['until=', NO_TIME],
  ['until=yesterday', NO_TIME],
  ['until=2026-01-02', NO_TIME],
  ['until=2026-01-02T08:55:00%2B01:00', NO_TIME],
  ['until=2026-02-30T08:55:00Z', NO_TIME],
  ['until=2026-01-02T25:55:00Z', NO_TIME],
  ['slower=', NO_DURATION],
  ['slower=5s', NO_DURATION],
  ['slower=-1', NO_DURATION],
  ['slower=1.5', NO_DURATION],
  ['reason=memoy', 'reason must be a word of Cache-Status (docs/OBSERVABILITY.md), or empty'],
  ['outcome=', 'outcome must be one of hit, miss, bypass, gateway'],
])('a filter of requests that is none is refused: %s', async (search, why) => {
  const { status, body } = await ask(`/admin/requests?${search}`);
  expect([status, body['message']]).toEqual([400, expect.stringContaining(why)]);
});

test('digests and entries are paged and sorted', async () => {
  const { body } = await ask('/admin/statistics?sort=engine&limit=2&offset=1');
  expect(body).toMatchObject({ total: 150, digests: [{ digest: 'd 148' }, { digest: 'd 147' }] });
  const { body: entries } = await ask('/admin/entries?sort=bytes');
  expect(entries).toEqual({
    total: 1,
    complete: true,
    entries: [
      {
        digest: 'd 1',
        bytes: 10,
        hits: 2,
        age: 5,
        rest: 7,
        project: 'Shop',
        catalogs: 'Sales',
        cubes: 'Orders',
      },
    ],
  });
});

test('a project is that of the path, or the first catalog, in any of its spellings', async () => {
  on(
    answered({ id: 'by catalog', project: '', catalogs: ['Depot', 'Shop'], digest: 'by catalog' }),
  );
  const { body } = await ask('/admin/requests?project=depot');
  expect(body).toMatchObject({ total: 1, requests: [{ id: 'by catalog' }] });
  const { body: statistics } = await ask('/admin/statistics?project=DEPOT');
  expect(statistics).toMatchObject({ total: 1, digests: [{ digest: 'by catalog' }] });
});
