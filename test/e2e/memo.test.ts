import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { connect, type Socket } from 'node:net';
import { systemClock } from '../../src/common/clock.ts';
import { untilRemembered } from '../support/remembered.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, portOf, shortStatus, until, type Answer } from '../support/http-client.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** Time stands still, so that all hits say the same ages. */
const clock = { now: systemClock.now, wall: () => 1_800_000_000_000 };

let engine: StubEngine;
let gateway: TestGateway;
const BYTES = Buffer.from(mddatasetAnswer({ cells: 100 }));

beforeAll(async () => {
  engine = await startStubEngine(sendXml(BYTES));
  gateway = await startTestGateway({ engine: { url: engine.url } }, { clock });
});
afterAll(async () => {
  await gateway.close();
  await engine.close();
});

let count = 0;
const newQuery = () =>
  execute({ statement: `SELECT FROM [Sales ${(count += 1)}]`, properties: { Catalog: 'Sales' } });

describe('a hit is the same whether it is found by its key or by what is remembered', () => {
  test.each<[string, Record<string, string>]>([
    ['for a plain client', {}],
    ['for one that takes gzip', { 'accept-encoding': 'gzip, deflate' }],
    ['for one that negotiates transport', { 'x-transport-caps-negotiation-flags': '0,1,0,1,1' }],
    ['for one that closes its connections', { connection: 'close' }],
    ['for one that sends its body in chunks', { 'transfer-encoding': 'chunked' }],
  ])('%s', async (_name, headers) => {
    const query = newQuery();
    const framing = headers['transfer-encoding'] === undefined ? {} : { 'content-length': [] };
    const ask = (more: object = {}) =>
      askXmla(gateway.url, query, {
        headers: { ...headers, ...framing, ...more } as typeof headers,
      });
    expect(shortStatus(await ask())).toBe('miss stored');
    // Compressed variants are made when there is time.
    const isDone = ({ headers: said }: Answer) =>
      headers['accept-encoding'] === undefined || said['content-encoding'] !== undefined;
    while (!isDone(await ask()));
    // A header that no request had before: what is remembered is not known under it.
    const byKey = await ask({ 'x-new': '1' });
    const byMemo = (await untilRemembered(ask)).at(-1);
    expect(byMemo && comparable(byMemo)).toEqual(comparable(byKey));
  });

  function comparable({ status, headers, body }: Answer) {
    const { date: _date, 'x-request-id': _id, ...others } = headers;
    return { status, headers: others, body: body.toString('latin1') };
  }
});

describe('requests on one connection', () => {
  /** Writes pieces one by one, each after what came before it was seen, and resolves to everything that came. */
  async function converse(pieces: readonly (readonly [piece: Buffer, answers: number])[]) {
    const socket: Socket = connect(portOf(gateway.url), '127.0.0.1').setNoDelay();
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
    const ask = () => askXmla(gateway.url, query);
    expect(shortStatus(await ask())).toBe('miss stored');
    await untilRemembered(ask);
    const order = { user: 'ADMIN', method: 'GET', path };
    expect((await askXmla(gateway.url, Buffer.alloc(0), order)).status).toBe(200);
    expect(shortStatus(await ask())).toBe('miss stored');
    await untilRemembered(ask);
  });

  test('when the configuration was changed so that it is not cached', async () => {
    const query = newQuery();
    const settings = { engine: { url: engine.url } };
    const gateway = await startTestGateway(settings, { clock });
    const ask = () => askXmla(gateway.url, query, { path: '/mdx/xmla/Sales' });
    expect(shortStatus(await ask())).toBe('miss stored');
    await untilRemembered(ask);
    await gateway.reload({ ...settings, projects: { Sales: { cache: 'off' } } });
    expect(shortStatus(await ask())).toBe('bypass cache-off');
    await gateway.close();
  });

  test('for another user, whose entries are others', async () => {
    const query = newQuery();
    const ask = () => askXmla(gateway.url, query);
    expect(shortStatus(await ask())).toBe('miss stored');
    await untilRemembered(ask);
    expect(shortStatus(await askXmla(gateway.url, query, { user: 'bob' }))).toBe('miss stored');
    const wrong = { authorization: `Basic ${Buffer.from('alice:bob').toString('base64')}` };
    expect((await askXmla(gateway.url, query, { headers: wrong })).status).toBe(401);
  });
});
