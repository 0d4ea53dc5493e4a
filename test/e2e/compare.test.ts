import { request } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import {
  errorCellAnswer,
  faultAnswer,
  mddatasetAnswer,
  rowsetAnswer,
  SESSION_HEADER,
} from '../support/answers.ts';
import { discover, execute } from '../support/envelopes.ts';
import { askXmla, portOf, send, shortStatus, until } from '../support/http-client.ts';
import '../support/patient-redis.ts';
import { startRedis } from '../support/redis-server.ts';
import { startSessionEngine } from '../support/session-engine.ts';
import { beginSession, inSession } from '../support/stamped-client.ts';
import { gate, sendXml, startStubEngine, type StubAnswer } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const QUERY = execute({ statement: 'SELECT FROM [Sales]', properties: { Catalog: 'Shop' } });
const CUBES = discover({ requestType: 'MDSCHEMA_CUBES' });
const OLD = mddatasetAnswer();
const NEW = mddatasetAnswer({ members: ['F', 'M', 'X'] });

const engine = shared(() => startStubEngine(() => {}));
let gateway: TestGateway;

beforeEach(async () => {
  engine.seen.length = 0;
  engine.answerWith(sendXml(OLD));
  await start();
});
afterEach(() => gateway.close());

async function start(settings: Record<string, unknown> = {}): Promise<void> {
  gateway = await startTestGateway({
    engine: { url: engine.url },
    auth: { purgers: ['bob'] },
    ...settings,
  });
}

interface Compared {
  readonly user: string;
  readonly verdict: string;
  readonly why?: string;
  readonly entry: object | null;
  readonly engine: readonly object[];
  readonly key: string | null;
  readonly epochs: readonly object[] | null;
}

const post = (body: Buffer, search = '', headers: Record<string, string> = {}) =>
  askXmla(gateway.url, body, { path: `/admin/compare${search}`, user: 'ADMIN', headers });

async function compare(body = QUERY, ...given: [string?, Record<string, string>?]) {
  const { status, text } = await post(body, ...given);
  expect([status, text]).toEqual([200, expect.anything()]);
  return JSON.parse(text) as Compared;
}

const askAsAdmin = async (body = QUERY) => {
  const answer = await askXmla(gateway.url, body, { user: 'ADMIN' });
  return [shortStatus(answer), answer.text];
};
const verdicts = () =>
  gateway.events.flatMap((event) => (event.type === 'compared' ? [event.verdict] : []));
/** One answer after the other; the last one stays. */
const inTurn = (...answers: readonly StubAnswer[]): StubAnswer => {
  let turn = 0;
  return (...exchange) => {
    const answer = answers[Math.min(turn, answers.length - 1)];
    turn += 1;
    return answer?.(...exchange);
  };
};

const ENTRY = { source: 'memory', age_ms: expect.any(Number), bytes: OLD.length };
const FRESH = { ms: expect.any(Number), bytes: OLD.length };
const NOT_COMPARED = { entry: null, engine: [], key: null, epochs: null };

