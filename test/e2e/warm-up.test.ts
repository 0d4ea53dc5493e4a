import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import type { WarmRun } from '../../src/features/warm/events.ts';
import { faultAnswer, mddatasetAnswer, response } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus, until } from '../support/http-client.ts';
import { certain } from '../support/redis-client.ts';
import { gate, sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { endedRuns, figuresOf, nextRun, purge, readWarmUp, warmNow } from '../support/warm-up.ts';

const ANSWER = mddatasetAnswer();
const CATALOGS = 'DBSCHEMA_CATALOGS';
const query = (name: string) =>
  execute({ statement: `SELECT FROM [${name}]`, properties: { Catalog: 'Shop' } });

let engine: StubEngine;
let gateway: TestGateway;
/** The names of the cubes that the engine was asked for. */
let seen: string[];
/** What is under way there now, and the most there was. */
let atEngine: { now: number; most: number };
/** Passed by each question of this cube before it is answered. */
let held: Map<string, Promise<void>>;
let answer: (name: string) => string;

beforeEach(async () => {
  [seen, atEngine, held] = [[], { now: 0, most: 0 }, new Map()];
  answer = () => ANSWER;
  engine = await startStubEngine(async (socket, request) => {
    const text = String(request.body);
    const name = /FROM \[([^\]]+)\]/.exec(text)?.[1] ?? /<RequestType>(\w+)/.exec(text)?.[1] ?? '';
    seen.push(name);
    atEngine.now += 1;
    atEngine.most = Math.max(atEngine.most, atEngine.now);
    socket.once('close', () => (atEngine.now -= 1));
    await held.get(name);
    await sendXml(answer(name))(socket, request);
  });
});
afterEach(async () => {
  await gateway?.close();
  await engine.close();
});

async function start(settings: Record<string, unknown> = {}): Promise<void> {
  const { warm, ...others } = settings;
  gateway = await startTestGateway({
    engine: { url: engine.url },
    cache: { share: 'everyone' },
    warm: { mode: 'auto', settle: '0', ...(warm as object | undefined) },
    auth: { viewers: ['bob'] },
    ...others,
  });
}

const ask = async (name: string, user = 'alice') =>
  shortStatus(await askXmla(gateway.url, query(name), { user }));

/** Each is asked twice, so that it counts. */
async function askTwice(...names: string[]): Promise<void> {
  for (const name of [...names, ...names]) await ask(name);
}

const names = (count: number) => Array.from({ length: count }, (_, at) => `Cube ${at}`);
/** Holds the questions of a cube from now on. */
function hold(name: string) {
  const { opened, open } = gate();
  held.set(name, opened);
  return open;
}
const isAsked = (name: string, times = 1) =>
  until(() => seen.filter((one) => one === name).length >= times);

