import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { faultAnswer, mddatasetAnswer, response as answerOf } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, portOf, shortStatus } from '../support/http-client.ts';
import {
  gate,
  sendXml,
  startStubEngine,
  type StubAnswer,
  type StubEngine,
} from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/**
 * What nobody here can read, or of which nobody knows what became of it, is taken for a change of everything when it
 * comes from somebody who may purge; what surely did nothing is not.
 */

const DONE = answerOf('Execute', 'empty', '');
const FAULT = sendXml(faultAnswer());

let engine: StubEngine;
let gateway: TestGateway;
/** What the engine answers to all that is not the query. */
let onChange: StubAnswer;
let data: string;

beforeEach(async () => {
  onChange = sendXml(DONE);
  data = 'old';
  engine = await startStubEngine((response, seen) =>
    (seen.body.includes('SELECT FROM [Sales]<')
      ? sendXml(mddatasetAnswer({ members: [data] }))
      : onChange)(response, seen),
  );
  gateway = await startTestGateway({
    engine: { url: engine.url },
    limits: { concurrency: 1, per_user: 1, queue: 1 },
  });
  await filled();
});
afterEach(async () => {
  jest.useRealTimers();
  await gateway.close();
  await engine.close();
});

const QUERY = execute({ statement: 'SELECT FROM [Sales]', properties: { Catalog: 'A' } });
const askQuery = async () => shortStatus(await askXmla(gateway.url, QUERY));
async function filled(): Promise<void> {
  while ((await askQuery()) !== 'hit');
}
const dataNow = async () => /old|new/.exec((await askXmla(gateway.url, QUERY)).text)?.[0];
const purges = () => gateway.events.filter(({ type }) => type === 'purged');
/** Without a timer, since a test may hold those. */
async function purgedTimes(count: number): Promise<void> {
  while (purges().length < count) await new Promise(setImmediate);
}

const statement = (text: string) => execute({ statement: text, properties: { Catalog: 'B' } });
const inStatement = (content: string) =>
  statement('X')
    .toString()
    .replace('X', () => content);
const sendChange = (body: Buffer | string, user = 'ADMIN') =>
  askXmla(gateway.url, Buffer.from(body), {
    user,
    headers: { 'content-type': 'text/xml', 'content-length': String(Buffer.byteLength(body)) },
  });

