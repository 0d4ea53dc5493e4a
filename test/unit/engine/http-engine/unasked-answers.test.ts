import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { askOnce } from '../../../../src/engine/own-questions.ts';
import type { QueryHeaders } from '../../../../src/engine/replicas.ts';
import { createUpstream } from '../../../../src/proxy/upstream.ts';
import { portOf, until } from '../../../support/http-client.ts';
import { type RawEngine, startRawEngine, wholeAnswer } from '../../../support/raw-engine.ts';
import {
  ADDRESSEE,
  engineConfig,
  engineHouse,
  type EngineHouse,
  startFront,
} from '../engine-house.ts';

const HEADERS: QueryHeaders = {
  'content-type': 'text/xml',
  soapaction: '"urn:schemas-microsoft-com:xml-analysis:Execute"',
  accept: undefined,
  'user-agent': undefined,
  'x-as-sessionid': undefined,
};
const never = new AbortController().signal;
const EXTRA = wholeAnswer('<extra/>');

let engine: RawEngine;
let house: EngineHouse;
/** The connection of the last request. */
let last: Socket;
/** What stands before each answer. */
let before: string;

const own = (socket: Socket) => {
  last = socket;
  const asked = engine.seen.at(-1) ?? '';
  socket.write(before + wholeAnswer(asked.slice(asked.indexOf('\r\n\r\n') + 4)));
};

beforeEach(async () => {
  before = '';
  engine = await startRawEngine(own);
  house = engineHouse([engine.url]);
});
afterEach(async () => {
  house.engine.close();
  await engine.close();
});

async function ask(body: string): Promise<string> {
  const { body: pieces } = await house.engine.ask(ADDRESSEE, HEADERS, Buffer.from(body), never);
  const chunks: Buffer[] = [];
  for await (const chunk of pieces) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

/** Runs a step where the event loop has looked for what came on connections, and not yet looked again. */
async function behindTheLook<T>(step: () => Promise<T>): Promise<T> {
  const stepped = Promise.withResolvers<T>();
  engine.answerWith(() => {
    engine.answerWith(own);
    stepped.resolve(step());
  });
  const trigger = connect(portOf(engine.url), '127.0.0.1', () => trigger.write('\r\n\r\n'));
  const result = await stepped.promise;
  trigger.destroy();
  return result;
}

describe.each([
  ['an engine', ''],
  ['an engine that always says 100 Continue', 'HTTP/1.1 100 Continue\r\n\r\n'],
])('a query of %s', (_which, said) => {
  test.each([
    ['another answer', EXTRA],
    ['the beginning of another answer', EXTRA.slice(0, 12)],
    ['bytes of no meaning', 'nonsense'],
    ['a line feed', '\n'],
  ])('gets its own answer when %s came in the turn in which it is sent', async (_, extra) => {
    before = said;
    // The first of all are sent in another way than the others.
    for (let index = 0; index < 4; index += 1) await ask(`<before${index}/>`);
    const idle = last;
    const answer = await behindTheLook(() => {
      idle.write(extra);
      return ask('<own/>');
    });
    expect([answer, await ask('<next/>')]).toEqual(['<own/>', '<next/>']);
    await until(() => idle.destroyed);
    expect(house.failures()).toEqual([]);
  });
});

test('a query gets its own answer when a line feed came before it, and the rest of another answer behind it', async () => {
  for (let index = 0; index < 4; index += 1) await ask(`<before${index}/>`);
  const idle = last;
  const answer = await behindTheLook(() => {
    engine.answerWith((socket) => {
      if (socket === idle) socket.write(EXTRA);
      own(socket);
    });
    idle.write('\r\n');
    return ask('<own/>');
  });
  expect(answer).toBe('<own/>');
  expect(idle.destroyed).toBe(true);
});

test.each([
  ['alone', false],
  ['while another one waits', true],
])(
  'a request that is passed through gets its own answer when another one came in the turn in which it is sent, %s',
  async (_how, another) => {
    const upstream = createUpstream({ ...engineConfig([]), url: engine.url }, true);
    const pass = async (body: string) => {
      const asked = { method: 'POST', path: '/', headers: {}, body: Buffer.from(body) };
      const answer = await upstream.forward(asked, { signal: never, timeoutMs: 5_000 });
      const chunks: Buffer[] = [];
      for await (const chunk of answer) chunks.push(chunk as Buffer);
      return Buffer.concat(chunks).toString();
    };
    expect(await pass('<before/>')).toBe('<before/>');
    const idle = last;
    const second = connect(portOf(engine.url), '127.0.0.1');
    await once(second, 'connect');
    const step = () => {
      idle.write(EXTRA);
      return pass('<own/>');
    };
    /** The other one waits for a look that began before this one came. */
    const inNextTurn = () => {
      void upstream.settled();
      const stepped = Promise.withResolvers<string>();
      engine.answerWith(() => {
        engine.answerWith(own);
        stepped.resolve(step());
      });
      second.write('\r\n\r\n');
      return stepped.promise;
    };
    expect(await behindTheLook(another ? inNextTurn : step)).toBe('<own/>');
    second.destroy();
    upstream.close();
  },
);

test('an answer that comes before all of its request was sent is passed through whole', async () => {
  const connections: Socket[] = [];
  const server = createServer((socket) => {
    connections.push(socket);
    socket.on('error', () => {});
    socket.once('data', () => {
      socket.pause();
      socket.write(wholeAnswer('<early/>'));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const early = engineHouse([`http://127.0.0.1:${(server.address() as AddressInfo).port}`]);
  const front = await startFront(early, undefined);
  const body = Buffer.alloc(20_000_000);
  for (let count = 1; count < 3; count += 1) {
    const answer = await fetch(front.url, { method: 'POST', body });
    expect(await answer.text()).toBe('<early/>');
    await front.idle();
    expect(connections).toHaveLength(count);
  }
  expect(early.failures()).toEqual([]);
  for (const socket of connections) socket.destroy();
  await front.close();
  server.close();
});

test('a request whose client goes away before it is sent is not sent', async () => {
  const front = await startFront(house, undefined);
  const leave = (message: unknown) => {
    unsubscribe('http.server.request.start', leave);
    setImmediate(() => (message as { socket: Socket }).socket.destroy());
  };
  subscribe('http.server.request.start', leave);
  await expect(fetch(front.url, { method: 'POST', body: '<q/>' })).rejects.toThrow('fetch failed');
  await front.idle();
  expect([engine.seen, house.atEngine(), house.failures()]).toEqual([[], 0, []]);
  await front.close();
});

test('each of the small requests gets its own answer, whatever comes behind the one before', async () => {
  engine.answerWith((socket, count) => socket.write(wholeAnswer(`own ${count}`) + EXTRA));
  const upstream = createUpstream({ ...engineConfig([]), url: engine.url }, false);
  for (let count = 1; count < 4; count += 1) {
    const { body } = await askOnce(upstream, { method: 'GET', path: '/', headers: {} }, never);
    expect(body.toString()).toBe(`own ${count}`);
  }
  await until(() => engine.sockets.size === 0);
  upstream.close();
});
