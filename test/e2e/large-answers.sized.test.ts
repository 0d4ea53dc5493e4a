import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { INFLATING } from '../../src/cache/stored-answer.ts';
import { largeMddatasetAnswer, mddatasetAnswer } from '../support/answers.ts';
import { readEngineRequest } from '../support/engine-request.ts';
import { execute, type SessionSpec } from '../support/envelopes.ts';
import { configFolder, listening, runMain } from '../support/gateway-process.ts';
import { askXmla, portOf, send, shortStatus, until, type Answer } from '../support/http-client.ts';
import { sizes } from '../support/sizes.ts';
import { sendXml, startStubEngine, type StubAnswer } from '../support/stub-engine.ts';
import { basic, startTestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const MIB = 1024 * 1024;
const GZIP = { 'accept-encoding': 'gzip' };
const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
const TEXT = largeMddatasetAnswer(sizes.largeAnswer);
const BYTES = Buffer.from(TEXT);
/** The same with something in its SOAP header. */
const shown = (header: string) => largeMddatasetAnswer(sizes.largeAnswer, { header });
const SHORTEST_LARGE = 256 * 1024 + 1;

const engine = shared(() => startStubEngine(() => {}));
const gateway = shared(() => startTestGateway({ engine: { url: engine.url, kind: 'generic' } }));
let count = 0;
const query = (session?: SessionSpec) =>
  execute({
    statement: `SELECT FROM [Large ${count}]`,
    properties: { Catalog: 'Sales' },
    ...(session && { session }),
  });

/** As engines send what they make while they send it: without its length. */
const sendChunked =
  (bytes: Buffer): StubAnswer =>
  (response) => {
    response.writeHead(200, { 'content-type': 'text/xml; charset=utf-8' });
    for (let at = 0; at < bytes.length; at += MIB) response.write(bytes.subarray(at, at + MIB));
    response.end();
  };

/** Its end is that of the connection, which may come while the gateway reads more slowly. */
const sendUntilClose =
  (bytes: Buffer): StubAnswer =>
  (response) => {
    response.shouldKeepAlive = false;
    response.useChunkedEncodingByDefault = false;
    response.writeHead(200, { 'content-type': 'text/xml; charset=utf-8' });
    for (let at = 0; at < bytes.length; at += MIB) response.write(bytes.subarray(at, at + MIB));
    response.end();
  };

beforeEach(() => {
  count += 1;
  engine.seen.length = 0;
  gateway.events.length = 0;
});

const ask = (headers: Record<string, string> = {}, body = query()) =>
  askXmla(gateway.url, body, { headers });

/** Asks until the answer is in the cache: of a long one the client does not wait for that. */
async function askUntilHit(headers: Record<string, string> = {}, body = query()): Promise<Answer> {
  await ask(headers, body);
  await until(() => gateway.events.some(({ type }) => type === 'stored'));
  return ask(headers, body);
}

const plainOf = ({ headers, body }: Answer) =>
  headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;

const getAsAdmin = async (path: string) =>
  send(gateway.url, { path, headers: { authorization: basic('ADMIN') } });

describe('a large answer', () => {
  test.each([
    ['with its length', sendXml(BYTES)],
    ['without it', sendChunked(BYTES)],
  ])(
    'is stored by default, and every client gets its bytes, with gzip and without: sent %s',
    async (_how, answer) => {
      engine.answerWith(answer);
      const first = await askUntilHit();
      const answers = [first, await ask(GZIP), await ask(), await ask(GZIP)];
      expect(answers.map(shortStatus)).toEqual(['hit', 'hit', 'hit', 'hit']);
      expect(answers.map((one) => plainOf(one).equals(BYTES))).toEqual([true, true, true, true]);
      expect(answers.map(({ headers }) => headers['content-encoding'])).toEqual([
        undefined,
        'gzip',
        undefined,
        'gzip',
      ]);
      expect(
        answers.map(({ headers, body }) => Number(headers['content-length']) - body.length),
      ).toEqual([0, 0, 0, 0]);
      expect(engine.seen).toHaveLength(1);
    },
  );

  test.each([
    ['in any form', (): StubAnswer => sendXml(BYTES)],
    ['and each ends with its connection', (): StubAnswer => sendUntilClose(BYTES)],
  ])('is stored by default also when four come at one time, %s', async (_how, answer) => {
    engine.answerWith(answer());
    const four = Array.from({ length: 4 }, () => {
      count += 1;
      return query();
    });
    await Promise.all(four.map((body) => ask({}, body)));
    await until(() => gateway.events.filter(({ type }) => type === 'stored').length === 4);
    for (const body of four) expect(shortStatus(await ask(GZIP, body))).toBe('hit');
  });

  test('counts in memory as it lies there, which is a part of its text', async () => {
    engine.answerWith(sendXml(BYTES));
    await askUntilHit();
    const [digest] = gateway.events.flatMap((one) =>
      one.type === 'xmla-answered' ? one.digest : [],
    );
    const { body } = await getAsAdmin('/admin/entries?sort=bytes');
    const { entries } = JSON.parse(body.toString()) as {
      entries: { digest: string; bytes: number }[];
    };
    const bytes = entries.find((one) => one.digest === digest)?.bytes;
    expect(bytes).toBeGreaterThan(1_000);
    expect(bytes).toBeLessThan(BYTES.length / 5);
  });

  test('shows each session its own id, and nothing else of another', async () => {
    const sessions = ['first-session', 'second & other', 'c'];
    const withId = (id: string) =>
      Buffer.from(shown(`<Session xmlns="${XMLA}" SessionId="${id.replace('&', '&amp;')}"/>`));
    engine.answerWith((response, seen) => {
      const { session } = readEngineRequest(seen.body, seen.headers);
      const id = session.kind === 'in' ? session.id : (sessions[engine.seen.length - 1] ?? '');
      response.writeHead(200, { 'content-type': 'text/xml; charset=utf-8' });
      response.end(withId(id));
    });
    for (const id of sessions) {
      const begun = execute({
        statement: '',
        properties: { Catalog: 'Sales' },
        session: { kind: 'begin' },
      });
      expect((await ask({}, begun)).body.includes(id.replace('&', '&amp;'))).toBe(true);
    }
    const statuses: string[] = [];
    await askUntilHit({}, query({ kind: 'in', id: sessions[0] ?? '' }));
    for (const id of sessions) {
      for (const headers of [{}, GZIP]) {
        const answer = await ask(headers, query({ kind: 'in', id }));
        statuses.push(shortStatus(answer));
        expect(plainOf(answer).equals(withId(id))).toBe(true);
      }
    }
    expect(statuses).toEqual(Array(6).fill('hit'));
  });

  test('whose session the engine began by itself is stored without it', async () => {
    const element = `<Session xmlns="${XMLA}" SessionId="of-its-own"/>`;
    const begins = shown(element);
    engine.answerWith(sendXml(begins));
    const hit = await askUntilHit(GZIP);
    expect(shortStatus(hit)).toBe('hit');
    expect(plainOf(hit).toString()).toBe(begins.replace(element, ''));
  });

  test('that is one byte too short to be compressed, and one that is just long enough, are alike to clients', async () => {
    for (const length of [SHORTEST_LARGE - 1, SHORTEST_LARGE]) {
      count += 1;
      gateway.events.length = 0;
      const text = largeMddatasetAnswer(200_000);
      const bytes = Buffer.from(
        text.replace('</CellData>', `${' '.repeat(length - text.length)}</CellData>`),
      );
      expect(bytes).toHaveLength(length);
      engine.answerWith(sendXml(bytes));
      const plain = await askUntilHit();
      expect([shortStatus(plain), plain.body.equals(bytes)]).toEqual(['hit', true]);
      const packed = await ask(GZIP);
      expect([shortStatus(packed), plainOf(packed).equals(bytes)]).toEqual(['hit', true]);
    }
  });
});

test('a large answer is compared with what the engine says now, while others are answered', async () => {
  engine.answerWith(sendXml(BYTES));
  const asAdmin = { user: 'ADMIN' };
  const short = execute({ statement: `SELECT FROM [Short ${count}]` });
  await askXmla(gateway.url, query(), asAdmin);
  await until(() => gateway.events.some(({ type }) => type === 'stored'));
  const compare = async () => {
    const path = '/admin/compare';
    const { text } = await askXmla(gateway.url, query(), { ...asAdmin, path });
    return JSON.parse(text) as { verdict: string; engine: object[] };
  };
  const bytes = { bytes: BYTES.length, ms: expect.any(Number) };
  expect(await compare()).toMatchObject({ verdict: 'same', engine: [bytes] });

  const changed = Buffer.from(BYTES);
  const digit = changed.lastIndexOf('.25</FmtValue>') - 1;
  changed.write(changed.toString('latin1', digit, digit + 1) === '8' ? '7' : '8', digit);
  engine.answerWith(sendXml(mddatasetAnswer()));
  await ask({}, short);
  engine.answerWith(sendXml(changed));
  const over = new AbortController();
  const comparing = compare().finally(() => over.abort());
  let longest = 0;
  while (!over.signal.aborted) {
    const since = performance.now();
    expect(shortStatus(await ask({}, short))).toBe('hit');
    longest = Math.max(longest, performance.now() - since);
    // As people ask: one hit after the other would leave it few turns.
    await delay(20);
  }
  console.log(`the slowest hit beside a comparison: ${Math.round(longest)} ms`);
  expect(await comparing).toMatchObject({ verdict: 'stale', engine: [bytes, bytes] });
  const { text } = await getAsAdmin('/metrics');
  expect(text).toContain('\nmdx_gateway_in_flight_bytes{use="fill"} 0\n');
  expect(text).toContain('\nmdx_gateway_in_flight_bytes{use="sending"} 0\n');
});

test('each client without gzip that takes nothing counts until it has gone', async () => {
  // More than the system takes for a client.
  const bytes = Buffer.from(largeMddatasetAnswer(16 * MIB));
  engine.answerWith(sendXml(bytes));
  expect(shortStatus(await askUntilHit(GZIP))).toBe('hit');
  const taken = async () => {
    const { text } = await getAsAdmin('/metrics');
    return Number(/in_flight_bytes\{use="request"\} (\d+)/.exec(text)?.[1]);
  };
  expect(await taken()).toBe(0);
  const body = query();
  const head =
    `POST /mdx/xmla HTTP/1.1\r\nhost: x\r\nauthorization: ${basic('alice')}\r\n` +
    `content-type: text/xml; charset=utf-8\r\ncontent-length: ${body.length}\r\n`;
  const stalled = ['', '', 'accept-encoding: gzip\r\n'].map((more) => {
    const socket = connect(portOf(gateway.url), '127.0.0.1').pause();
    socket.on('error', () => {}).write(`${head}${more}\r\n${body.toString()}`);
    return socket;
  });
  while ((await taken()) !== 2 * INFLATING);
  for (const socket of stalled) socket.destroy();
  while ((await taken()) !== 0);
  const answered = gateway.events.filter(({ type }) => type === 'xmla-answered').slice(-3);
  expect(answered.map((event) => 'complete' in event && event.complete).sort()).toEqual([
    false,
    false,
    true,
  ]);
});

describe('an answer that is larger than max_entry', () => {
  const reload = (settings: Record<string, unknown>) =>
    gateway.reload({ engine: { url: engine.url, kind: 'generic' }, ...settings });
  beforeAll(() => reload({ cache: { max_entry: '1MiB' } }));
  afterAll(() => reload({}));

  const outcomes = () =>
    gateway.events.flatMap((event) => (event.type === 'xmla-answered' ? [event.outcome] : []));
  const TOO_LARGE = { kind: 'miss', detail: 'too-large', stored: false };

  test('is told as too-large in its head where its length is announced', async () => {
    engine.answerWith(sendXml(BYTES, { headers: { 'content-length': String(BYTES.length) } }));
    const answer = await ask();
    expect([shortStatus(answer), answer.body.equals(BYTES)]).toEqual(['miss too-large', true]);
    await until(() => outcomes().length === 1);
    expect(outcomes()).toEqual([TOO_LARGE]);
  });

  test('is told so in log, metrics, statistics and explanation where it is not', async () => {
    const notStored = async () => {
      const { text } = await getAsAdmin('/metrics');
      return Number(/not_stored_total\{reason="too-large"\} (\d+)/.exec(text)?.[1] ?? 0);
    };
    const before = await notStored();
    engine.answerWith(sendChunked(BYTES));
    const answer = await ask();
    expect([shortStatus(answer), answer.body.equals(BYTES)]).toEqual(['miss', true]);
    await until(() => outcomes().length === 1);
    expect(outcomes()).toEqual([TOO_LARGE]);
    expect(await notStored()).toBe(before + 1);
    const requests = await getAsAdmin('/admin/requests');
    expect(JSON.parse(requests.text).requests[0]).toMatchObject({
      outcome: 'miss',
      reason: 'too-large',
      stored: false,
    });
    const explain = async (user: string) => {
      const path = `/admin/explain?user=${user}`;
      const { text } = await askXmla(gateway.url, query(), { path, user: 'ADMIN' });
      return JSON.parse(text).cache;
    };
    expect(await explain('alice')).toMatchObject({ memory: null, not_stored: 'too-large' });
    expect(await explain('bob')).toMatchObject({ memory: null, not_stored: null });
  });
});

test('many clients get a large answer at one time without memory for each of them', async () => {
  const folder = await configFolder();
  engine.answerWith(sendXml(BYTES));
  const file = folder.write({ engine: { url: engine.url, kind: 'generic' } });
  // What needs more heap ends the process.
  const env = { NODE_OPTIONS: '--max-old-space-size=512' };
  const running = runMain(['serve', '--config', file], { env });
  try {
    const url = await listening(running);
    const askThere = (headers: Record<string, string>) => askXmla(url, query(), { headers });
    while (shortStatus(await askThere({})) !== 'hit');
    const crowd = Array.from({ length: sizes.largeClients }, async (_, i) => {
      const answer = await askThere(i % 4 === 0 ? GZIP : {});
      return [shortStatus(answer), plainOf(answer).equals(BYTES)];
    });
    expect(new Set((await Promise.all(crowd)).map(String))).toEqual(new Set(['hit,true']));
  } finally {
    running.kill('SIGTERM');
    await running.ended;
    folder.remove();
  }
  expect((await running.ended).exit).toBe(0);
}, 300_000);
