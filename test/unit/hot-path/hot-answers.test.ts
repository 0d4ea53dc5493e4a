import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { makeGzip } from '../../../src/query-cache/gzip.ts';
import type { GzipSource } from '../../../src/query-cache/query.ts';
import { execute } from '../../support/envelopes.ts';
import { until } from '../../support/http-client.ts';
import { quiet } from '../query-cache/fakes.ts';
import { ANSWER, asked, openHouse, SESSION, type House } from './hot-path-house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse();
});
afterEach(() => house.close());

/** More than the system takes for a client that reads nothing. */
const LARGE = { ...ANSWER, body: Buffer.alloc(32 * 1024 * 1024, ' ') };
/** What is told of an answer when it is over. */
const told = () => house.events.map((event) => 'complete' in event && event.complete);

test('an answer that the system took at once is over at once', async () => {
  await house.taught();
  await house.ask(asked());
  let holds = 0;
  house.sending.push = (...bodies) => (holds += bodies.length);
  const whenAnswered = Promise.withResolvers<ServerResponse>();
  house.onTaken = (_request, response) => whenAnswered.resolve(response);
  await house.ask(asked());
  expect(holds).toBe(0);
  expect(told()).toEqual([true, true]);
  // Nobody watches for what cannot happen.
  expect((await whenAnswered.promise).listenerCount('timeout')).toBe(0);
});

describe('an answer to a client that reads slowly', () => {
  /** A client that has asked and reads nothing. */
  async function slowClient() {
    await house.taught();
    house.stored = LARGE;
    const { rawHeaders } = house.line.at(-1)?.request ?? { rawHeaders: [] };
    const lines = rawHeaders.map((text, at) => text + (at % 2 === 0 ? ': ' : '\r\n'));
    const whenTaken = Promise.withResolvers<ServerResponse>();
    house.onTaken = (_request, response) => whenTaken.resolve(response);
    const socket = connect(house.port, '127.0.0.1').on('error', () => {});
    socket.pause();
    await once(socket, 'connect');
    socket.write(`POST /mdx/xmla HTTP/1.1\r\n${lines.join('')}\r\n${asked()}`);
    const response = await whenTaken.promise;
    await until(() => response.headersSent);
    await quiet();
    return { socket, response };
  }
  const isUnderWay = () => {
    // Not the bodies themselves: nobody could read what is said of so many bytes.
    expect(house.sending.map((body) => body === LARGE.body)).toEqual([true]);
    expect(house.events).toEqual([]);
  };
  const isOver = async () => {
    await until(() => house.events.length === 1);
    expect(house.sending.map(({ length }) => length)).toEqual([]);
  };

  test('is counted until he has it', async () => {
    const { socket } = await slowClient();
    isUnderWay();
    let bytes = 0;
    socket.on('data', (chunk: Buffer) => (bytes += chunk.length)).resume();
    await isOver();
    expect(told()).toEqual([true]);
    await until(() => bytes > LARGE.body.length + SESSION.length);
    socket.destroy();
  });

  test('is counted until he goes away', async () => {
    const { socket } = await slowClient();
    isUnderWay();
    socket.destroy();
    await isOver();
    expect(told()).toEqual([false]);
  });

  test('breaks off when he takes nothing for five minutes', async () => {
    const { socket, response } = await slowClient();
    isUnderWay();
    expect(response.socket?.timeout).toBe(300_000);
    response.socket?.emit('timeout');
    await isOver();
    expect(told()).toEqual([false]);
    socket.destroy();
  });
});

describe('the compressed variant', () => {
  const STORED = { ...ANSWER, body: Buffer.alloc(2_000, ANSWER.body) };
  const GZIP = { headers: { 'accept-encoding': 'gzip' } };
  const inSession = (body: Buffer) =>
    Buffer.concat([body.subarray(0, 20), Buffer.from(SESSION), body.subarray(20)]);

  /** What memory does: holds the variant beside the answer. */
  function source(): GzipSource {
    let variant: GzipSource['variant'];
    return {
      get variant() {
        return variant;
      },
      keep: (made) => void (variant = made),
    };
  }

  test('is wanted for who takes it, and sent once it is there', async () => {
    await house.taught({}, asked(), GZIP);
    [house.stored, house.gzip] = [STORED, source()];
    expect(await house.ask(asked(), GZIP)).toEqual(inSession(STORED.body));
    const [wanted, ...more] = house.gzips;
    expect([wanted?.answer, more]).toEqual([STORED, []]);
    const made = await makeGzip(STORED);
    if (made === undefined || wanted === undefined) throw new Error('nothing was made');
    wanted.keep(made);
    const compressed = await house.ask(asked(), GZIP);
    expect(gunzipSync(compressed)).toEqual(inSession(STORED.body));
    expect(house.gzips).toHaveLength(1);
    expect(house.events.at(-1)).toMatchObject({ bytes: compressed.length, complete: true });
  });

  test.each([
    ['for who does not take it', {}, STORED],
    ['of what is short', GZIP, ANSWER],
  ])('is not wanted %s', async (_why, way, stored) => {
    await house.taught({}, asked(), way);
    [house.stored, house.gzip] = [stored, source()];
    expect(await house.ask(asked(), way)).toEqual(inSession(stored.body));
    expect(house.gzips).toEqual([]);
  });

  test('is not wanted of what memory holds no longer', async () => {
    await house.taught({}, asked(), GZIP);
    house.stored = STORED;
    expect(await house.ask(asked(), GZIP)).toEqual(inSession(STORED.body));
    expect(house.gzips).toEqual([]);
  });
});

describe('after a mistake of this program', () => {
  test('an answer of which nothing was sent goes the whole line', async () => {
    const body = execute({ statement: 'SELECT FROM [Sales]' });
    await house.taught({}, body);
    expect(`${await house.ask(body)}`).toBe('the line');
    expect(house.line.at(-1)?.body).toEqual(body);
    expect(house.events).toMatchObject([{ type: 'internal-error' }]);
  });

  test('one that was begun is not answered once more, and its connection ends', async () => {
    await house.taught();
    house.onEvent = ({ type }) => {
      if (type === 'xmla-answered') throw new Error('a mistake');
    };
    const whenTaken = Promise.withResolvers<ServerResponse>();
    house.onTaken = (_request, response) => whenTaken.resolve(response);
    await house.ask(asked()).catch(() => {});
    const response = await whenTaken.promise;
    await until(() => response.destroyed);
    await quiet();
    expect(house.line).toHaveLength(2);
    expect(house.events).toMatchObject([{ type: 'xmla-answered' }, { type: 'internal-error' }]);
  });
});