describe('a run by itself', () => {
  test('has what was asked twice in the cache before people ask, and nothing else', async () => {
    await start();
    await askTwice(...names(30));
    await ask('asked once');
    const run = await nextRun(gateway, () => purge(gateway));
    expect(figuresOf(run)).toMatchObject({ planned: 30, stored: 30, cut: null });
    expect(run).toMatchObject({ by: null, project: null, purge: expect.any(String) });
    const statuses = [];
    for (const name of names(30)) statuses.push(await ask(name, 'bob'));
    expect(new Set(statuses)).toEqual(new Set(['hit']));
    expect(await ask('asked once')).toBe('miss stored');
    expect(atEngine.most).toBeLessThanOrEqual(2);
  });

  test('counts no user among those who asked, and tells no request', async () => {
    await start();
    await askTwice('Sales');
    const before = gateway.events.filter(({ type }) => type === 'xmla-answered').length;
    await nextRun(gateway, () => purge(gateway));
    expect(gateway.events.filter(({ type }) => type === 'xmla-answered')).toHaveLength(before);
    const { candidates } = await readWarmUp(gateway, 'bob');
    expect(candidates).toMatchObject([{ subject: 'Execute', catalogs: 'Shop', asks: 2 }]);
  });

  test('asks first what is worth most, at most so many, and begins with metadata', async () => {
    await start({ warm: { queries: 3, concurrency: 1 } });
    const discover = (type: string) =>
      Buffer.from(
        String(query('x'))
          .replace(
            /<Execute[\s\S]*<\/Command>/,
            `<Discover xmlns="urn:schemas-microsoft-com:xml-analysis"><RequestType>${type}</RequestType><Restrictions><RestrictionList/></Restrictions>`,
          )
          .replace('</Execute>', '</Discover>'),
      );
    answer = (name) => (name.startsWith('MDSCHEMA') ? response('Discover', 'rowset', '') : ANSWER);
    // It is slow, so that the others are worth less on a busy machine, too.
    held.set('often', delay(1_000));
    for (let times = 0; times < 9; times += 1) await ask('often');
    await askTwice('seldom', 'seldom too');
    for (let times = 0; times < 2; times += 1) {
      expect((await askXmla(gateway.url, discover('MDSCHEMA_CUBES'))).status).toBe(200);
    }
    seen.length = 0;
    const run = await nextRun(gateway, () => purge(gateway));
    expect([run.planned, run.stored]).toEqual([3, 3]);
    expect(seen.filter((name) => name !== CATALOGS).slice(0, 2)).toEqual([
      'MDSCHEMA_CUBES',
      'often',
    ]);
  });

  test('waits until the purges are over, and a newer one ends it', async () => {
    await start();
    await askTwice(...names(3));
    const open = hold('Cube 0');
    await purge(gateway);
    await isAsked('Cube 0', 2);
    const [first, second] = await Promise.all([
      nextRun(gateway, () => purge(gateway)),
      (async () => {
        await until(() => endedRuns(gateway.events).length === 1);
        held.clear();
        open();
        await until(() => endedRuns(gateway.events).length === 2);
        return endedRuns(gateway.events)[1] as WarmRun;
      })(),
    ]);
    expect([first.cut, second.cut, second.stored]).toEqual(['purge', null, 3]);
    expect(second.purge).not.toBe(first.purge);
  });

  test('stores nothing that a purge made old while the engine was asked', async () => {
    await start();
    await askTwice('Sales');
    answer = () => mddatasetAnswer({ members: ['before the load'] });
    const open = hold('Sales');
    await purge(gateway);
    await isAsked('Sales', 2);
    answer = () => mddatasetAnswer({ members: ['after the load'] });
    const run = await nextRun(gateway, () => purge(gateway));
    open();
    held.clear();
    expect([run.cut, run.stored]).toEqual(['purge', 0]);
    const { text } = await askXmla(gateway.url, query('Sales'));
    expect(text).toContain('after the load');
  });

  test.each([
    [
      'login: forward',
      {
        engine: { login: 'forward' },
        cache: { share: 'everyone', engine_permissions_ignored: true },
      },
      'by POST /admin/warm only: engine.login is forward',
    ],
    ['share: user', { cache: { share: 'user' } }, 'by POST /admin/warm only: cache.share is user'],
  ])('is not made with %s, and /admin/warm says why', async (_, settings, as) => {
    const { engine: login, cache } = settings as { engine?: object; cache?: object };
    await start({ engine: { url: engine.url, ...login }, ...(cache && { cache }) });
    await askTwice('Sales');
    await purge(gateway);
    expect(await readWarmUp(gateway)).toMatchObject({ mode: 'auto', as, waiting: null, run: null });
  });

  test('is told with its progress, and what waits', async () => {
    await start({ warm: { settle: '1h' } });
    await askTwice('Sales');
    await purge(gateway);
    const { waiting } = await readWarmUp(gateway);
    expect(waiting).toEqual({ purge: expect.any(String), begins_in_ms: expect.any(Number) });
    const open = hold('Sales');
    const run = await nextRun(gateway, async () => {
      await warmNow(gateway);
      await isAsked('Sales', 2);
      expect((await readWarmUp(gateway)).run).toMatchObject({ planned: 1, stored: 0, ended: null });
      open();
    });
    expect((await readWarmUp(gateway)).runs).toMatchObject([
      { id: run.id, stored: 1, by: 'ADMIN' },
    ]);
  });
});

