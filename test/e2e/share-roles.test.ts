import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { hash } from 'bcrypt';
import { apiOf, dataOf, documentOf, users } from '../contract/api-client.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, shortStatus, type Answer } from '../support/http-client.ts';
import '../support/patient-redis.ts';
import { startPostgres, type PostgresServer } from '../support/postgres-server.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

type User = 'ADMIN' | 'alice' | 'bob';

/** Stamps every answer with the user who logged in at it. */
let engine: StubEngine;
let redis: RedisServer;
let postgres: PostgresServer;
/** The gateway through which roles are changed, and the one that is asked. */
interface House {
  readonly changing: TestGateway;
  readonly asked: TestGateway;
}
const houses = new Map<string, House>();
const ALONE = 'a gateway that is alone, with a file';
const TWO = 'two gateways with one PostgreSQL and one Redis';
const APART = 'two gateways with one PostgreSQL and a Redis each';
const ROLLING =
  'two gateways with one PostgreSQL, of which the changing one does not share by roles';

const userOf = (authorization: string | undefined) =>
  Buffer.from(authorization?.split(' ')[1] ?? '', 'base64')
    .toString()
    .split(':')[0] ?? '';

beforeAll(async () => {
  engine = await startStubEngine((response, request) => {
    const stamp = `computed for ${userOf(request.headers.authorization)}`;
    return sendXml(mddatasetAnswer({ members: [stamp] }))(response, request);
  });
  [redis, postgres] = await Promise.all([startRedis(), startPostgres()]);
  const alone = await startTestGateway(settings());
  houses.set(ALONE, { changing: alone, asked: alone });
  await pair(TWO, { redis: { url: redis.url } }, { redis: { url: redis.url } });
  // A namespace of its own is as good as a Redis of its own.
  await pair(
    APART,
    { redis: { url: redis.url, namespace: 'here' } },
    { redis: { url: redis.url } },
  );
  await pair(ROLLING, { share: 'user' }, {});
});

function settings(cache: object = {}) {
  const common = { share: 'roles', engine_permissions_ignored: true, lease: '100ms' };
  return { engine: { url: engine.url, login: 'forward' }, cache: { ...common, ...cache } };
}

/** Two gateways over one database, with their sections `cache`. */
async function pair(which: string, changing: object, asked: object): Promise<void> {
  const storage = { driver: 'postgres', url: (await postgres.house()).url, timeout: '10s' };
  houses.set(which, {
    changing: await startTestGateway({ ...settings(changing), storage }),
    asked: await startTestGateway({ ...settings(asked), storage }),
  });
}
afterAll(async () => {
  for (const { changing, asked } of houses.values()) {
    await changing.close();
    if (asked !== changing) await asked.close();
  }
  await Promise.all([engine?.close(), redis?.close(), postgres?.close()]);
});

let count = 0;
const newQuery = () =>
  execute({ statement: `SELECT FROM [${(count += 1)}]`, properties: { Catalog: 'Sales' } });

async function ask({ asked }: Pick<House, 'asked'>, query: Buffer, user: User): Promise<Answer> {
  const answer = await askXmla(asked.url, query, { user });
  expect(answer.status).toBe(200);
  return answer;
}

/** For whom the answer was computed. */
const computedFor = ({ text }: Answer) => /computed for (\w+)/.exec(text)?.[1];

interface NamedRole {
  readonly id: number;
  readonly name: string;
}

async function newRole(
  { changing }: Pick<House, 'changing'>,
  ...members: User[]
): Promise<NamedRole> {
  const name = `role ${(count += 1)}`;
  const id = await apiOf(changing.url).created({ name, contains: users(...members) });
  return { id, name };
}

/** Leaves the built-in role alone. */
async function deleteRoles({ changing }: House): Promise<void> {
  const api = apiOf(changing.url);
  const all = { pageNum: '0', pageSize: '100', containsDesc: 'false' };
  const { list } = dataOf(await api.list(all)) as { list: { id: number }[] };
  for (const { id } of list.filter((role) => role.id !== 1)) dataOf(await api.remove(id));
}

type ApiAnswer = Parameters<typeof dataOf>[0];

/**
 * A query that alice and bob share. On a busy machine the roles may come too late for one query, which then is
 * cached by user; so it is tried with further ones.
 */
async function sharedQuery(by: Pick<House, 'asked'>, to = by): Promise<Buffer> {
  for (let tries = 0; tries < 500; tries += 1) {
    const query = newQuery();
    await ask(by, query, 'alice');
    const answer = await ask(to, query, 'bob');
    if (computedFor(answer) === 'alice') {
      expect(shortStatus(answer)).toBe('hit');
      return query;
    }
    await sleep(100);
  }
  throw new Error('users with the same roles do not share');
}

async function expectNothingAfter(
  house: House,
  change: (role: NamedRole) => Promise<ApiAnswer>,
): Promise<void> {
  const role = await newRole(house, 'alice', 'bob');
  const query = await sharedQuery(house);
  dataOf(await change(role));
  expect(computedFor(await ask(house, query, 'bob'))).toBe('bob');
}

