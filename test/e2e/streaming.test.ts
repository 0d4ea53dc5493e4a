import { beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { request, type ClientRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { largeMddatasetAnswer, mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, portOf, send, shortStatus, until } from '../support/http-client.ts';
import { gate, sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const engine = shared(() => startStubEngine(() => {}));
const gateway = shared(() =>
  startTestGateway({
    engine: { url: engine.url },
    cache: { max_entry: '1MiB' },
    limits: { concurrency: 2, per_user: 2 },
  }),
);
let count = 0;

beforeEach(() => {
  engine.seen.length = 0;
  gateway.events.length = 0;
});

const KINDS = [
  ['passed through', () => execute({ statement: `CALL stream${(count += 1)}()` })],
  ['cacheable', () => execute({ statement: `SELECT FROM [Stream ${(count += 1)}]` })],
] as const;

/** Begins an XMLA request; its answer is read by the caller. */
function begin(body: Buffer): ClientRequest {
  const begun = request({
    host: '127.0.0.1',
    port: portOf(gateway.url),
    method: 'POST',
    path: '/mdx/xmla',
    agent: false,
    headers: { authorization: basic('alice'), 'content-type': 'text/xml' },
  });
  begun.on('error', () => {});
  begun.end(body);
  return begun;
}

const answerTo = async (begun: ClientRequest) =>
  ((await once(begun, 'response')) as [IncomingMessage])[0];

/** How many places at the engine are taken, by the metrics. */
async function atEngine(): Promise<number> {
  const page = await send(gateway.url, {
    path: '/metrics',
    headers: { authorization: basic('alice') },
  });
  return Number(/^mdx_gateway_engine_requests (\d+)/m.exec(page.text)?.[1]);
}

async function untilNobodyIsAtTheEngine(): Promise<void> {
  while ((await atEngine()) > 0);
}

describe.each(KINDS)('a request that is %s', (_kind, body) => {
  test('has the first bytes of its answer while the engine is still sending', async () => {
    const text = largeMddatasetAnswer(200_000);
    const rest = gate();
    engine.answerWith(async (response) => {
      response.writeHead(200, { 'content-type': 'text/xml' });
      response.write(text.slice(0, 100));
      await rest.opened;
      response.end(text.slice(100));
    });
    const answer = await answerTo(begin(body()));
    const [first] = (await once(answer, 'data')) as [Buffer];
    expect(first.toString()).toBe(text.slice(0, 100));
    rest.open();
    const chunks = [first];
    for await (const chunk of answer) chunks.push(chunk as Buffer);
    expect(Buffer.concat(chunks).toString()).toBe(text);
  });

  test('gives its place at the engine back, however it ends', async () => {
    const endings: ((response: ServerResponse) => void)[] = [
      (response) => sendXml(mddatasetAnswer())(response, engine.seen[0]!),
      (response) => response.destroy(),
      (response) => {
        response.writeHead(401);
        response.end('no');
      },
      (response) => {
        response.writeHead(200, { 'content-type': 'text/xml', 'content-length': 99 });
        response.write('<a>', () => response.destroy());
      },
      (response) => response.writeHead(204).end(),
    ];
    for (const ending of endings) {
      engine.answerWith(ending);
      await askXmla(gateway.url, body()).catch(() => {});
      await untilNobodyIsAtTheEngine();
    }
    expect(await atEngine()).toBe(0);
  });
});

describe('a slow client', () => {
  test.each(KINDS)(
    'of a large answer to a request that is %s makes the engine wait',
    async (_kind, body) => {
      const total = 50_000_000;
      const chunk = Buffer.alloc(1_000_000, 'x');
      let sent = 0;
      let stalled = false;
      engine.answerWith((response) => {
        response.writeHead(200, { 'content-type': 'text/xml' });
        const more = () => {
          stalled = false;
          while (sent < total) {
            sent += chunk.length;
            if (!response.write(chunk)) {
              stalled = true;
              response.once('drain', more);
              return;
            }
          }
          response.end();
        };
        more();
      });
      const socket = connect(portOf(gateway.url), '127.0.0.1');
      const asked = body();
      socket.write(
        `POST /mdx/xmla HTTP/1.1\r\nhost: x\r\nauthorization: ${basic('alice')}\r\nconnection: close\r\ncontent-type: text/xml\r\ncontent-length: ${asked.length}\r\n\r\n`,
      );
      socket.write(asked);
      await once(socket, 'readable');
      // Nothing is read. When a hundred other requests were answered and the engine got no further, it stands.
      const standsAt = () => (stalled ? sent : Number.NaN);
      let before = Number.NaN;
      while (before !== standsAt()) {
        before = standsAt();
        for (let other = 0; other < 100; other += 1) {
          await send(gateway.url, { path: '/health/live' });
        }
      }
      expect(sent).toBeLessThan(total / 2);
      let received = 0;
      for await (const part of socket) received += (part as Buffer).length;
      expect(received).toBeGreaterThan(total);
    },
  );
});

describe('a client that goes away in the middle of an answer', () => {
  /** Sends the first half, tells when the connection of the gateway closes, waits at the door for the rest. */
  function halfAnswer(text: string, rest: Promise<void>): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    engine.answerWith(async (response) => {
      response.on('close', () => {
        if (!response.writableFinished) resolve();
      });
      response.writeHead(200, { 'content-type': 'text/xml' });
      response.write(text.slice(0, 1000));
      await rest;
      response.end(text.slice(1000));
    });
    return promise;
  }

  test('ends the engine request of what is passed through', async () => {
    const ended = halfAnswer(mddatasetAnswer(), new Promise(() => {}));
    const begun = begin(KINDS[0][1]());
    await once(await answerTo(begun), 'data');
    begun.destroy();
    await ended;
    await untilNobodyIsAtTheEngine();
    expect(gateway.events.filter(({ type }) => type === 'engine-failed')).toEqual([]);
  });

  test('ends the engine request also before the answer began', async () => {
    const ended = new Promise<void>((resolve) => {
      engine.answerWith((response) => void response.on('close', resolve));
    });
    const begun = begin(KINDS[0][1]());
    await until(() => engine.seen.length === 1);
    begun.destroy();
    await ended;
    await untilNobodyIsAtTheEngine();
    expect(engine.seen).toHaveLength(1);
  });

  test('leaves a cacheable one to go on, and the next one finds its answer', async () => {
    const text = mddatasetAnswer({ cells: 200 });
    const asked = KINDS[1][1]();
    const rest = gate();
    void halfAnswer(text, rest.opened);
    const begun = begin(asked);
    await once(await answerTo(begun), 'data');
    begun.destroy();
    await until(() => gateway.events.some((e) => e.type === 'xmla-answered' && !e.complete));
    rest.open();
    await until(() => gateway.events.some(({ type }) => type === 'stored'));
    const answer = await askXmla(gateway.url, asked, { headers: { 'content-type': 'text/xml' } });
    expect([shortStatus(answer), answer.text]).toEqual(['hit', text]);
    expect(engine.seen).toHaveLength(1);
  });

  test('ends a cacheable one whose answer nobody can be given', async () => {
    const started = gate();
    const closed = gate();
    engine.answerWith((response) => {
      response.on('close', closed.open);
      response.writeHead(200, { 'content-type': 'text/html' });
      const more = () => {
        if (response.write(Buffer.alloc(100_000))) setImmediate(more);
        else response.once('drain', more);
        started.open();
      };
      more();
    });
    const begun = begin(KINDS[1][1]());
    await once(await answerTo(begun), 'data');
    begun.destroy();
    await closed.opened;
    await untilNobodyIsAtTheEngine();
    expect(engine.seen).toHaveLength(1);
  });
});

describe('an engine that needs longer than idle connections are kept', () => {
  test('is waited for', async () => {
    // The connection is one that was kept before, with its own shorter timeout.
    engine.answerWith(sendXml(mddatasetAnswer()));
    await Promise.all(KINDS.map(([, body]) => askXmla(gateway.url, body())));
    engine.answerWith((response, seen) => {
      setTimeout(() => void sendXml(mddatasetAnswer())(response, seen), 4_500);
    });
    const answers = await Promise.all(KINDS.map(([, body]) => askXmla(gateway.url, body())));
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  });
});