describe('an entry', () => {
  test('that the engine would answer again is the same, and stays as it is', async () => {
    await askAsAdmin();
    const compared = await compare();
    expect(compared).toEqual({
      user: 'ADMIN',
      verdict: 'same',
      entry: ENTRY,
      engine: [FRESH],
      key: expect.stringMatching(/^[\w-]{43}$/),
      epochs: [
        { scope: 'everything', token: expect.any(String) },
        { scope: 'project:shop', token: expect.any(String) },
      ],
    });
    const explained = await askXmla(gateway.url, QUERY, { path: '/admin/explain', user: 'ADMIN' });
    const { key, epochs } = (JSON.parse(explained.text) as { cache: Compared }).cache;
    expect([compared.key, compared.epochs]).toEqual([key, epochs]);
    expect(engine.seen).toHaveLength(2);
    expect(engine.seen[1]?.body).toEqual(engine.seen[0]?.body);
    expect(engine.seen[1]?.headers).toEqual(engine.seen[0]?.headers);
    expect(await askAsAdmin()).toEqual(['hit', OLD]);
  });

  test('of a project is found by its name', async () => {
    await askXmla(gateway.url, QUERY, { user: 'ADMIN', path: '/mdx/xmla/Shop' });
    expect(await compare()).toMatchObject({ verdict: 'no-entry', entry: null });
    expect(await compare(QUERY, '?project=Shop')).toMatchObject({
      project: 'Shop',
      verdict: 'same',
    });
  });

  test('is stale when the data has changed without a purge, and is not replaced', async () => {
    await askAsAdmin();
    engine.answerWith(sendXml(NEW));
    const fresh = { ...FRESH, bytes: NEW.length };
    expect(await compare()).toMatchObject({
      verdict: 'stale',
      entry: ENTRY,
      engine: [fresh, fresh],
    });
    expect(engine.seen).toHaveLength(3);
    expect(await askAsAdmin()).toEqual(['hit', OLD]);
  });

  test('cannot be judged where the engine answers differently each time', async () => {
    await askAsAdmin();
    const other = mddatasetAnswer({ members: ['Y'] });
    for (const second of [other, OLD]) {
      engine.answerWith(inTurn(sendXml(NEW), sendXml(second)));
      const { verdict, engine: asked } = await compare();
      expect([verdict, asked.length]).toEqual(['unstable', 2]);
    }
  });

  test.each([
    ['the time of its data', (n: number) => `<LastDataUpdate>${n}</LastDataUpdate>`, ''],
    ['the time of its schema', (n: number) => `<LastSchemaUpdate>${n}</LastSchemaUpdate>`, ''],
    ['the session that the engine begins', () => '', SESSION_HEADER],
  ])('is the same when it differs by %s alone', async (_what, element, session) => {
    let count = 0;
    engine.answerWith((...exchange) => {
      count += 1;
      const header = session.replace('3a7f', String(count).repeat(count));
      const text = mddatasetAnswer({ header }).replace('</CubeName>', `$&${element(count)}`);
      return sendXml(text)(...exchange);
    });
    await askAsAdmin();
    expect((await compare()).verdict).toBe('same');
    expect(count).toBe(2);
  });

  test('is the same when rows differ by such times alone, and not when they differ by more', async () => {
    const rows = (time: string, names: readonly string[]) =>
      rowsetAnswer({ names }).replaceAll('2026-01-05T10:00:00', time);
    const before = rows('2026-01-05T10:00:00', ['Sales']);
    engine.answerWith(sendXml(before));
    await askAsAdmin(CUBES);
    engine.answerWith(sendXml(rows('2026-01-05T10:00:01', ['Sales'])));
    expect((await compare(CUBES)).verdict).toBe('same');
    engine.answerWith(sendXml(rows('2026-01-05T10:00:01', ['Sales', 'Costs'])));
    expect((await compare(CUBES)).verdict).toBe('stale');
  });
});

describe('an entry that goes while the engine is asked', () => {
  /** Holds the first or the second answer of a comparison until something was done. */
  async function whileAsked(turn: 1 | 2, does: () => Promise<unknown>) {
    await askAsAdmin();
    const [arrived, held] = [gate(), gate()];
    const hold: StubAnswer = async (...exchange) => {
      arrived.open();
      await held.opened;
      return sendXml(NEW)(...exchange);
    };
    engine.answerWith(turn === 1 ? inTurn(hold, sendXml(NEW)) : inTurn(sendXml(NEW), hold));
    const comparing = compare();
    await arrived.opened;
    engine.answerWith(inTurn(sendXml(NEW)));
    await does();
    held.open();
    return comparing;
  }

  const clear = (project = '') =>
    send(gateway.url, {
      path: `/mdx/xmla${project}/clearCache`,
      headers: { authorization: basic('bob') },
    });
  const refresh = () =>
    askXmla(gateway.url, QUERY, { user: 'ADMIN', headers: { 'cache-control': 'no-cache' } });

  test.each([
    ['a purge of everything', 1, () => clear()],
    ['a purge of its project', 1, () => clear('/Shop')],
    ['a purge during the second question', 2, () => clear()],
    ['a fresh answer that takes its place', 1, refresh],
  ] as const)('was purged: %s', async (_what, turn, does) => {
    const { verdict, engine: asked } = await whileAsked(turn, does);
    expect([verdict, asked.length]).toEqual(['purged', turn]);
  });

  test('is stale all the same when another project was purged', async () => {
    const { verdict } = await whileAsked(1, () => clear('/Other'));
    expect(verdict).toBe('stale');
  });
});

