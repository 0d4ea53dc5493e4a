import { afterEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { runDemoEngine, showDemo } from '../../../src/demo/demo.ts';
import { recordingOf } from './fake-recordings.ts';

const RECORDINGS = [
  recordingOf("Sales of O'Malley", "<q>O'Malley</q>", '<a>1</a>'),
  recordingOf('Stock of everything', '<q>all of the stock</q>', '<a>2</a>'),
];

interface Seen {
  readonly method: string;
  readonly path: string;
  readonly contentType: string | undefined;
  readonly login: string;
  readonly body: string;
}

/** A gateway that remembers what it was asked, and answers by `answer`; it hits from the second ask on. */
async function fakeGateway(answer: (body: string) => string, missed = 'fwd=miss; stored') {
  const seen: Seen[] = [];
  const known = new Set<string>();
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString();
    const [, credentials = ''] = (request.headers.authorization ?? '').split(' ');
    seen.push({
      method: request.method ?? '',
      path: request.url ?? '',
      contentType: request.headers['content-type'],
      login: Buffer.from(credentials, 'base64').toString(),
      body,
    });
    if (request.url?.endsWith('/clearCache')) {
      known.clear();
      response.end('Cache has been cleared.');
      return;
    }
    response.setHeader(
      'cache-status',
      known.has(body) ? 'mdx-gateway; hit; ttl=43199; detail=memory' : `mdx-gateway; ${missed}`,
    );
    known.add(body);
    response.end(answer(body));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  servers.push(server);
  const { port } = server.address() as AddressInfo;
  const gateway = { url: `http://127.0.0.1:${port}`, user: 'demo', password: "it's: secret" };
  return { seen, gateway };
}

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
});

const rightAnswer = (body: string): string =>
  RECORDINGS.find(({ request }) => request.body === body)?.answer.body.toString() ?? 'unknown';

interface Printer {
  readonly print: (text: string) => void;
  readonly text: () => string;
}

function printer(onPrint: (text: string) => void = () => {}): Printer {
  let all = '';
  return {
    print(text) {
      all += text;
      onPrint(text);
    },
    text: () => all,
  };
}

const never = new AbortController().signal;
const nextInspected = async () => {};
/** Its times mean nothing. */
const SHORT = { recordings: RECORDINGS, nextInspected, once: true, stopped: never, now: () => 0 };

