import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { Socket } from 'node:net';
import { largeMddatasetAnswer, mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import {
  askXmla,
  portOf,
  sendRaw,
  shortStatus,
  until,
  type RawAnswer,
} from '../support/http-client.ts';
import { resetLater, startRawEngine, wholeAnswer, type RawEngine } from '../support/raw-engine.ts';
import { startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

let engine: RawEngine;
/** It waits as long as by default, so that a busy machine may take its time. */
let patient: TestGateway;
/** It is asked where the engine falls silent. */
let impatient: TestGateway;
let count = 0;

beforeAll(async () => {
  engine = await startRawEngine(() => {});
  patient = await startTestGateway({ engine: { url: engine.url } });
  impatient = await startTestGateway({ engine: { url: engine.url, timeout: '1s' } });
  // The first query of all is sent in another way than those behind an answer.
  engine.answerWith((socket) => socket.write(wholeAnswer(mddatasetAnswer())));
  for (const { url } of [patient, impatient]) await askXmla(url, KINDS[1][1]());
});
afterAll(async () => {
  await patient.close();
  await impatient.close();
  await engine.close();
});
beforeEach(() => {
  engine.seen.length = 0;
  patient.events.length = 0;
  impatient.events.length = 0;
});

const KINDS = [
  ['passed through', () => execute({ statement: `CALL number${(count += 1)}()` })],
  ['cacheable', () => execute({ statement: `SELECT FROM [Sales ${(count += 1)}]` })],
] as const;

const failures = (gateway = patient) =>
  gateway.events.flatMap((event) => (event.type === 'engine-failed' ? [event.reason] : []));

/** What an engine can do before the head of its answer has come. */
const BEFORE_THE_HEAD: readonly (readonly [
  what: string,
  act: (socket: Socket) => void,
  status: number,
  reason: string,
])[] = [
  ['closes the connection', (socket) => socket.end(), 502, 'engine-unreachable'],
  ['resets the connection', (socket) => socket.resetAndDestroy(), 502, 'engine-unreachable'],
  ['never answers', () => {}, 504, 'engine-timeout'],
  [
    'stops in the head',
    (socket) => socket.write('HTTP/1.1 200 OK\r\nConte'),
    504,
    'engine-timeout',
  ],
  [
    'breaks off in the head',
    (socket) => socket.end('HTTP/1.1 200 OK\r\nConte'),
    502,
    'engine-unreachable',
  ],
  [
    'speaks another protocol',
    (socket) => socket.end('220 smtp.example ESMTP\r\n'),
    502,
    'engine-unreachable',
  ],
  [
    'sends bytes of no meaning',
    (socket) => socket.end(Buffer.from([0, 255, 10, 13, 10])),
    502,
    'engine-unreachable',
  ],
  [
    'sends two lengths',
    (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'),
    502,
    'engine-unreachable',
  ],
  [
    'sends a status that is none',
    (socket) => socket.end('HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n'),
    502,
    'engine-unreachable',
  ],
  [
    'sends control characters in the first line',
    (socket) => socket.end('HTTP/1.1 200 O\u0001K\r\nContent-Length: 0\r\n\r\n'),
    502,
    'engine-unreachable',
  ],
  [
    'sends control characters in a header',
    (socket) => socket.end('HTTP/1.1 200 OK\r\nX-Odd: a\u0001b\r\nContent-Length: 0\r\n\r\n'),
    502,
    'engine-unreachable',
  ],
  [
    'changes the protocol',
    (socket) => socket.write('HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'),
    502,
    'engine-unreachable',
  ],
];

describe.each(KINDS)('a request that is %s', (_kind, body) => {
  test.each(BEFORE_THE_HEAD)(
    'is answered by a Fault when the engine %s',
    async (_what, act, status, reason) => {
      engine.answerWith(act);
      const gateway = reason === 'engine-timeout' ? impatient : patient;
      const answer = await askXmla(gateway.url, body());
      expect([answer.status, shortStatus(answer)]).toEqual([status, `gateway ${reason}`]);
      expect(answer.whole).toBe(true);
      expect(answer.headers['content-type']).toBe('text/xml; charset=utf-8');
      expect(answer.text).toContain('<SOAP-ENV:Fault>');
      expect(answer.text).not.toContain('127.0.0.1');
      expect(failures(gateway)).toEqual([reason]);
    },
  );

  test.each([
    ['refuses the connection', 'http://127.0.0.1:1/xmla'],
    ['has a name that nobody knows', 'http://no-such-engine.invalid/xmla'],
    ['does not speak TLS', 'https://127.0.0.1:PLAIN/xmla'],
  ])('is answered by a Fault when the engine %s', async (_what, url) => {
    const plain = await startStubEngine(() => {});
    const other = await startTestGateway({
      engine: { url: url.replace('PLAIN', String(plain.port)) },
    });
    const answer = await askXmla(other.url, body());
    expect([answer.status, shortStatus(answer)]).toEqual([502, 'gateway engine-unreachable']);
    expect(answer.text).toContain('<SOAP-ENV:Fault>');
    await other.close();
    await plain.close();
  });
});

const LARGE = largeMddatasetAnswer(300_000);
const HALF = LARGE.slice(0, 150_000);
const WITH_LENGTH = `HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: ${LARGE.length}\r\n\r\n${HALF}`;
const IN_CHUNKS = `HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n\r\n${HALF.length.toString(16)}\r\n${HALF}\r\n`;

/** What an engine can do when half of its answer is out. */
const IN_THE_BODY: readonly (readonly [what: string, act: (socket: Socket) => void])[] = [
  ['a body with a length is cut off', (socket) => socket.end(WITH_LENGTH)],
  ['a chunked body is cut off', (socket) => socket.end(IN_CHUNKS)],
  ['a body with a length falls silent', (socket) => socket.write(WITH_LENGTH)],
  ['a chunked body falls silent', (socket) => socket.write(IN_CHUNKS)],
  ['a chunk has no length', (socket) => socket.write(`${IN_CHUNKS}zz\r\n`)],
  ['a chunked body is reset', (socket) => socket.write(IN_CHUNKS, () => resetLater(socket))],
];

const gatewayFor = (what: string) => (what.endsWith('falls silent') ? impatient : patient);

const CLIENTS = [
  ['HTTP/1.1', 'connection: close\r\n'],
  ['HTTP/1.1', ''],
  ['HTTP/1.0', ''],
  ['HTTP/1.0', 'connection: keep-alive\r\n'],
] as const;

function rawRequest(version: string, line: string, body: Buffer): Buffer {
  const head = `POST /mdx/xmla ${version}\r\nhost: x\r\nauthorization: ${basic('alice')}\r\n${line}content-type: text/xml\r\ncontent-length: ${body.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), body]);
}

/** Whether a client would take what it got for a whole answer (RFC 9112 §6.3, §8). */
function looksWhole({ bytes, ended }: RawAnswer): boolean {
  const text = bytes.toString('latin1');
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return false;
  const head = text.slice(0, end);
  const body = text.slice(end + 4);
  if (/^transfer-encoding: *chunked/im.test(head)) return body.endsWith('\r\n0\r\n\r\n');
  const length = /^content-length: *(\d+)/im.exec(head)?.[1];
  return length === undefined ? ended === 'end' : body.length >= Number(length);
}

describe.each(KINDS)('an answer to a request that is %s', (_kind, body) => {
  test.each(IN_THE_BODY)(
    'never looks whole to any client, is counted once and asked for again when %s',
    async (what, act) => {
      const gateway = gatewayFor(what);
      const project = `project${(count += 1)}`;
      const told = (type: string) =>
        gateway.events.filter(
          (event) => event.type === type && 'project' in event && event.project === project,
        );
      const asked = body();
      const path = `/mdx/xmla/${project}`;
      engine.answerWith(act);
      const [broken, ...raws] = await Promise.all([
        askXmla(gateway.url, asked, { path }),
        ...CLIENTS.map(([version, line]) =>
          sendRaw(portOf(gateway.url), rawRequest(version, line, body())),
        ),
      ]);
      for (const raw of raws) expect(raw.bytes.toString('latin1')).toMatch(/^HTTP\/1\.1 200 /);
      expect([broken.whole, raws.map(looksWhole)]).toEqual([false, CLIENTS.map(() => false)]);
      await until(() => told('xmla-answered').length > 0 && told('engine-answered').length > 0);
      expect(told('engine-failed')).toHaveLength(1);
      expect(told('xmla-answered')).toEqual([
        expect.objectContaining({ complete: false, status: 200 }),
      ]);
      engine.seen.length = 0;
      engine.answerWith((socket) => socket.write(wholeAnswer(mddatasetAnswer())));
      const answer = await askXmla(gateway.url, asked, { path });
      expect([answer.status, answer.text]).toEqual([200, mddatasetAnswer()]);
      expect(shortStatus(answer)).not.toBe('hit');
      expect(engine.seen).toHaveLength(1);
    },
  );
});

describe('a short answer to a cacheable request', () => {
  const short = (head: string) => `HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n${head}\r\n`;
  test.each([
    ['with a length', `${short('Content-Length: 9000\r\n')}<a>`],
    ['in chunks', `${short('Transfer-Encoding: chunked\r\n')}3\r\n<a>\r\n`],
  ])(
    'that is cut off %s becomes a Fault, since nothing of it was sent yet',
    async (_what, text) => {
      engine.answerWith((socket) => socket.end(text));
      let answer = await askXmla(patient.url, KINDS[1][1]());
      // A busy machine may have let go of what is held back before it was cut off.
      while (answer.status === 200) {
        expect(answer.whole).toBe(false);
        answer = await askXmla(patient.url, KINDS[1][1]());
      }
      expect([answer.status, answer.whole]).toEqual([502, true]);
      expect(answer.text).toContain('<SOAP-ENV:Fault>');
    },
  );
});

describe('a kept-alive connection that the engine has closed', () => {
  const answerOnce = (socket: Socket) => socket.write(wholeAnswer(mddatasetAnswer()));

  test('costs a cacheable request nothing', async () => {
    engine.answerWith(answerOnce);
    await askXmla(patient.url, KINDS[1][1]());
    // The next request arrives on the connection that is kept, and is never answered there.
    engine.answerWith((socket, n) => (n === 2 ? socket.destroy() : answerOnce(socket)));
    const answer = await askXmla(patient.url, KINDS[1][1]());
    expect([answer.status, answer.text]).toEqual([200, mddatasetAnswer()]);
    expect(engine.seen).toHaveLength(3);
    expect(failures()).toEqual([]);
  });

  test('costs a cacheable request nothing when all connections are dead', async () => {
    const places: Socket[] = [];
    engine.answerWith((socket) => {
      places.push(socket);
      if (places.length === 3) places.forEach((one) => answerOnce(one));
    });
    // Three at one time, so that three connections are kept.
    await Promise.all([1, 2, 3].map(() => askXmla(patient.url, KINDS[1][1]())));
    const old = new Set(places);
    engine.answerWith((socket) => {
      if (old.has(socket)) socket.destroy();
      else answerOnce(socket);
    });
    const answer = await askXmla(patient.url, KINDS[1][1]());
    expect([answer.status, answer.text]).toEqual([200, mddatasetAnswer()]);
    expect(failures()).toEqual([]);
  });

  test('is not tried twice for a request that may have done something', async () => {
    engine.answerWith(answerOnce);
    await askXmla(patient.url, KINDS[0][1]());
    engine.answerWith((socket) => socket.destroy());
    const answer = await askXmla(patient.url, KINDS[0][1]());
    expect(answer.status).toBe(502);
    expect(engine.seen).toHaveLength(2);
  });
});
