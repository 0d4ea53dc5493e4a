import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { connect, type Socket } from 'node:net';
import { systemClock } from '../../src/clock.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, portOf, shortStatus, until, type Answer } from '../support/http-client.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** Time stands still for both, so that they say the same ages. */
const clock = { now: systemClock.now, wall: () => 1_800_000_000_000 };

let engine: StubEngine;
let withHotPath: TestGateway;
let without: TestGateway;
const BYTES = Buffer.from(mddatasetAnswer({ cells: 100 }));

beforeAll(async () => {
  engine = await startStubEngine(sendXml(BYTES));
  const start = (hot_path: boolean) =>
    startTestGateway({ engine: { url: engine.url }, listen: { hot_path } }, { clock });
  withHotPath = await start(true);
  without = await start(false);
});
afterAll(async () => {
  await withHotPath.close();
  await without.close();
  await engine.close();
});

let count = 0;
const newQuery = () =>
  execute({ statement: `SELECT FROM [Sales ${(count += 1)}]`, properties: { Catalog: 'Sales' } });

describe('a hit is the same with the hot path and without', () => {
  test.each<[string, Record<string, string>]>([
    ['for a plain client', {}],
    ['for one that takes gzip', { 'accept-encoding': 'gzip, deflate' }],
    ['for one that negotiates transport', { 'x-transport-caps-negotiation-flags': '0,1,0,1,1' }],
    ['for one that closes its connections', { connection: 'close' }],
    ['for one that sends its body in chunks', { 'transfer-encoding': 'chunked' }],
    ['for one that waits to be told to go on', { expect: '100-continue' }],
  ])('%s', async (_name, headers) => {
    const query = newQuery();
    const framing = headers['transfer-encoding'] === undefined ? {} : { 'content-length': [] };
    const ask = (gateway: TestGateway) =>
      askXmla(gateway.url, query, { headers: { ...headers, ...framing } as typeof headers });
    const hits: Answer[][] = [];
    for (const gateway of [withHotPath, without]) {
      expect(shortStatus(await ask(gateway))).toBe('miss stored');
      const asked = [await ask(gateway), await ask(gateway)];
      if (headers['accept-encoding'] !== undefined) {
        // Compressed variants are made when there is time.
        while (asked.at(-1)?.headers['content-encoding'] === undefined)
          asked.push(await ask(gateway));
      }
      hits.push(asked);
    }
    const [hot, cold] = hits.map((asked) => asked.map(comparable));
    expect(hot?.at(-1)).toEqual(cold?.at(-1));
    expect(hot?.[0]).toEqual(cold?.[0]);
    for (const answer of hits.flat()) expect(shortStatus(answer)).toBe('hit');
  });

  function comparable({ status, headers, body }: Answer) {
    const { date: _date, ...others } = headers;
    // Each has drawn a life of its own for its entry.
    const said = String(others['cache-status']).replace(/ttl=\d+/, 'ttl');
    return { status, headers: { ...others, 'cache-status': said }, body: body.toString('latin1') };
  }
});

describe('requests on one connection', () => {
  /** Writes pieces one by one, each after what came before it was seen, and resolves to everything that came. */
  async function converse(pieces: readonly (readonly [piece: Buffer, answers: number])[]) {
    const socket: Socket = connect(portOf(withHotPath.url), '127.0.0.1').setNoDelay();
    let received = '';
    socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')));
    const answers = () => received.split(BYTES.toString('latin1')).length - 1;
    let expected = 0;
    for (const [piece, more] of pieces) {
      socket.write(piece);
      expected += more;
      await until(() => answers() === expected);
    }
    socket.destroy();
    return received;
  }

  function requestFor(query: Buffer): { head: Buffer; whole: Buffer } {
    const head = Buffer.from(
      `POST /mdx/xmla HTTP/1.1\r\nhost: gateway\r\nauthorization: ${basic('alice')}\r\n` +
        `content-type: text/xml\r\ncontent-length: ${query.length}\r\n\r\n`,
    );
    return { head, whole: Buffer.concat([head, query]) };
  }

  test('are answered in their order, also when many come at once and some are hits', async () => {
    const [one, other] = [newQuery(), newQuery()];
    const [first, second] = [requestFor(one), requestFor(other)];
    const all = await converse([
      [first.whole, 1],
      [first.whole, 1],
      [Buffer.concat([first.whole, second.whole, first.whole, second.whole]), 4],
    ]);
    const said = [...all.matchAll(/cache-status: mdx-gateway; ([^;]*)/g)].map(([, word]) => word);
    expect(said).toEqual(['fwd=miss', 'hit', 'hit', 'fwd=miss', 'hit', 'hit']);
    expect(all.split(BYTES.toString('latin1'))).toHaveLength(7);
  });

  test('are answered whose body comes after their head, or in pieces', async () => {
    const query = newQuery();
    const { head, whole } = requestFor(query);
    const half = query.length >> 1;
    const all = await converse([
      [whole, 1],
      [whole, 1],
      [head, 0],
      [query, 1],
      [head, 0],
      [query.subarray(0, half), 0],
      [query.subarray(half), 1],
    ]);
    expect(all.split(BYTES.toString('latin1'))).toHaveLength(5);
  });
});