describe('a user', () => {
  test('takes the place of a query of the warm-up, which is tried again', async () => {
    await start({ limits: { concurrency: 1 } });
    await askTwice('Sales');
    const open = hold('Sales');
    const run = await nextRun(gateway, async () => {
      await purge(gateway);
      await isAsked('Sales', 2);
      expect(await ask('of a user')).toBe('miss stored');
      await isAsked('Sales', 3);
      open();
    });
    expect(figuresOf(run)).toMatchObject({ planned: 1, stored: 1, failed: {}, skipped: {} });
    expect(atEngine.most).toBe(1);
  });

  test('who asks what the warm-up is asking keeps it going, though others need the place', async () => {
    await start({ limits: { concurrency: 1 } });
    await askTwice('Sales');
    const open = hold('Sales');
    const run = await nextRun(gateway, async () => {
      await purge(gateway);
      await isAsked('Sales', 2);
      const joined = ask('Sales');
      await untilTold('flight_waiters 1');
      const other = ask('other', 'bob');
      await untilTold('engine_queue 1');
      open();
      expect([await joined, await other]).toEqual(['hit', 'miss stored']);
    });
    expect(seen.filter((name) => name === 'Sales')).toHaveLength(2);
    expect(figuresOf(run)).toMatchObject({ stored: 1, skipped: {} });
    expect(atEngine.most).toBe(1);
  });

  test('who overtakes a query four times has it left out', async () => {
    await start({ limits: { concurrency: 1 } });
    await askTwice('Sales');
    const open = hold('Sales');
    const run = await nextRun(gateway, async () => {
      await purge(gateway);
      for (const times of [2, 3, 4, 5]) {
        await isAsked('Sales', times);
        await ask(`of a user ${times}`);
      }
    });
    open();
    expect(figuresOf(run)).toMatchObject({ stored: 0, skipped: { overtaken: 1 } });
  });

  test('who joins gets an answer of an own request where that of the warm-up fails', async () => {
    await start();
    await askTwice('Sales');
    const open = hold('Sales');
    answer = () => faultAnswer();
    await nextRun(gateway, async () => {
      await purge(gateway);
      await isAsked('Sales', 2);
      const joined = ask('Sales');
      await untilTold('flight_waiters 1');
      open();
      expect(await joined).toMatch(/^miss fault/);
    });
  });
});

/** Waits until the metrics say so. */
async function untilTold(line: string): Promise<void> {
  const message = { path: '/metrics', headers: { authorization: basic('ADMIN') } };
  const isTold = async () =>
    (await send(gateway.url, message)).text.includes(`mdx_gateway_${line}\n`);
  await certain(isTold, line);
}

describe('an engine in trouble', () => {
  test('that answers with Faults is left alone after five of them', async () => {
    await start({ warm: { concurrency: 1 } });
    await askTwice(...names(9));
    answer = () => faultAnswer();
    const run = await nextRun(gateway, () => purge(gateway));
    expect(figuresOf(run)).toMatchObject({ cut: 'failures', stored: 0, not_stored: { fault: 5 } });
    expect(await ask('Cube 0')).toMatch(/^miss fault/);
  });

  test('that is away is left alone after five tries', async () => {
    await start({ warm: { concurrency: 1 } });
    await askTwice(...names(9));
    await engine.close();
    const run = await nextRun(gateway, () => purge(gateway));
    expect(figuresOf(run)).toMatchObject({ cut: 'failures', failed: { 'engine-unreachable': 5 } });
    engine = await startStubEngine(sendXml(ANSWER));
  });

  test('that breaks off in the middle leaves nothing in the cache', async () => {
    await start({ warm: { concurrency: 1 } });
    await askTwice(...names(2));
    engine.answerWith((socket) => {
      socket.writeHead(200, { 'content-type': 'text/xml' });
      socket.write(ANSWER.slice(0, 100));
      setImmediate(() => socket.destroy());
    });
    const run = await nextRun(gateway, () => purge(gateway));
    expect(figuresOf(run)).toMatchObject({ stored: 0, failed: { 'engine-unreachable': 2 } });
    engine.answerWith(sendXml(ANSWER));
    expect(await ask('Cube 0')).toBe('miss stored');
  });

  test('works no longer for a run than its budget', async () => {
    await start({ warm: { concurrency: 1, budget: '1s' } });
    await askTwice(...names(4));
    engine.answerWith(async (socket, request) => {
      await delay(1_100);
      await sendXml(ANSWER)(socket, request);
    });
    const run = await nextRun(gateway, () => purge(gateway));
    expect(figuresOf(run)).toMatchObject({ planned: 4, stored: 1, cut: 'budget' });
  });
});

