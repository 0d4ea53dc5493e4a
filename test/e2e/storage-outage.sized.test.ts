import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { ask, apiOf, dataOf, documentOf, failureOf, type Api } from '../contract/api-client.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, shortStatus, type Answer } from '../support/http-client.ts';
import { livedTime } from '../support/lived-time.ts';
import { startPostgres, type PostgresServer } from '../support/postgres-server.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { sampled } from '../support/sizes.ts';

let postgres: PostgresServer;
let engine: StubEngine;
let gateway: TestGateway;
let api: Api;
let count = 0;

beforeAll(async () => {
  // What is acknowledged must outlive the kill, as in a PostgreSQL that somebody relies on.
  postgres = await startPostgres({ fsync: true });
  engine = await startStubEngine(sendXml(mddatasetAnswer()));
});
afterAll(async () => {
  await engine?.close();
  await postgres?.close();
});

async function startGateway(url: string): Promise<void> {
  gateway = await startTestGateway({
    engine: { url: engine.url },
    storage: { driver: 'postgres', url },
  });
  api = apiOf(gateway.url);
}
afterEach(() => gateway?.close());

const PAGE = { pageNum: '0', pageSize: '10', containsDesc: 'true' };
const ROLE = { name: 'analysts', description: '', contains: [] };
const query = (cube: string) =>
  execute({ statement: `SELECT FROM [${cube}]`, properties: { Catalog: 'Sales' } });

/** All operations, each as a request that would succeed. */
const operations = (id: number): (() => Promise<Answer>)[] => [
  () => api.create({ ...ROLE, name: `new ${(count += 1)}` }),
  () => api.update(id, ROLE),
  () => api.read(id),
  () => api.remove(id),
  () => api.add(id, ROLE.name, `user ${(count += 1)}`),
  () => api.drop(id, ROLE.name, 'ann'),
  () => api.list(PAGE),
  () => api.import(documentOf('p', `new ${(count += 1)}`)),
  () => api.replace(documentOf('p', 'd')),
  // By another user: one has two places for datasets, and would wait for the first of them.
  () => ask(gateway.url, '/dataset?project=p&datasetType=mdx&datasetName=d', { user: 'alice' }),
  () => api.datasets('p'),
];

/** The promise of the interface: nobody waits longer for a storage that is away. */
async function withinTwoSeconds<T>(answer: () => Promise<T>): Promise<T> {
  const { result, lived } = await livedTime(answer);
  expect(lived).toBeLessThan(2_000);
  return result;
}

/** Asks for what is cached and for what is not, again and again, until it is told to stop. */
async function xmlaTraffic(stopped: () => boolean): Promise<Set<string>> {
  const seen = new Set<string>();
  while (!stopped()) {
    const cubes = ['cached', `cube ${(count += 1)}`];
    const [hit, miss] = await Promise.all(cubes.map((cube) => askXmla(gateway.url, query(cube))));
    for (const [what, answer] of Object.entries({ hit, miss })) {
      seen.add(`${what}: ${answer?.status} ${answer === undefined ? '' : shortStatus(answer)}`);
    }
  }
  return seen;
}

/** The first answer of a storage that was there in time: a busy machine may pass its deadline. */
async function inTime(operation: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    const answer = await operation();
    if (answer.status !== 503) return answer;
    expect(failureOf(answer)).toBe('503 storage-unavailable');
    await delay(20);
  }
}

/** What is looked at during an outage, made by somebody who has more patience. */
async function prepared(url: string): Promise<number> {
  const other = await startTestGateway({ storage: { driver: 'postgres', url, timeout: '1m' } });
  try {
    const made = apiOf(other.url);
    const id = await made.created(ROLE);
    dataOf(await made.import(documentOf('p', 'd')));
    return id;
  } finally {
    await other.close();
  }
}

async function untilStorageIsBack(): Promise<void> {
  while ((await api.list(PAGE)).status !== 200) await delay(20);
}

const OUTAGES: readonly [
  what: string,
  end: () => Promise<void>,
  begin: () => Promise<void> | void,
][] = [
  ['is stopped', () => postgres.stop('SIGINT'), () => postgres.restart()],
  ['is killed', () => postgres.stop('SIGKILL'), () => postgres.restart()],
  ['stands still', () => postgres.pause(), () => postgres.resume()],
];

describe.each(sampled(OUTAGES))('while PostgreSQL %s', (_, end, begin) => {
  let id: number;
  beforeEach(async () => {
    const { url } = await postgres.house();
    id = await prepared(url);
    await startGateway(url);
    // Some connections of it are open when the storage goes away.
    await untilStorageIsBack();
  });

  test('the API says so within two seconds, queries are unharmed, and it recovers by itself', async () => {
    await askXmla(gateway.url, query('cached'));

    await end();
    let over = false;
    const traffic = xmlaTraffic(() => over);
    // At once, when connections of before are left, and again, when there are none.
    for (let round = 0; round < 2; round += 1) {
      const answers = await Promise.all(
        operations(id).map((operation) => withinTwoSeconds(operation)),
      );
      for (const answer of answers) {
        expect(failureOf(answer)).toBe('503 storage-unavailable');
        expect(answer.headers['retry-after']).toMatch(/^\d+$/);
      }
    }
    over = true;
    expect(await traffic).toEqual(new Set(['hit: 200 hit', 'miss: 200 miss stored']));

    await begin();
    await untilStorageIsBack();
    const role = dataOf(await inTime(() => api.read(1))) as { name: string };
    expect(role.name).toBe('Admin');
    const create = () => api.create({ ...ROLE, name: `after ${(count += 1)}` });
    const answers = [await inTime(create), await inTime(() => api.datasets('p'))];
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect((await inTime(() => api.export('p', 'd'))).text).toBe(documentOf('p', 'd'));
  });
});

test('a gateway that starts before its PostgreSQL answers queries, and the API when it is there', async () => {
  const { url } = await postgres.house();
  await postgres.stop();
  await startGateway(url);
  expect(shortStatus(await askXmla(gateway.url, query('early')))).toBe('miss stored');
  expect(failureOf(await withinTwoSeconds(() => api.list(PAGE)))).toBe('503 storage-unavailable');
  await postgres.restart();
  await untilStorageIsBack();
  // What was not acknowledged in time may be done all the same.
  let tries = 0;
  const create = () => api.create({ ...ROLE, name: `after ${(tries += 1)}` });
  const { role_id: made } = dataOf(await inTime(create)) as { role_id: number };
  expect([made >= 2, made <= tries + 1]).toEqual([true, true]);
});
