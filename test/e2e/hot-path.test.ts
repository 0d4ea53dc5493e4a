import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { connect, type Socket } from 'node:net';
import { systemClock } from '../../src/clock.ts';
import { hitsUntil, watchfulClock, type AnsweringPath } from '../support/answering-path.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, portOf, shortStatus, until, type Answer } from '../support/http-client.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** Time stands still for both, so that they say the same ages. */
const clock = { now: systemClock.now, wall: () => 1_800_000_000_000 };

let engine: StubEngine;
let withHotPath: TestGateway;
let without: TestGateway;
const [hot, cold] = [watchfulClock(clock), watchfulClock(clock)];
const BYTES = Buffer.from(mddatasetAnswer({ cells: 100 }));

beforeAll(async () => {
  engine = await startStubEngine(sendXml(BYTES));
  const start = (hot_path: boolean, watched: typeof hot) =>
    startTestGateway(
      { engine: { url: engine.url }, listen: { hot_path } },
      { clock: watched.clock },
    );
  withHotPath = await start(true, hot);
  without = await start(false, cold);
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
  const HOT = ['hot path'] as const;
  test.each<[string, Record<string, string>, readonly AnsweringPath[]]>([
    ['for a plain client', {}, HOT],
    ['for one that takes gzip', { 'accept-encoding': 'gzip, deflate' }, HOT],
    [
      'for one that negotiates transport',
      { 'x-transport-caps-negotiation-flags': '0,1,0,1,1' },
      HOT,
    ],
    ['for one that closes its connections', { connection: 'close' }, HOT],
    [
      'for one that sends its body in chunks',
      { 'transfer-encoding': 'chunked' },
      ['hot path', 'recognised'],
    ],
    ['for one that waits to be told to go on', { expect: '100-continue' }, ['recognised']],
  ])('%s', async (_name, headers, ways) => {
    const query = newQuery();
    const framing = headers['transfer-encoding'] === undefined ? {} : { 'content-length': [] };
    const isDone = ({ headers: said }: Answer) =>
      headers['accept-encoding'] === undefined || said['content-encoding'] !== undefined;
    const lasts: Answer[] = [];
    for (const [gateway, watched, by] of [
      [withHotPath, hot, ways],
      [without, cold, ['line']],
    ] as const) {
      const ask = () =>
        askXmla(gateway.url, query, { headers: { ...headers, ...framing } as typeof headers });
      expect(shortStatus(await ask())).toBe('miss stored');
      let hits = await hitsUntil(watched, by, ask);
      // Compressed variants are made when there is time.
      while (!hits.slice(-1).every(isDone)) hits = await hitsUntil(watched, by, ask);
      lasts.push(...hits.slice(-1));
    }
    const [one, other] = lasts.map(comparable);
    expect(one).toEqual(other);
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
  // A purge of everything empties the memory; after one of a project only the epochs are others.
  test.each([
    ['everything', '/mdx/xmla/clearCache'],
    ['its project', '/mdx/xmla/Sales/clearCache'],
  ])('when %s was purged', async (_what, path) => {
    const query = newQuery();
    const ask = () => askXmla(withHotPath.url, query);
    expect(shortStatus(await ask())).toBe('miss stored');
    await hitsUntil(hot, ['hot path'], ask);
    const order = { user: 'ADMIN', method: 'GET', path };
    expect((await askXmla(withHotPath.url, Buffer.alloc(0), order)).status).toBe(200);
    expect(shortStatus(await ask())).toBe('miss stored');
    await hitsUntil(hot, ['hot path'], ask);
  });

  test('when the configuration was changed so that it is not cached', async () => {
    const query = newQuery();
    const watched = watchfulClock(clock);
    const settings = { engine: { url: engine.url }, listen: { hot_path: true } };
    const gateway = await startTestGateway(settings, { clock: watched.clock });
    const ask = () => askXmla(gateway.url, query, { path: '/mdx/xmla/Sales' });
    expect(shortStatus(await ask())).toBe('miss stored');
    await hitsUntil(watched, ['hot path'], ask);
    await gateway.reload({ ...settings, projects: { Sales: { cache: 'off' } } });
    expect(shortStatus(await ask())).toBe('bypass cache-off');
    await gateway.close();
  });

  test('for another user, whose entries are others', async () => {
    const query = newQuery();
    const ask = () => askXmla(withHotPath.url, query);
    expect(shortStatus(await ask())).toBe('miss stored');
    await hitsUntil(hot, ['hot path'], ask);
    expect(shortStatus(await askXmla(withHotPath.url, query, { user: 'bob' }))).toBe('miss stored');
    const wrong = { authorization: `Basic ${Buffer.from('alice:bob').toString('base64')}` };
    expect((await askXmla(withHotPath.url, query, { headers: wrong })).status).toBe(401);
  });
});