describe('what is recognised counts no longer', () => {
  test('when it was purged', async () => {
    const query = newQuery();
    for (const expected of ['miss stored', 'hit', 'hit']) {
      expect(shortStatus(await askXmla(withHotPath.url, query))).toBe(expected);
    }
    const purged = await askXmla(withHotPath.url, Buffer.alloc(0), {
      user: 'ADMIN',
      method: 'GET',
      path: '/mdx/xmla/clearCache',
    });
    expect(purged.status).toBe(200);
    expect(shortStatus(await askXmla(withHotPath.url, query))).toBe('miss stored');
  });

  test('when the configuration was changed so that it is not cached', async () => {
    const query = newQuery();
    const gateway = await startTestGateway({ engine: { url: engine.url } });
    const ask = () => askXmla(gateway.url, query, { path: '/mdx/xmla/Sales' });
    for (const expected of ['miss stored', 'hit', 'hit']) {
      expect(shortStatus(await ask())).toBe(expected);
    }
    await gateway.reload({ engine: { url: engine.url }, projects: { Sales: { cache: 'off' } } });
    expect(shortStatus(await ask())).toBe('bypass cache-off');
    await gateway.close();
  });

  test('for another user, whose entries are others', async () => {
    const query = newQuery();
    for (const expected of ['miss stored', 'hit', 'hit']) {
      expect(shortStatus(await askXmla(withHotPath.url, query))).toBe(expected);
    }
    expect(shortStatus(await askXmla(withHotPath.url, query, { user: 'bob' }))).toBe('miss stored');
    const wrong = { authorization: `Basic ${Buffer.from('alice:bob').toString('base64')}` };
    expect((await askXmla(withHotPath.url, query, { headers: wrong })).status).toBe(401);
  });
});

describe('in a session', () => {
  let sessions: SessionEngine;
  let gateway: TestGateway;
  beforeAll(async () => {
    sessions = await startSessionEngine({ kind: 'mondrian' });
    gateway = await startTestGateway({ engine: { url: sessions.url, kind: 'mondrian' } });
  });
  afterAll(async () => {
    await gateway.close();
    await sessions.close();
  });

  async function begin(user: string): Promise<string> {
    const body = execute({ statement: '', session: { kind: 'begin' } });
    const { text } = await askXmla(gateway.url, body, { user });
    return /SessionId="([^"]+)"/.exec(text)?.[1] ?? '';
  }
  const ask = (id: string, statement = 'SELECT FROM [Sales]', user = 'alice') =>
    askXmla(gateway.url, execute({ statement, session: { kind: 'in', id } }), { user });

  test('every answer shows the session in which it was asked, and no other’s', async () => {
    const ids = [await begin('alice'), await begin('alice'), await begin('alice')];
    expect(shortStatus(await ask(ids[0] ?? ''))).toBe('miss stored');
    for (const id of [...ids, ...ids, ...ids]) {
      const answer = await ask(id);
      expect(shortStatus(answer)).toBe('hit');
      expect([...answer.text.matchAll(/SessionId="([^"]+)"/g)].map(([, shown]) => shown)).toEqual([
        id,
      ]);
    }
    expect(shortStatus(await ask(ids[0] ?? '', undefined, 'bob'))).toBe('bypass unknown-session');
  });

  test('no answer comes from the cache after a statement that may have changed it', async () => {
    const id = await begin('alice');
    await ask(id);
    expect(shortStatus(await ask(id))).toBe('hit');
    expect(shortStatus(await ask(id))).toBe('hit');
    await ask(id, 'CREATE SESSION SET [Sales].[S] AS {[Time].[1997]}');
    expect(shortStatus(await ask(id))).toBe('bypass dirty-session');
  });
});