const UNREAD: readonly (readonly [what: string, body: string])[] = [
  ['whose encoding is not read', inStatement('COMMIT').replace('UTF-8', 'EBCDIC-CP-US')],
  ['in XML 1.1', inStatement('COMMIT').replace('"1.0"', '"1.1"')],
  ['that is malformed', inStatement('COMMIT').replace('</Command>', '')],
  ['longer than what is read', inStatement(`COMMIT<!--${'x'.repeat(4 * 1024 * 1024)}-->`)],
  [
    'of SOAP 1.2',
    inStatement('COMMIT').replace(
      /http:[^"]*envelope\//,
      'http://www.w3.org/2003/05/soap-envelope',
    ),
  ],
];
const SEVERAL: readonly (readonly [what: string, body: Buffer | string])[] = [
  ['with a statement behind 128 KiB', statement(`SELECT 1${' '.repeat(128 * 1024)}; COMMIT`)],
  ['with a statement longer than what is read', statement('SELECT'.padEnd(1024 * 1024 + 1, ' x'))],
  ['of several statements', statement('UPDATE CUBE [x] SET y = 1; SELECT FROM [nowhere]')],
  [
    'of several commands',
    inStatement('').replace('<Statement></Statement>', '<ClearCache/><Process/>'),
  ],
  [
    'of two Commands',
    inStatement('').replace('</Command>', '</Command><Command><Process/></Command>'),
  ],
  ['with a statement in an element', inStatement('<x>COMMIT</x>')],
  ['with an unknown attribute', inStatement('').replace('<Command>', '<Command x="y">')],
  ['of a Batch', inStatement('').replace('<Statement></Statement>', '<Batch><Process/></Batch>')],
];

describe('a request of somebody who may purge', () => {
  test.each([...UNREAD, ...SEVERAL])('%s purges when it is done', async (_what, body) => {
    expect((await sendChange(body)).text).toBe(DONE);
    expect(purges()).toHaveLength(1);
    if (!String(body).includes('UPDATE')) expect(await askQuery()).toBe('miss stored');
  });

  test.each(UNREAD)('%s purges nothing when it is refused with a Fault', async (_what, body) => {
    onChange = FAULT;
    await sendChange(body);
    expect(await askQuery()).toBe('hit');
  });

  test.each(SEVERAL)('%s purges also when a Fault stands at its end', async (_what, body) => {
    onChange = FAULT;
    expect((await sendChange(body)).text).toBe(faultAnswer());
    expect(purges()).toHaveLength(1);
  });

  test.each([
    ['that hides a statement from one engine by a loose return', statement('-- x\rCOMMIT')],
    ['that ends a transaction', statement('COMMIT')],
  ])('%s purges everything, whatever it names', async (_what, body) => {
    await sendChange(body);
    expect(await askQuery()).toBe('miss stored');
  });

  test.each([...UNREAD, ...SEVERAL])(
    '%s purges nothing when another sends it',
    async (_w, body) => {
      expect((await sendChange(body, 'alice')).text).toBe(DONE);
      expect(await askQuery()).toBe('hit');
    },
  );
});

describe('a change that was never sent purges nothing', () => {
  test('since the engine takes no connection', async () => {
    await engine.close();
    expect((await sendChange(statement('COMMIT'))).status).toBe(502);
    expect([purges(), await askQuery()]).toEqual([[], 'hit']);
    engine = await startStubEngine(() => {});
  });

  test('since too many wait for the engine', async () => {
    const [arrived, release] = [gate(), gate()];
    onChange = async (response, seen) => {
      arrived.open();
      await release.opened;
      await FAULT(response, seen);
    };
    const first = sendChange(statement('COMMIT'));
    await arrived.opened;
    // One of them waits: whichever comes first.
    const others = [sendChange(statement('COMMIT')), sendChange(statement('COMMIT'))];
    expect((await Promise.race(others)).status).toBe(503);
    expect(purges()).toEqual([]);
    release.open();
    await Promise.all([first, ...others]);
    expect([purges(), await askQuery()]).toEqual([[], 'hit']);
  });
});

describe('a change of which nobody knows whether the engine is still at work', () => {
  /** Sends a change and goes away as soon as the engine has it. */
  async function abandoned(): Promise<void> {
    const arrived = gate();
    onChange = () => arrived.open();
    const body = statement('COMMIT');
    const socket = connect(portOf(gateway.url), '127.0.0.1', () => {
      socket.write(
        `POST /mdx/xmla HTTP/1.1\r\nhost: x\r\nauthorization: ${basic('ADMIN')}\r\n` +
          `content-type: text/xml\r\ncontent-length: ${body.length}\r\n\r\n${body.toString()}`,
      );
    });
    socket.on('error', () => {});
    await arrived.opened;
    socket.destroy();
  }
  const WAYS: readonly (readonly [what: string, send: () => Promise<unknown>])[] = [
    ['whose client has gone', abandoned],
    [
      'whose answer breaks off',
      () => {
        onChange = (response) => void response.destroy();
        return sendChange(statement('COMMIT'));
      },
    ],
    [
      'of which a proxy says that it took too long',
      () => {
        onChange = sendXml('<html/>', { status: 504 });
        return sendChange(statement('COMMIT'));
      },
    ],
  ];

  test.each(WAYS)(
    '%s is purged at once, and again for what was filled meanwhile',
    async (_w, send) => {
      // Connections have timers of Node's own, which go on.
      jest.useFakeTimers({
        doNotFake: [
          'nextTick',
          'setImmediate',
          'clearImmediate',
          'setInterval',
          'clearInterval',
          'Date',
          'performance',
          'hrtime',
          'queueMicrotask',
        ],
      });
      await send();
      await purgedTimes(1);
      expect(await askQuery()).toBe('miss stored');
      // Now it is done.
      data = 'new';
      for (const [pause, count] of [
        [5_000, 2],
        [55_000, 3],
        [240_000, 4],
        [600_000, 5],
        [2_700_000, 6],
      ] as const) {
        expect(await dataNow()).toBe(count === 2 ? 'old' : 'new');
        jest.advanceTimersByTime(pause);
        await purgedTimes(count);
        expect(await dataNow()).toBe('new');
      }
      expect(purges().map((event) => 'cause' in event && event.cause)).toEqual(
        Array(6).fill('statement'),
      );
    },
  );

  test('is not one that is answered whole, which is purged once', async () => {
    jest.useFakeTimers({
      doNotFake: ['nextTick', 'setImmediate', 'Date', 'performance', 'queueMicrotask'],
    });
    await sendChange(statement('COMMIT'));
    jest.advanceTimersByTime(7_200_000);
    await filled();
    expect(purges()).toHaveLength(1);
  });
});
