import { beforeEach, describe, expect, test } from '@jest/globals';
import { gunzipSync } from 'node:zlib';
import { encodeAnswer, mddatasetAnswer, rowsetAnswer } from '../support/answers.ts';
import { discover, execute } from '../support/envelopes.ts';
import { askXmla, shortStatus, until, type Answer } from '../support/http-client.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { startTestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const GZIP = { 'accept-encoding': 'gzip, deflate' };

const engine = shared(() => startStubEngine(() => {}));
const gateway = shared(() => startTestGateway({ engine: { url: engine.url } }));
let count = 0;
const newQuery = () =>
  execute({ statement: `SELECT FROM [Sales ${(count += 1)}]`, properties: { Catalog: 'Sales' } });

beforeEach(() => {
  engine.seen.length = 0;
});

const ask = (query: Buffer, headers: Record<string, string>) =>
  askXmla(gateway.url, query, { headers });

/** Asks until the answer is compressed, which is done when there is time; every answer before is whole as well. */
async function askUntilCompressed(query: Buffer, plain: Buffer): Promise<Answer> {
  for (;;) {
    const answer = await ask(query, GZIP);
    expect(shortStatus(answer)).toBe('hit');
    if (answer.headers['content-encoding'] !== undefined) return answer;
    expect(answer.body.equals(plain)).toBe(true);
  }
}

/** Asks and waits until it is a hit for everybody. */
async function store(bytes: Buffer, query = newQuery()): Promise<Buffer> {
  engine.answerWith(sendXml(bytes));
  const first = await ask(query, GZIP);
  expect([shortStatus(first), first.headers['content-encoding']]).toEqual([
    'miss stored',
    undefined,
  ]);
  expect(first.body).toEqual(bytes);
  return query;
}

describe('a hit for a client that takes gzip', () => {
  test.each([
    ['UTF-8', encodeAnswer(mddatasetAnswer({ cells: 300 }), 'utf-8')],
    [
      'ISO-8859-1',
      encodeAnswer(
        mddatasetAnswer({ encoding: 'ISO-8859-1', cells: 50, members: ['Käse'] }),
        'iso-8859-1',
      ),
    ],
    [
      'UTF-16',
      Buffer.concat([
        Buffer.from([0xff, 0xfe]),
        encodeAnswer(mddatasetAnswer({ encoding: 'UTF-16', cells: 50 }), 'utf-16le'),
      ]),
    ],
    ['200 KB', encodeAnswer(mddatasetAnswer({ cells: 1_500 }), 'utf-8')],
  ])('is compressed in time and holds the same bytes (%s)', async (_what, bytes) => {
    const charset = bytes[0] === 0xff ? '; charset=utf-16' : '';
    engine.answerWith(sendXml(bytes, { headers: { 'content-type': `text/xml${charset}` } }));
    const query = newQuery();
    const first = await ask(query, GZIP);
    const second = await ask(query, GZIP);
    // The head of a long one goes out before it is known whether it will be stored.
    expect([shortStatus(first), shortStatus(second)]).toEqual([
      bytes.length > 65_536 ? 'miss' : 'miss stored',
      'hit',
    ]);
    // The first hit is what has it compressed, and waits for nothing.
    expect(second.headers['content-encoding']).toBeUndefined();
    const compressed = await askUntilCompressed(query, bytes);
    expect(compressed.headers).toMatchObject({
      'content-encoding': 'gzip',
      'content-length': String(compressed.body.length),
      'content-type': `text/xml${charset}`,
      vary: 'accept-encoding',
    });
    expect(compressed.body.length).toBeLessThan(bytes.length / 2);
    expect(gunzipSync(compressed.body).equals(bytes)).toBe(true);
    expect(engine.seen).toHaveLength(1);
  });

  test('is as it is when it is short', async () => {
    const bytes = Buffer.from(
      rowsetAnswer({ names: [] }).replace(/<xsd:schema[^]*<\/xsd:schema>/, ''),
    );
    expect(bytes.length).toBeLessThan(1024);
    const query = await store(
      bytes,
      discover({
        requestType: 'MDSCHEMA_CUBES',
        restrictions: { CATALOG_NAME: 'Sales' },
        properties: { Catalog: 'Sales' },
      }),
    );
    for (let turn = 0; turn < 3; turn += 1) {
      const { headers, body } = await ask(query, GZIP);
      expect([headers['content-encoding'], headers.vary]).toEqual([undefined, undefined]);
      expect(body).toEqual(bytes);
    }
  });
});

test.each<[string, Record<string, string>]>([
  ['says nothing', {}],
  ['refuses it', { 'accept-encoding': 'gzip;q=0, *' }],
  ['takes another coding', { 'accept-encoding': 'br, deflate' }],
])('gzip is never sent to a client that %s, also when it is there', async (_what, headers) => {
  const bytes = Buffer.from(mddatasetAnswer({ cells: 100 }));
  const query = await store(bytes);
  await askUntilCompressed(query, bytes);
  for (let turn = 0; turn < 2; turn += 1) {
    const answer = await ask(query, headers);
    expect(shortStatus(answer)).toBe('hit');
    expect([answer.headers['content-encoding'], answer.headers.vary]).toEqual([
      undefined,
      'accept-encoding',
    ]);
    expect(answer.body).toEqual(bytes);
  }
});

test('the bytes that were sent are what is told of a compressed hit', async () => {
  const bytes = Buffer.from(mddatasetAnswer({ cells: 100 }));
  const query = await store(bytes);
  const { body } = await askUntilCompressed(query, bytes);
  const told = () => gateway.events.flatMap((one) => (one.type === 'xmla-answered' ? one : []));
  await until(() => told().at(-1)?.bytes !== bytes.length);
  expect(told().at(-1)).toMatchObject({ bytes: body.length, outcome: { kind: 'hit' } });
});