describe.each([ALONE, TWO])('sharing by roles: %s', (which) => {
  const house = () => houses.get(which) as House;

  afterEach(() => deleteRoles(house()));

  test('users with the same roles share an entry', async () => {
    await newRole(house(), 'alice', 'bob');
    await sharedQuery(house());
  });

  test('users without roles share nothing', async () => {
    const query = newQuery();
    await ask(house(), query, 'alice');
    const second = await ask(house(), query, 'bob');
    expect([shortStatus(second), computedFor(second)]).toEqual(['miss stored', 'bob']);
    expect(shortStatus(await ask(house(), query, 'bob'))).toBe('hit');
  });

  test('one role more or less is another set', async () => {
    await newRole(house(), 'alice', 'bob');
    await newRole(house(), 'bob');
    const query = newQuery();
    await ask(house(), query, 'alice');
    expect(computedFor(await ask(house(), query, 'bob'))).toBe('bob');
  });

  const changes = () => apiOf(house().changing.url);
  test.each([
    ['is taken out of the role', ({ id, name }: NamedRole) => changes().drop(id, name, 'bob')],
    [
      'is left out when the role is replaced',
      ({ id, name }: NamedRole) =>
        changes().update(id, { name, description: '', contains: users('alice') }),
    ],
    ['loses the role because it is deleted', ({ id }: NamedRole) => changes().remove(id)],
    [
      'is added to another role',
      async () => {
        const { id, name } = await newRole(house(), 'ADMIN');
        return changes().add(id, name, 'bob');
      },
    ],
  ])('a user who %s gets nothing of it after the answer', (_what, change) =>
    expectNothingAfter(house(), change),
  );
});

test.each([APART, ROLLING])(
  'a user who is taken out of the role gets nothing of it after the answer: %s',
  async (which) => {
    const house = houses.get(which) as House;
    await expectNothingAfter(house, ({ id, name }) =>
      apiOf(house.changing.url).drop(id, name, 'bob'),
    );
  },
);

test('of two copies of a file nobody gets what those in a role of the other see', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-copies-'));
  const start = (name: string) =>
    startTestGateway({
      ...settings({ redis: { url: redis.url, namespace: 'copies' } }),
      storage: { driver: 'sqlite', path: join(folder, name) },
    });
  const open: TestGateway[] = [];
  try {
    const first = await start('one');
    open.push(first);
    await newRole({ changing: first }, 'alice', 'bob');
    await first.close();
    open.pop();
    copyFileSync(join(folder, 'one'), join(folder, 'other'));
    const [one, other] = [await start('one'), await start('other')];
    open.push(one, other);
    // They have one Redis, and as long as the roles are the same their users may share.
    const before = await sharedQuery({ asked: one }, { asked: other });
    const here = await newRole({ changing: one }, 'alice');
    const there = await newRole({ changing: other }, 'bob');
    expect(there.id).toBe(here.id);
    for (const query of [before, newQuery()]) {
      expect(computedFor(await ask({ asked: one }, query, 'alice'))).toBe('alice');
      expect(computedFor(await ask({ asked: other }, query, 'bob'))).toBe('bob');
      expect(computedFor(await ask({ asked: other }, query, 'bob'))).toBe('bob');
    }
  } finally {
    for (const gateway of open) await gateway.close();
    rmSync(folder, { recursive: true });
  }
});

describe.each([ALONE, TWO])('a written dataset: %s', (which) => {
  const house = () => houses.get(which) as House;
  const api = () => apiOf(house().changing.url);
  const document = documentOf('Sales', which);

  test('purges its project before it is answered, and no other', async () => {
    const sales = newQuery();
    const other = execute({ statement: 'SELECT FROM [x]', properties: { Catalog: 'Other' } });
    const fill = async () => {
      await ask(house(), sales, 'alice');
      await ask(house(), other, 'alice');
      expect(shortStatus(await ask(house(), sales, 'alice'))).toBe('hit');
    };
    await fill();
    dataOf(await api().import(document));
    expect(shortStatus(await ask(house(), other, 'alice'))).toBe('hit');
    expect(shortStatus(await ask(house(), sales, 'alice'))).toBe('miss stored');
    await fill();
    dataOf(await api().replace(document));
    expect(shortStatus(await ask(house(), other, 'alice'))).toBe('hit');
    expect(shortStatus(await ask(house(), sales, 'alice'))).toBe('miss stored');
  });
});

test('users whose names differ in letter case only get nothing of each other', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-twins-'));
  const file = join(folder, 'users.htpasswd');
  const lines = ['ADMIN:admin', 'alice:alice', 'Alice:other', 'bob:bob'].map(async (line) => {
    const [name = '', password = ''] = line.split(':');
    return `${name}:${await hash(password, 4)}\n`;
  });
  writeFileSync(file, (await Promise.all(lines)).join(''));
  const gateway = await startTestGateway({ ...settings(), auth: { users: file } });
  try {
    await newRole({ changing: gateway }, 'alice', 'bob');
    const query = newQuery();
    const as = async (credentials: string) => {
      const authorization = `Basic ${Buffer.from(credentials).toString('base64')}`;
      return computedFor(await askXmla(gateway.url, query, { headers: { authorization } }));
    };
    expect(await as('alice:alice')).toBe('alice');
    expect(await as('Alice:other')).toBe('Alice');
    expect(await as('bob:bob')).toBe('bob');
  } finally {
    await gateway.close();
    rmSync(folder, { recursive: true });
  }
});