describe('POST /admin/warm', () => {
  const FORWARDED = { login: 'forward' };
  /** What the engine was asked with the login of ADMIN. */
  const askedAsAdmin = () =>
    seen.filter(
      (name, at) => name !== CATALOGS && engine.seen[at]?.headers.authorization === basic('ADMIN'),
    );

  test('asks with the login of its call what that user asked, and nothing that others wrote', async () => {
    await start({ engine: { url: engine.url, ...FORWARDED }, cache: { share: 'user' } });
    await askTwice('Of alice', 'Of both');
    for (const name of ['Own', 'Own', 'Of both']) await ask(name, 'ADMIN');
    await purge(gateway);
    engine.seen.length = seen.length = 0;
    const run = await nextRun(gateway, async () => {
      const { status, text } = await warmNow(gateway);
      expect([status, JSON.parse(text)]).toEqual([202, { id: expect.any(String) }]);
    });
    expect(run).toMatchObject({ by: 'ADMIN', purge: null, planned: 2, stored: 2 });
    expect(askedAsAdmin().sort()).toEqual(['Of both', 'Own']);
    expect([await ask('Own', 'ADMIN'), await ask('Of both')]).toEqual(['hit', 'miss stored']);
  });

  test('asks the queries that its call names, and tells which are not known', async () => {
    await start({ engine: { url: engine.url, ...FORWARDED }, cache: { share: 'user' } });
    await askTwice('Sales', 'Store');
    await ask('Once');
    const digests = new Map<string, string>();
    for (const event of gateway.events) {
      if (event.type !== 'xmla-answered') continue;
      digests.set(String(event.cubes), event.digest);
    }
    const named = ['Sales', 'Once'].map((name) => digests.get(name) ?? '');
    const unknown = 'A'.repeat(22);
    const run = await nextRun(gateway, async () => {
      const body = JSON.stringify({ queries: [...named, unknown] });
      const { status, text } = await warmNow(gateway, 'ADMIN', '', body);
      expect([status, JSON.parse(text)]).toEqual([
        202,
        { id: expect.any(String), unknown: [unknown] },
      ]);
    });
    expect(run).toMatchObject({ planned: 2, stored: 2 });
    expect(askedAsAdmin().sort()).toEqual(['Once', 'Sales']);
    expect([await ask('Sales', 'ADMIN'), await ask('Sales', 'bob')]).toEqual([
      'hit',
      'miss stored',
    ]);
  });

  test.each([
    '{',
    '[]',
    '{}',
    '{"queries":[]}',
    '{"queries":"AAAAAAAAAAAAAAAAAAAAAA"}',
    '{"queries":["short"]}',
    '{"queries":[1]}',
    '{"queries":["AAAAAAAAAAAAAAAAAAAAAA"],"user":"alice"}',
  ])('with the body %s is refused, and begins nothing', async (body) => {
    await start();
    const { status, text } = await warmNow(gateway, 'ADMIN', '', body);
    const { error, message } = JSON.parse(text) as Record<string, string>;
    expect([status, error]).toEqual([400, 'bad-request']);
    expect(message).toContain('it may be missing, or {"queries":["…"]}');
    expect((await readWarmUp(gateway)).runs).toEqual([]);
  });

  test('asks one project where it is named', async () => {
    await start();
    await askTwice('Sales');
    for (let times = 0; times < 2; times += 1) {
      await askXmla(gateway.url, query('Other'), { path: '/mdx/xmla/Depot' });
    }
    const run = await nextRun(gateway, () => warmNow(gateway, 'ADMIN', '?project=depot'));
    expect(run).toMatchObject({ project: 'depot', planned: 1, there: 1 });
  });

  test('is refused to others, to pages of other sites, while a run is under way, and while it is off', async () => {
    await start();
    await askTwice('Sales');
    const refused = async (user: string, headers: Record<string, string> = {}, search = '') => {
      const all = { authorization: basic(user), ...headers };
      const path = `/admin/warm${search}`;
      const { status, text } = await send(gateway.url, { method: 'POST', path, headers: all });
      const { message } = JSON.parse(text) as { message: string };
      return [status, message.replace(/ \(request .*/, '')];
    };
    expect(await refused('bob')).toEqual([403, 'Nothing was done: bob is not in auth.admins.']);
    const [status] = await refused('ADMIN', { 'sec-fetch-site': 'cross-site' });
    expect([status, (await refused('ADMIN', {}, '?user=x'))[0]]).toEqual([403, 400]);
    for (const project of ['', '..', 'x'.repeat(300)]) {
      const [wrong, message] = await refused('ADMIN', {}, `?project=${project}`);
      expect([wrong, message]).toEqual([400, expect.stringMatching(/project must be a name that/)]);
    }
    const open = hold('Sales');
    await nextRun(gateway, async () => {
      await purge(gateway);
      await isAsked('Sales', 2);
      expect(await refused('ADMIN')).toEqual([409, 'Nothing is asked: a run is under way.']);
      open();
    });
    await gateway.reload({ engine: { url: engine.url } });
    expect(await refused('ADMIN')).toEqual([
      409,
      'Nothing is asked: warm.mode is off, so that no queries are kept.',
    ]);
  });
});

describe('a change of the configuration', () => {
  const SETTINGS = () => ({ engine: { url: engine.url }, cache: { share: 'everyone' } });

  test('to off ends the run, and forgets all', async () => {
    await start();
    await askTwice('Sales', 'Store');
    const open = hold('Sales');
    const run = await nextRun(gateway, async () => {
      await purge(gateway);
      await isAsked('Sales', 2);
      await gateway.reload({ ...SETTINGS(), warm: { mode: 'off' } });
    });
    open();
    expect(run.cut).toBe('off');
    expect(await readWarmUp(gateway)).toMatchObject({ mode: 'off', as: 'off', candidates: [] });
    await gateway.reload({ ...SETTINGS(), warm: { mode: 'auto', settle: '1h' } });
    expect((await readWarmUp(gateway)).candidates).toEqual([]);
  });

  test('in the middle of a run goes on with the engine in force', async () => {
    await start({ warm: { concurrency: 1 } });
    await askTwice(...names(3));
    const open = hold('Cube 1');
    const run = await nextRun(gateway, async () => {
      await purge(gateway);
      await isAsked('Cube 1', 2);
      await gateway.reload({
        ...SETTINGS(),
        cache: { share: 'everyone', ttl: '1h' },
        warm: { mode: 'auto', settle: '0' },
      });
      open();
    });
    expect(figuresOf(run)).toMatchObject({ stored: 3, failed: {}, cut: null });
  });

  test('a shutdown ends the run and waits for nothing', async () => {
    await start();
    await askTwice('Sales');
    const open = hold('Sales');
    await purge(gateway);
    await isAsked('Sales', 2);
    await gateway.gateway.close(1_000);
    open();
    expect(endedRuns(gateway.events)).toMatchObject([{ cut: 'shutdown' }]);
    await start();
  });
});

test('the first hit of an entry that the warm-up filled is counted', async () => {
  await start();
  await askTwice('Sales', 'Store');
  await nextRun(gateway, () => purge(gateway));
  await askTwice('Sales');
  await untilTold('warmed_hits_total 1');
  await untilTold('warm_queries_total{result="stored"} 2');
});

test('what a catalog says of its clients is heeded', async () => {
  await start();
  answer = (name) =>
    name === CATALOGS
      ? response(
          'Discover',
          'rowset',
          '<row><CATALOG_NAME>SHOP</CATALOG_NAME><CLIENTCACHEREFRESHPOLICY>0</CLIENTCACHEREFRESHPOLICY></row>',
        )
      : ANSWER;
  await askTwice('Sales', 'Store');
  const run = await nextRun(gateway, () => purge(gateway));
  expect(figuresOf(run)).toMatchObject({ stored: 0, skipped: { 'refresh-policy': 2 } });
  expect(seen.filter((name) => name === CATALOGS)).toHaveLength(1);
});