describe('the engine is not asked', () => {
  test('where there is no entry', async () => {
    const { key, epochs, ...compared } = await compare();
    expect(compared).toEqual({ user: 'ADMIN', verdict: 'no-entry', entry: null, engine: [] });
    expect([key, epochs]).toEqual([expect.any(String), expect.any(Array)]);
    expect(engine.seen).toEqual([]);
  });

  test('where only another user has an entry', async () => {
    await askXmla(gateway.url, QUERY, { user: 'alice' });
    expect((await compare()).verdict).toBe('no-entry');
    expect(engine.seen).toHaveLength(1);
  });

  test.each([
    ['a volatile function', execute({ statement: 'SELECT FROM [Sales] WHERE Now()' }), 'volatile'],
    ['a statement', execute({ statement: 'REFRESH CUBE [Sales]' }), 'not-a-query'],
    ['the beginning of a session', execute({ statement: '', session: { kind: 'begin' } }), ''],
    ['text that is no XML', Buffer.from('SELECT'), 'malformed'],
    ['a document type declaration', Buffer.from('<!DOCTYPE x><x/>'), 'bad-request'],
    [
      'a session that is not known',
      execute({ statement: 'SELECT FROM [Sales]', session: inSession('S1') }),
      'unknown-session',
    ],
  ])('for %s', async (_what, body, why) => {
    const compared = await compare(body);
    expect(compared).toEqual({
      user: 'ADMIN',
      verdict: 'not-cached',
      why: why || expect.any(String),
      ...NOT_COMPARED,
    });
    expect(engine.seen).toEqual([]);
  });

  test('where the configuration switches the cache off', async () => {
    await gateway.reload({ engine: { url: engine.url }, projects: { Shop: { cache: 'off' } } });
    expect(await compare()).toMatchObject({ verdict: 'not-cached', why: 'cache-off' });
    expect(engine.seen).toEqual([]);
  });
});

