import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, shortStatus } from '../support/http-client.ts';
import { startRawEngine, wholeAnswer, type RawEngine } from '../support/raw-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { sampled } from '../support/sizes.ts';

const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';

/** All ways to the engine on which a connection is used again. */
const WAYS = [
  ['queries', cached, ''],
  ['queries of an engine that says 100 Continue', cached, CONTINUE],
  ['requests that are passed through', passed, ''],
] as const;

function cached(stamp: string): Buffer {
  return execute({ statement: `SELECT FROM [Sales] WHERE [${stamp}]` });
}

function passed(stamp: string): Buffer {
  return execute({ statement: `CALL ${stamp}()` });
}

const stamped = (stamp: string) =>
  wholeAnswer(mddatasetAnswer({ cells: 1, cell: () => `<Value>${stamp}</Value>` }));

/** What no request asked for. */
const EXTRA = stamped('stampExtra');
const UNASKED = [
  ['a whole answer', EXTRA],
  ['two whole answers', EXTRA + EXTRA],
  ['the beginning of an answer', EXTRA.slice(0, 9)],
  ['a provisional answer', 'HTTP/1.1 103 Early Hints\r\n\r\n'],
  ['100 Continue', CONTINUE],
  ['bytes of no meaning', 'nonsense'],
  ['a line feed', '\r\n'],
] as const;

/** A body that the head of its answer does not count. */
const LONGER = [
  ['with too small a Content-Length', EXTRA.replace(/Length: \d+/, 'Length: 10')],
  ['with status 204', EXTRA.replace('200 OK', '204 No Content')],
  ['with status 304', EXTRA.replace('200 OK', '304 Not Modified')],
] as const;

let engine: RawEngine;
let gateway: TestGateway;
let count: number;
/** The connections in the order in which they were first used, and which of them each request came on. */
let connections: Socket[];
let used: number[];
let spoken: (socket: Socket, own: string) => void;

beforeEach(async () => {
  count = 0;
  connections = [];
  used = [];
  spoken = (socket, own) => socket.write(own);
  engine = await startRawEngine(() => {});
  gateway = await startTestGateway({ engine: { url: engine.url } });
});
afterEach(async () => {
  await gateway.close();
  await engine.close();
});

/** The stamp that an answer holds; its Cache-Status when the gateway answered. */
async function ask(
  body: (stamp: string) => Buffer,
): Promise<readonly [asked: string, got: string]> {
  const asked = `stamp${(count += 1)}`;
  const answer = await askXmla(gateway.url, body(asked));
  return [asked, /stamp\w+/.exec(answer.text)?.[0] ?? shortStatus(answer)];
}

describe.each(WAYS)('%s', (_way, body, before) => {
  beforeEach(async () => {
    engine.answerWith((socket) => {
      if (!connections.includes(socket)) connections.push(socket);
      used.push(connections.indexOf(socket));
      const stamp = /stamp\d+/.exec(engine.seen.at(-1) ?? '')?.[0] ?? 'none';
      spoken(socket, before + stamped(stamp));
    });
    // The first of all are sent in another way than the others.
    for (let index = 0; index < 3; index += 1) await askOwn();
    used.length = 0;
  });

  async function askOwn(): Promise<void> {
    const [asked, got] = await ask(body);
    expect(got).toBe(asked);
  }

  test('use their connection again', async () => {
    for (let index = 0; index < 4; index += 1) await askOwn();
    expect(new Set(used).size).toBe(1);
  });

  test.each(sampled(UNASKED))(
    'leave a connection on which %s came behind an answer',
    async (_, extra) => {
      await askOwn();
      connections[used[0] ?? -1]?.write(extra);
      await askOwn();
      await askOwn();
      expect(used[1]).not.toBe(used[0]);
      expect(used[2]).toBe(used[1]);
    },
  );

  test.each(sampled(UNASKED))(
    'never get %s that came in one packet with an answer',
    async (_, extra) => {
      spoken = (socket, own) => socket.write(own + extra);
      for (let index = 0; index < 4; index += 1) {
        const [asked, got] = await ask(body);
        expect([asked, 'gateway engine-unreachable']).toContain(got);
      }
    },
  );

  test.each(sampled(UNASKED))(
    'leave a connection on which %s came in the turn of the next request',
    async (_, extra) => {
      await askOwn();
      const idle = connections[used[0] ?? -1];
      const write = () => {
        unsubscribe('http.server.request.start', write);
        idle?.write(extra);
      };
      // The event loop has looked for what came on connections, and finds this the next time it looks.
      subscribe('http.server.request.start', write);
      await askOwn();
      await askOwn();
      expect(used[1]).not.toBe(used[0]);
      expect(used[2]).toBe(used[1]);
    },
  );

  test.each(sampled(LONGER))('never get the rest of a body %s', async (_, longer) => {
    spoken = (socket) => socket.write(before + longer);
    await ask(body);
    spoken = (socket, own) => socket.write(own);
    await askOwn();
    await askOwn();
    expect(used[1]).not.toBe(used[0]);
  });
});
