import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus, type Answer } from '../support/http-client.ts';
import { startPostgres, type PostgresServer } from '../support/postgres-server.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

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
  const common = {
    engine: { url: engine.url, login: 'forward' },
    cache: { share: 'roles', engine_permissions_ignored: true, lease: '100ms' },
  };
  const alone = await startTestGateway(common);
  houses.set(ALONE, { changing: alone, asked: alone });
  const shared = {
    ...common,
    cache: { ...common.cache, redis: { url: redis.url } },
    storage: { driver: 'postgres', url: (await postgres.house()).url },
  };
  houses.set(TWO, {
    changing: await startTestGateway(shared),
    asked: await startTestGateway(shared),
  });
});
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

async function ask({ asked }: House, query: Buffer, user: User): Promise<Answer> {
  const answer = await askXmla(asked.url, query, { user });
  expect(answer.status).toBe(200);
  return answer;
}

/** For whom the answer was computed. */
const computedFor = ({ text }: Answer) => /computed for (\w+)/.exec(text)?.[1];

async function api({ changing }: House, method: string, path: string, body?: object) {
  const text = body === undefined ? '' : JSON.stringify(body);
  const answer = await send(changing.url, {
    method,
    path: `/api${path}`,
    headers: {
      authorization: basic('ADMIN'),
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(text)),
    },
    body: text,
  });
  expect([answer.status, answer.text]).toEqual([200, expect.any(String)]);
  return JSON.parse(answer.text) as { data: { role_id: number; list: { id: number }[] } };
}

const users = (...names: User[]) => names.map((name) => ({ type: 'user', name }));

async function newRole(house: House, ...members: User[]): Promise<{ id: number; name: string }> {
  const name = `role ${(count += 1)}`;
  const made = await api(house, 'POST', '/role', {
    name,
    description: '',
    contains: users(...members),
  });
  return { id: made.data.role_id, name };
}

/** Leaves the built-in role alone. */
async function deleteRoles(house: House): Promise<void> {
  const query = 'pageNum=0&pageSize=100&containsDesc=false';
  const { data } = await api(house, 'GET', `/roles?${query}`);
  for (const { id } of data.list.filter((role) => role.id !== 1)) {
    await api(house, 'DELETE', `/role/${id}`);
  }
}

const member = ({ name }: { name: string }, user: User) => ({
  name,
  description: '',
  contains: users(user),
});

describe.each([ALONE, TWO])('sharing by roles: %s', (which) => {
  const house = () => houses.get(which) as House;

  afterEach(() => deleteRoles(house()));

  test('users with the same roles share an entry', async () => {
    await newRole(house(), 'alice', 'bob');
    const query = newQuery();
    expect(computedFor(await ask(house(), query, 'alice'))).toBe('alice');
    const second = await ask(house(), query, 'bob');
    expect([shortStatus(second), computedFor(second)]).toEqual(['hit', 'alice']);
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

  test.each([
    [
      'is taken out of the role',
      (role: { id: number; name: string }) =>
        api(house(), 'DELETE', `/role/user/visibility/${role.id}`, member(role, 'bob')),
    ],
    [
      'is left out when the role is replaced',
      (role: { id: number; name: string }) =>
        api(house(), 'PUT', `/role/${role.id}`, {
          name: role.name,
          description: '',
          contains: users('alice'),
        }),
    ],
    [
      'loses the role because it is deleted',
      (role: { id: number; name: string }) => api(house(), 'DELETE', `/role/${role.id}`),
    ],
    [
      'is added to another role',
      async () => {
        const other = await newRole(house(), 'ADMIN');
        await api(house(), 'POST', `/role/user/visibility/${other.id}`, member(other, 'bob'));
      },
    ],
  ])('a user who %s gets nothing of it after the answer', async (_what, change) => {
    for (let round = 0; round < 2; round += 1) {
      const role = await newRole(house(), 'alice', 'bob');
      const query = newQuery();
      await ask(house(), query, 'alice');
      expect(computedFor(await ask(house(), query, 'bob'))).toBe('alice');
      await change(role);
      expect(computedFor(await ask(house(), query, 'bob'))).toBe('bob');
      await deleteRoles(house());
    }
  });
});

describe.each([ALONE, TWO])('a written dataset: %s', (which) => {
  const house = () => houses.get(which) as House;
  const write = (method: string, path: string) =>
    api(house(), method, path, { project: 'Sales', dataset_name: which, type: 'MDX' });

  test('purges its project before it is answered, and no other', async () => {
    const sales = newQuery();
    const other = execute({ statement: 'SELECT FROM [x]', properties: { Catalog: 'Other' } });
    const fill = async () => {
      await ask(house(), sales, 'alice');
      await ask(house(), other, 'alice');
      expect(shortStatus(await ask(house(), sales, 'alice'))).toBe('hit');
    };
    await fill();
    await write('POST', '/dataset?createType=import');
    expect(shortStatus(await ask(house(), other, 'alice'))).toBe('hit');
    expect(shortStatus(await ask(house(), sales, 'alice'))).toBe('miss stored');
    await fill();
    await write('PUT', '/dataset');
    expect(shortStatus(await ask(house(), other, 'alice'))).toBe('hit');
    expect(shortStatus(await ask(house(), sales, 'alice'))).toBe('miss stored');
  });
});