describe('an engine that gives no answer to compare', () => {
  test.each([
    ['a Fault', sendXml(faultAnswer()), 'fault'],
    ['an error in a cell', sendXml(errorCellAnswer()), 'error-cell'],
    ['a status', sendXml('no', { status: 500 }), 'engine-status'],
    ['a page', sendXml('<html/>', { headers: { 'content-type': 'text/html' } }), 'media-type'],
    ['half of it', sendXml(OLD.slice(0, 900)), 'not-well-formed'],
    [
      'a broken connection',
      ((response) => void response.socket?.destroy()) satisfies StubAnswer,
      'engine-unreachable',
    ],
  ])('is told by a word: %s', async (_what, answer, why) => {
    await askAsAdmin();
    engine.answerWith(answer);
    expect(await compare()).toMatchObject({ verdict: 'failed', why, entry: ENTRY, engine: [] });
    engine.answerWith(inTurn(sendXml(NEW), answer));
    expect(await compare()).toMatchObject({ verdict: 'failed', why, engine: [{}] });
    expect(await askAsAdmin()).toEqual(['hit', OLD]);
  });

  test('in its time has that told', async () => {
    await gateway.reload({ engine: { url: engine.url, timeout: '1s' } });
    await askAsAdmin();
    // It goes on sending, a little at a time.
    const [over, dripping] = [gate(), gate()];
    engine.answerWith((response) => {
      response.writeHead(200, { 'content-type': 'text/xml' });
      dripping.open();
      const drip = setInterval(() => response.write(' '), 100);
      response.once('close', () => {
        clearInterval(drip);
        over.open();
      });
    });
    expect(await compare()).toMatchObject({ verdict: 'failed', why: 'engine-timeout' });
    await over.opened;
  });

  test('is let go when the administrator goes away', async () => {
    await askAsAdmin();
    const [arrived, over] = [gate(), gate()];
    engine.answerWith((response) => {
      response.writeHead(200, { 'content-type': 'text/xml' });
      response.write(OLD.slice(0, 500), arrived.open);
      response.once('close', over.open);
    });
    const asked = request({
      port: portOf(gateway.url),
      host: '127.0.0.1',
      method: 'POST',
      path: '/admin/compare',
      headers: { authorization: basic('ADMIN'), 'content-type': 'text/xml; charset=utf-8' },
      agent: false,
    });
    asked.on('error', () => {});
    asked.end(QUERY);
    await arrived.opened;
    asked.destroy();
    await over.opened;
    await until(() => verdicts().length === 1);
    expect(verdicts()).toEqual(['failed']);
    const { text } = await send(gateway.url, {
      path: '/metrics',
      headers: { authorization: basic('ADMIN') },
    });
    for (const nothing of ['engine_requests', 'in_flight_bytes{use="fill"}']) {
      expect(text).toContain(`\nmdx_gateway_${nothing} 0\n`);
    }
    expect(gateway.events.filter(({ type }) => type === 'internal-error')).toEqual([]);
  });
});

describe('who compares', () => {
  test.each([
    ['a call without a login', { authorization: '' }, 401],
    ['a user', { authorization: basic('alice') }, 403],
    ['a user who may purge', { authorization: basic('bob') }, 403],
    ['a page of another site', { 'sec-fetch-site': 'cross-site' }, 403],
    ['a page of another origin', { origin: 'https://evil.example' }, 403],
    ['an administrator in the name of another', { 'execute-as-user-id': 'alice' }, 403],
  ])('is not %s', async (_who, headers, expected) => {
    await askAsAdmin();
    const { status, text } = await post(QUERY, '', headers);
    expect(status).toBe(expected);
    expect(Object.keys(JSON.parse(text) as object)).toEqual(['error', 'message']);
    expect(engine.seen).toHaveLength(1);
    expect(verdicts()).toEqual([]);
  });

  test('cannot do so for another user', async () => {
    const { status, text } = await post(QUERY, '?user=alice');
    expect([status, text]).toEqual([400, expect.stringContaining('user is no query parameter')]);
  });

  test('is asked of the engine with the own login where it gets that of the client', async () => {
    await gateway.reload({ engine: { url: engine.url, login: 'forward' } });
    await askAsAdmin();
    expect((await compare()).verdict).toBe('same');
    const logins = engine.seen.map(({ headers }) => headers.authorization);
    expect(logins).toEqual([basic('ADMIN'), basic('ADMIN')]);
  });

  test('is told in an event, and is no request of a user', async () => {
    await askAsAdmin();
    const asAdmin = async (path: string) => {
      const answer = await send(gateway.url, { path, headers: { authorization: basic('ADMIN') } });
      return answer.text;
    };
    const paths = ['/admin/requests', '/admin/statistics', '/admin/entries'];
    const before = await Promise.all(paths.map(asAdmin));
    const counted = async () => (await asAdmin('/metrics')).match(/^\w+_xmla_requests_\S+ .*$/gm);
    const metrics = await counted();
    const { headers } = await post(QUERY);
    const { requests } = JSON.parse(before[0] ?? '') as { requests: { digest: string }[] };
    expect(gateway.events.filter(({ type }) => type === 'compared')).toEqual([
      {
        type: 'compared',
        id: headers['x-request-id'],
        principal: 'ADMIN',
        project: '',
        digest: requests[0]?.digest,
        verdict: 'same',
      },
    ]);
    const withoutAge = (texts: string[]) =>
      texts.map((text) => text.replaceAll(/"(?:age|rest|asks|hits|\w+_ms)": [\d.]+/g, ''));
    expect(withoutAge(await Promise.all(paths.map(asAdmin)))).toEqual(withoutAge(before));
    expect(await counted()).toEqual(metrics);
    expect(gateway.events.filter(({ type }) => type === 'stored')).toHaveLength(1);
  });
});

