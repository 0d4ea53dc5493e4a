import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { apiOf, dataOf, documentOf, users } from '../contract/api-client.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, shortStatus, type Answer } from '../support/http-client.ts';
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

interface NamedRole {
  readonly id: number;
  readonly name: string;
}

async function newRole({ changing }: House, ...members: User[]): Promise<NamedRole> {
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
  ])('a user who %s gets nothing of it after the answer', async (_what, change) => {
    for (let round = 0; round < 2; round += 1) {
      const role = await newRole(house(), 'alice', 'bob');
      const query = newQuery();
      await ask(house(), query, 'alice');
      expect(computedFor(await ask(house(), query, 'bob'))).toBe('alice');
      dataOf(await change(role));
      expect(computedFor(await ask(house(), query, 'bob'))).toBe('bob');
      await deleteRoles(house());
    }
  });
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