describe('the demo', () => {
  test('asks each question twice, purges, and asks once more, as a client with a login', async () => {
    const { seen, gateway } = await fakeGateway(rightAnswer);
    const { print } = printer();
    let time = 0;
    await showDemo({
      recordings: RECORDINGS,
      nextInspected,
      gateway,
      once: true,
      stopped: never,
      now: () => time++,
      print,
    });
    const [one, other] = RECORDINGS.map(({ request }) => request.body);
    expect(seen.map(({ method, path, body }) => `${method} ${path} ${body}`.trim())).toEqual([
      `POST /mdx/xmla ${one}`,
      `POST /mdx/xmla ${one}`,
      `POST /mdx/xmla ${other}`,
      `POST /mdx/xmla ${other}`,
      'GET /mdx/xmla/clearCache',
      `POST /mdx/xmla ${one}`,
      `POST /mdx/xmla ${other}`,
    ]);
    expect(new Set(seen.map(({ login }) => login))).toEqual(new Set(["demo:it's: secret"]));
    expect(seen[0]?.contentType).toMatch(/^text\/xml/);
  });

  test('prints the times of each question and where the second answer came from', async () => {
    const { gateway } = await fakeGateway(rightAnswer);
    const { print, text } = printer();
    const times = [0, 1_240, 2_000, 2_002, 3_000, 3_300, 4_000, 4_001, 5_000, 6_200, 7_000, 7_310];
    await showDemo({
      recordings: RECORDINGS,
      nextInspected,
      gateway,
      once: true,
      stopped: never,
      now: () => times.shift() ?? 0,
      print,
    });
    const rows = text()
      .split('\n')
      .filter((line) => line.startsWith('│'))
      .map((line) => line.split('│').map((cell) => cell.trim()));
    expect(rows[1]?.slice(1, -1)).toEqual([
      "Sales of O'Malley",
      '8 B',
      '200',
      '1.24 s',
      '2.0 ms',
      'hit, memory',
      '1.20 s',
    ]);
    expect(rows[2]?.slice(4, 8)).toEqual(['300 ms', '1.0 ms', 'hit, memory', '310 ms']);
  });

  test('explains the words that it shows', async () => {
    const { gateway } = await fakeGateway(rightAnswer);
    const { print, text } = printer();
    await showDemo({ ...SHORT, gateway, print });
    expect(
      text()
        .split('\n')
        .filter((line) => line.startsWith('  ')),
    ).toEqual([
      '  fwd=miss, stored: The gateway does not have the answer, and asks the engine. Its answer is kept.',
      '  hit, memory: The gateway has the answer, and does not ask the engine. From the memory of this process.',
    ]);
  });

  test('asks again only when a long answer was inspected', async () => {
    const { seen, gateway } = await fakeGateway(rightAnswer, 'fwd=miss');
    const begun: number[] = [];
    await showDemo({
      ...SHORT,
      gateway,
      print: () => {},
      async nextInspected() {
        begun.push(seen.length);
        // Long after the answer.
        while (seen.length === begun.at(-1)) await new Promise(setImmediate);
        expect(seen).toHaveLength((begun.at(-1) ?? 0) + 1);
      },
    });
    expect(begun).toEqual([0, 2]);
  });

  test('fails when an answer is not the engine’s', async () => {
    const { gateway } = await fakeGateway(() => '<a>1</a>');
    await expect(
      showDemo({
        recordings: RECORDINGS,
        nextInspected,
        gateway,
        once: true,
        stopped: never,
        now: () => 0,
        print: () => {},
      }),
    ).rejects.toThrow('"Stock of everything" was answered with status 200 and 8 bytes');
  });

  test('stays until it is stopped, with lines to try that a shell reads right', async () => {
    const { gateway } = await fakeGateway(rightAnswer);
    const stopping = new AbortController();
    const { print, text } = printer((printed) => {
      if (!printed.includes('Ctrl-C')) return;
      stopping.abort();
    });
    await showDemo({
      recordings: RECORDINGS,
      nextInspected,
      gateway,
      once: false,
      stopped: stopping.signal,
      now: () => 0,
      print,
    });
    expect(text()).toContain(String.raw`-u 'demo:it'\''s: secret'`);
    expect(text()).toContain(String.raw`'<q>O'\''Malley</q>'`);
    expect(text()).toContain("/mdx/xmla/clearCache'");
  });

  test('ends at once when it is stopped in the middle of a question', async () => {
    const stopping = new AbortController();
    const { seen, gateway } = await fakeGateway((body) => {
      stopping.abort();
      return rightAnswer(body);
    });
    await showDemo({
      recordings: RECORDINGS,
      nextInspected,
      gateway,
      once: false,
      stopped: stopping.signal,
      now: () => 0,
      print: () => {},
    });
    expect(seen.length).toBeLessThan(7);
  });
});

test('the engine alone says how to ask it by a gateway, and answers until it is stopped', async () => {
  const stopping = new AbortController();
  const { promise, resolve: print } = Promise.withResolvers<string>();
  const ended = runDemoEngine({ stopped: stopping.signal, print }, { sleep: async () => {} });
  const text = await promise;
  const [url = ''] = /http:\/\/0\.0\.0\.0:\d+\/xmla/.exec(text) ?? [];
  const [, body = ''] =
    /--data-binary \\\n {2}'([^]+?)' \\\n {2}'http:\/\/127.0.0.1:7080\/mdx\/xmla'/.exec(text) ?? [];
  const answer = await fetch(url, { method: 'POST', body });
  expect([answer.status, await answer.text()]).toEqual([
    200,
    expect.stringContaining('<CellData>'),
  ]);
  stopping.abort();
  expect(await ended).toBe(0);
});