test('in a session of the administrator the own entry is compared, in a dirty one nothing', async () => {
  const sessions = await startSessionEngine({ kind: 'emondrian' });
  await gateway.reload({ engine: { url: sessions.url, kind: 'emondrian' } });
  const properties = { Catalog: 'Shop' };
  try {
    const [own, second, other] = [
      await beginSession(gateway.url, { properties, user: 'ADMIN' }),
      await beginSession(gateway.url, { properties, user: 'ADMIN' }),
      await beginSession(gateway.url, { properties, user: 'alice' }),
    ];
    const query = (id: string, statement = 'SELECT FROM [Sales]') =>
      execute({ statement, properties, session: inSession(id) });
    expect((await askAsAdmin(query(own)))[0]).toBe('miss stored');
    expect(await compare(query(own))).toMatchObject({ verdict: 'same', engine: [{}] });
    // One entry serves all sessions that began alike. This engine tells as data in which of them it computed.
    expect(await compare(query(second))).toMatchObject({ verdict: 'stale', engine: [{}, {}] });
    expect(sessions.asked.at(-1)?.session).toMatchObject({ kind: 'in', id: second });
    expect((await askAsAdmin(query(own)))[0]).toBe('hit');
    const asked = sessions.asked.length;
    expect(await compare(query(other))).toMatchObject({ verdict: 'not-cached' });
    expect(await compare(query(own, 'CREATE SESSION SET [S] AS {}'))).toMatchObject({
      verdict: 'not-cached',
      why: 'not-a-query',
    });
    expect(sessions.asked).toHaveLength(asked);
    // It was not sent, so the session is clean.
    expect((await askAsAdmin(query(own)))[0]).toBe('hit');
    await askAsAdmin(query(own, 'CREATE SESSION SET [S] AS {}'));
    expect(await compare(query(own))).toMatchObject({
      verdict: 'not-cached',
      why: 'dirty-session',
    });
    expect(await compare(query(second))).toMatchObject({ engine: [{}, {}] });
  } finally {
    await sessions.close();
  }
});

test('an entry of Redis is compared by every gateway, and is not brought into memory by that', async () => {
  const redis = await startRedis();
  const settings = { engine: { url: engine.url }, cache: { redis: { url: redis.url } } };
  const [first, second] = [await startTestGateway(settings), await startTestGateway(settings)];
  const before = gateway;
  try {
    gateway = first;
    await askAsAdmin();
    gateway = second;
    let compared = await compare();
    // It is written to Redis after its client has its answer.
    while (compared.verdict === 'no-entry') compared = await compare();
    expect(compared).toMatchObject({ verdict: 'same', entry: { ...ENTRY, source: 'redis' } });
    expect(await compare()).toMatchObject({ entry: { source: 'redis' } });
    engine.answerWith(sendXml(NEW));
    expect(await compare()).toMatchObject({ verdict: 'stale', entry: { source: 'redis' } });
    await redis.close();
    compared = await compare();
    // As long as the lease of its epochs lasts it would be looked up, and not be found.
    while (compared.verdict === 'no-entry') compared = await compare();
    expect(compared).toMatchObject({ verdict: 'not-cached', why: 'epochs-unknown' });
  } finally {
    gateway = before;
    await first.close();
    await second.close();
    await redis.close();
  }
});
