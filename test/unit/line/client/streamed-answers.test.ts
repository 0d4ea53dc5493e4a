import { afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { connect, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { INFLATING, type StoredAnswer } from '../../../../src/cache/stored-answer.ts';
import { portOf, until } from '../../../support/http-client.ts';
import { keptText } from '../../cache/stored-answer/session-documents.ts';
import { bodyAccount } from '../../cache/fakes.ts';
import { closeServers, GZIP, replay, serve, SHORT } from './replay-server.ts';

const MIB = 1024 * 1024;
const LIMIT = 4 * MIB;
const QUEUE = 40;
/** Of the limit what one user gets at most, and one beyond that. */
const OF_ONE = Math.floor((LIMIT * (15 / 16) * (3 / 4)) / INFLATING) + 1;
/** The same of the queue. */
const WAITING = QUEUE * (3 / 4);
/** More than the system takes for a client that does not read; compressed it is short. */
const TEXT = Buffer.from(
  Array.from({ length: MIB }, (_, number) => `<a n="${String(number % 99).padStart(8)}"/>`).join(
    '',
  ),
);

let answer: StoredAnswer;
const sockets: Socket[] = [];

beforeAll(async () => {
  answer = { ...SHORT, body: await keptText(TEXT) };
});
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  closeServers();
  jest.useRealTimers();
});

/** A server that replays a long answer to the user that the path names. */
async function house() {
  const served = await serve(
    (client) => {
      client.owner = client.request.url ?? '';
      replay(client, answer);
    },
    bodyAccount(LIMIT, QUEUE),
  );
  const { account, url } = served;
  const heads: string[] = [];
  const ask = (user: string) => {
    const socket = connect(portOf(url), '127.0.0.1');
    socket
      .on('error', () => {})
      .write(`POST /${user} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n`);
    sockets.push(socket);
    return socket;
  };
  return {
    ...served,
    heads,
    taken: () => account.usage().bytes.request / INFLATING,
    waiting: () => account.usage().waiting,
    ask,
    /** So many that take the head of their answer, if there is one, and nothing more. */
    stall: (count: number, user = 'alice') =>
      Array.from({ length: count }, () => {
        const socket = ask(user);
        return socket.once('data', (head: Buffer) => {
          heads.push(head.toString('latin1', 0, head.indexOf('\r\n\r\n')));
          socket.pause();
        });
      }),
    /** Reads to the last byte, a piece in each turn. */
    async readAll(user: string): Promise<Buffer> {
      const pieces: Buffer[] = [];
      let left = Infinity;
      for await (const piece of ask(user) as AsyncIterable<Buffer>) {
        const isFirst = pieces.length === 0;
        const body = isFirst ? piece.subarray(piece.indexOf('\r\n\r\n') + 4) : piece;
        pieces.push(body);
        left = (isFirst ? TEXT.length : left) - body.length;
        if (left === 0) break;
        await nextTurn();
      }
      return Buffer.concat(pieces);
    },
  };
}

describe('long answers for clients without gzip', () => {
  test('are decompressed for so many of one user as the memory of bodies has room; then they wait, and then they are refused', async () => {
    const { stall, heads, taken, waiting, readAll } = await house();
    stall(60);
    await until(() => heads.length + waiting() === 60);
    expect([taken(), waiting()]).toEqual([OF_ONE, WAITING]);
    const refused = heads.filter((head) => head.startsWith('HTTP/1.1 503 '));
    expect([heads.length - refused.length, refused.length]).toEqual([
      OF_ONE,
      60 - OF_ONE - WAITING,
    ]);
    for (const head of refused) {
      expect(head.toLowerCase()).toMatch(
        /\nretry-after: 5\r[^]*detail=overloaded|detail=overloaded[^]*\nretry-after: 5/,
      );
    }
    expect((await readAll('bob')).equals(TEXT)).toBe(true);
  });

  test('go on, each as its room comes free, and leave nothing behind', async () => {
    const { stall, heads, taken, waiting, events } = await house();
    const stalled = stall(OF_ONE + 2);
    await until(() => heads.length === OF_ONE && waiting() === 2);
    // Those that take it, and one that goes away.
    for (const socket of stalled) socket.removeAllListeners('data').resume();
    await until(() => events.length === OF_ONE + 2);
    expect(events).toEqual(
      events.map(() =>
        expect.objectContaining({ complete: true, bytes: TEXT.length, status: 200 }),
      ),
    );
    await until(() => taken() === 0);
    expect(waiting()).toBe(0);
  });

  test('give their place back when their client goes away, while they wait and while they are sent', async () => {
    const { stall, heads, taken, waiting, events, account } = await house();
    const stalled = stall(OF_ONE + 5);
    await until(() => heads.length === OF_ONE && waiting() === 5);
    for (const socket of stalled) socket.destroy();
    await until(() => events.length === OF_ONE + 5);
    expect(events).toEqual(events.map(() => expect.objectContaining({ complete: false })));
    await until(() => taken() === 0);
    expect([waiting(), account.usage().bytes.sending]).toEqual([0, 0]);
  });

  test('say their age when they are sent, not when they began to wait', async () => {
    const { stall, heads, waiting, clock } = await house();
    const stalled = stall(OF_ONE + 1);
    await until(() => heads.length === OF_ONE && waiting() === 1);
    clock.advance(5_000);
    for (const socket of stalled.slice(0, 2)) socket.destroy();
    await until(() => heads.length === OF_ONE + 1);
    // 1.5 s and 30 s of those before.
    expect(heads[0]).toMatch(/ttl=30;[^]*\nage: 1\b/);
    expect(heads.at(-1)).toMatch(/ttl=25;[^]*\nage: 6\b/);
  });

  test('are broken off while others of that user wait, where their clients take nothing', async () => {
    const real = [
      'setTimeout',
      'setImmediate',
      'nextTick',
      'queueMicrotask',
      'performance',
      'Date',
    ] as const;
    jest.useFakeTimers({ doNotFake: [...real, 'clearTimeout', 'clearImmediate', 'hrtime'] });
    const { stall, heads, waiting, responses } = await house();
    stall(OF_ONE);
    await until(() => heads.length === OF_ONE);
    // What the system takes for them was handed over.
    const bytes = () => responses.map(({ socket }) => socket?.bytesWritten);
    for (let before = ''; before !== String(bytes());) {
      before = String(bytes());
      await new Promise((resolve) => void setTimeout(resolve, 50));
    }
    jest.advanceTimersByTime(20_000);
    expect(responses.filter(({ destroyed }) => destroyed)).toEqual([]);
    stall(1);
    await until(() => waiting() === 1);
    jest.advanceTimersByTime(10_000);
    await until(() => heads.length === OF_ONE + 1);
    expect(waiting()).toBe(0);
  });

  test('keep no hit waiting that needs no room', async () => {
    const { stall, heads, waiting, url } = await house();
    stall(60);
    await until(() => heads.length + waiting() === 60);
    const short = await fetch(`${url}/alice`, { method: 'POST', headers: GZIP });
    expect([short.status, short.headers.get('content-encoding')]).toEqual([200, 'gzip']);
    expect((await short.arrayBuffer()).byteLength).toBe(TEXT.length);
  });
});
