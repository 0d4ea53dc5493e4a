import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { Agent, type AgentOptions } from 'node:http';
import { Agent as SecureAgent } from 'node:https';
import { connect, type Socket } from 'node:net';
import { connect as connectSecurely, type ConnectionOptions } from 'node:tls';
import { mddatasetAnswer } from '../support/answers.ts';
import { makeAuthority, type Authority, type Certificate } from '../support/certificates.ts';
import { execute } from '../support/envelopes.ts';
import { configFolder, listening, runMain } from '../support/gateway-process.ts';
import { askXmla, portOf, send, sendRaw, shortStatus, until } from '../support/http-client.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { checkpoint } from '../unit/cache/fakes.ts';

const QUERY = execute({ statement: 'SELECT FROM [Sales]' });
const UNFINISHED = 'POST /mdx/xmla HTTP/1.1\r\nHost: gateway\r\nX-Never: ';
/** The head alone; its whole is confirmed by 100 Continue. */
const WITHOUT_BODY =
  `POST /mdx/xmla HTTP/1.1\r\nHost: gateway\r\nAuthorization: ${basic('alice')}\r\n` +
  `Content-Type: text/xml\r\nContent-Length: ${QUERY.length}\r\nExpect: 100-continue\r\n\r\n`;
const LIVE = 'GET /health/live HTTP/1.1\r\nHost: gateway\r\n\r\n';
const LIMIT = 16;
/** Longer than any connection is spared for being young (ms). */
const LATER = 60_000;

let engine: StubEngine;
let gateway: TestGateway | undefined;
/** Stands still unless a test moves it. */
let now = 0;
const clock = { now: () => now, wall: () => Date.now() };
let held: Socket[] = [];

beforeEach(async () => {
  now = 0;
  engine = await startStubEngine(sendXml(mddatasetAnswer()));
});
afterEach(async () => {
  for (const socket of held) socket.destroy();
  held = [];
  await gateway?.close();
  gateway = undefined;
  await engine.close();
});

const start = async (limits: object = { connections: LIMIT }, listen: object = {}) =>
  (gateway = await startTestGateway({ engine: { url: engine.url }, limits, listen }, { clock }));

const closings = () =>
  (gateway?.events ?? []).flatMap((event) =>
    event.type === 'connection-closed' ? [event.why] : [],
  );

/** A connection from one of the addresses of this machine, and what came over it. */
interface Held {
  readonly socket: Socket;
  readonly received: () => string;
}

async function hold(url: string, bytes: string, from: string): Promise<Held> {
  const socket = connect({ port: portOf(url), host: '127.0.0.1', localAddress: from });
  held.push(socket);
  let received = '';
  socket.on('data', (chunk: Buffer) => (received += chunk.toString()));
  socket.on('error', () => {});
  await once(socket, 'connect');
  if (bytes !== '') await new Promise((resolve) => socket.write(bytes, resolve));
  return { socket, received: () => received };
}

/** One that was used for a request and is idle. */
async function holdIdle(url: string, from: string): Promise<Held> {
  const one = await hold(url, LIVE, from);
  await until(() => one.received().includes('200 OK'));
  return one;
}

/** One whose request has begun and whose body is unfinished. */
async function holdBody(url: string, from: string): Promise<Held> {
  const one = await hold(url, WITHOUT_BODY, from);
  await until(() => one.received().includes('100 Continue'));
  return one;
}

async function use(one: Held): Promise<void> {
  const before = one.received().length;
  one.socket.write(LIVE);
  await until(() => one.received().length > before);
}

const isClosed = ({ socket }: Held) => socket.closed;

/** A client that keeps one connection. */
function client(url: string, options: AgentOptions & { ca?: string } = {}) {
  const isSecure = url.startsWith('https:');
  const agent = new (isSecure ? SecureAgent : Agent)({
    keepAlive: true,
    maxSockets: 1,
    ...options,
  });
  const sockets = new Set<unknown>();
  return {
    async ask(query = QUERY) {
      const answer = await askXmla(url, query, { agent, ...(options.ca && { ca: options.ca }) });
      for (const list of Object.values(agent.freeSockets))
        for (const one of list ?? []) sockets.add(one);
      return shortStatus(answer);
    },
    /** How many connections it needed. */
    connections: () => sockets.size,
    end: () => agent.destroy(),
  };
}

test.each([
  ['unfinished heads', UNFINISHED],
  ['connections on which nothing is sent', ''],
  ['connections that were used once', LIVE],
])(
  'while an attacker opens %s without end, another client keeps its connection and its hits',
  async (_what, bytes) => {
    const { url } = await start();
    const other = client(url);
    await other.ask();
    const told: string[] = [];
    const attackers: Held[] = [];
    for (let round = 0; round < 5; round += 1) {
      for (let i = 0; i < LIMIT; i += 1) attackers.push(await hold(url, bytes, '127.0.0.2'));
      told.push(await other.ask());
    }
    expect(told).toEqual(['hit', 'hit', 'hit', 'hit', 'hit']);
    expect(other.connections()).toBe(1);
    await until(() => attackers.filter((one) => !isClosed(one)).length < LIMIT);
    // His oldest went first.
    expect(attackers.slice(0, -LIMIT).every(isClosed)).toBe(true);
    const headers = { authorization: basic('ADMIN') };
    const page = await send(url, { path: '/metrics', headers });
    expect(page.text).toContain(`mdx_gateway_connections_limit ${LIMIT}\n`);
    expect(page.text).toContain(`mdx_gateway_connections ${LIMIT}\n`);
    expect(page.text).toMatch(/mdx_gateway_connections_closed_total\{why="limit"\} [1-9]/);
    const overview = await send(url, { path: '/admin/overview', headers });
    expect(JSON.parse(overview.text)).toMatchObject({
      findings: expect.arrayContaining([expect.objectContaining({ kind: 'connections-closed' })]),
    });
    const warnings = gateway?.events.filter(({ type }) => type === 'warning') ?? [];
    expect(warnings).toMatchObject([{ message: expect.stringContaining('limits.connections') }]);
    other.end();
  },
);

describe('at the limit', () => {
  test('the connection that was not used for longest makes room', async () => {
    const { url } = await start({ connections: 3 });
    const first = await holdIdle(url, '127.0.0.2');
    const second = await hold(url, UNFINISHED, '127.0.0.3');
    const third = await holdIdle(url, '127.0.0.4');
    await use(first);
    now += LATER;
    const fourth = await holdIdle(url, '127.0.0.5');
    await until(() => isClosed(second));
    const fifth = await holdIdle(url, '127.0.0.6');
    await until(() => isClosed(third));
    for (const one of [first, fourth, fifth]) await use(one);
    expect(closings()).toEqual(['limit', 'limit']);
  });

  test('a long request counts as use until its end', async () => {
    const { url } = await start({ connections: 2 });
    const going = checkpoint();
    engine.answerWith(async (response, request) => {
      await going.arrive();
      await sendXml(mddatasetAnswer())(response, request);
    });
    const long = client(url);
    const answer = long.ask();
    await until(() => engine.seen.length === 1);
    const short = await holdIdle(url, '127.0.0.2');
    going.release();
    await answer;
    await holdIdle(url, '127.0.0.3');
    await until(() => isClosed(short));
    expect(await long.ask()).toBe('hit');
    expect(long.connections()).toBe(1);
    long.end();
  });

  test('a new connection has a moment for its first head, unless its address has most of them', async () => {
    const { url } = await start({ connections: 2 });
    const young = await hold(url, UNFINISHED, '127.0.0.2');
    const idle = await holdIdle(url, '127.0.0.3');
    const younger = await hold(url, UNFINISHED, '127.0.0.4');
    await until(() => isClosed(idle));
    const late = await hold(url, LIVE, '127.0.0.5');
    await until(() => isClosed(late));
    expect([young, younger].some(isClosed)).toBe(false);
    now += LATER;
    await holdIdle(url, '127.0.0.5');
    await until(() => isClosed(young));
    expect(closings()).toEqual(['limit', 'busy', 'limit']);
  });

  test('it is one of the address that has most of them', async () => {
    const { url } = await start({ connections: 4 });
    const oldest = await holdIdle(url, '127.0.0.2');
    const many: Held[] = [];
    for (let i = 0; i < 3; i += 1) many.push(await holdIdle(url, '127.0.0.3'));
    const next = await holdIdle(url, '127.0.0.4');
    await until(() => many[0] !== undefined && isClosed(many[0]));
    for (const one of [oldest, next, ...many.slice(1)]) await use(one);
  });

  test('where all carry requests the new one is closed, and they are answered', async () => {
    const { url } = await start({ connections: 2 });
    const going = checkpoint();
    engine.answerWith(async (response, request) => {
      await going.arrive();
      await sendXml(mddatasetAnswer())(response, request);
    });
    const clients = [client(url), client(url)];
    const answers = clients.map((one, i) =>
      one.ask(execute({ statement: `SELECT FROM [Sales ${i}]` })),
    );
    await until(() => engine.seen.length === 2);
    const late = await hold(url, LIVE, '127.0.0.2');
    await until(() => isClosed(late));
    expect(late.received()).toBe('');
    expect(closings()).toEqual(['busy']);
    going.release();
    expect(await Promise.all(answers)).toEqual(['miss stored', 'miss stored']);
    for (const one of clients) one.end();
  });
});

describe('at the limit, where all carry requests', () => {
  test('the newest unfinished body of the address that has most of them makes room, for its own address too', async () => {
    const { url } = await start({ connections: 4 });
    const other = await holdBody(url, '127.0.0.3');
    const many: Held[] = [];
    for (let i = 0; i < 3; i += 1) many.push(await holdBody(url, '127.0.0.2'));
    now += LATER;
    const probe = await holdIdle(url, '127.0.0.4');
    await until(() => many[2] !== undefined && isClosed(many[2]));
    probe.socket.write(WITHOUT_BODY);
    await until(() => probe.received().includes('100 Continue'));
    await holdIdle(url, '127.0.0.2');
    await until(() => many[1] !== undefined && isClosed(many[1]));
    expect([other, probe, ...many.slice(0, 1)].some(isClosed)).toBe(false);
    expect(closings()).toEqual(['stalled', 'stalled']);
  });

  test('behind a trusted proxy it is the newest', async () => {
    const { url } = await start({ connections: 2 }, { trusted_proxies: ['127.0.0.2'] });
    const bodies = [await holdBody(url, '127.0.0.2'), await holdBody(url, '127.0.0.2')];
    now += LATER;
    await holdIdle(url, '127.0.0.2');
    await until(() => bodies[1] !== undefined && isClosed(bodies[1]));
    expect(bodies.map(isClosed)).toEqual([false, true]);
  });

  test('a request has a moment for its body', async () => {
    const { url } = await start({ connections: 1 });
    const one = await holdBody(url, '127.0.0.2');
    const late = await hold(url, LIVE, '127.0.0.3');
    await until(() => isClosed(late));
    one.socket.write(QUERY);
    await until(() => one.received().includes('200 OK'));
    expect(closings()).toEqual(['busy']);
  });

  test('one whose answer lies unread makes room', async () => {
    const { url } = await start({ connections: 1 });
    engine.answerWith((response) => {
      response.writeHead(200, { 'content-type': 'text/xml' });
      // More than the buffers of the system hold.
      response.end(Buffer.alloc(64 * 1024 * 1024, ' '));
    });
    const one = await hold(url, '', '127.0.0.2');
    one.socket.pause();
    one.socket.write(Buffer.concat([Buffer.from(WITHOUT_BODY.replace(/Expect.*\r\n/, '')), QUERY]));
    await until(() => engine.seen.length === 1);
    const probes: Held[] = [];
    while (!probes.some((probe) => probe.received().includes('200 OK'))) {
      now += LATER;
      const probe = await hold(url, LIVE, '127.0.0.3');
      probes.push(probe);
      await until(() => isClosed(probe) || probe.received() !== '');
    }
    expect(closings()).toContain('stalled');
  });
});

describe('one address', () => {
  const CONNECTIONS = { connections: 64 };
  /** What one address may have of them. */
  const MOST = 4;

  test('keeps a sixteenth of all connections without a whole head, and loses the oldest beyond', async () => {
    const { url } = await start(CONNECTIONS);
    const heads: Held[] = [];
    for (let i = 0; i < MOST + 2; i += 1) heads.push(await hold(url, UNFINISHED, '127.0.0.2'));
    const elsewhere = await hold(url, UNFINISHED, '127.0.0.3');
    // A crowd that came at once is given a moment.
    expect(closings()).toEqual([]);
    now += LATER;
    const last = await hold(url, UNFINISHED, '127.0.0.2');
    await until(() => heads.slice(0, 3).every(isClosed));
    expect(closings()).toEqual(['address', 'address', 'address']);
    expect([elsewhere, last, ...heads.slice(3)].some(isClosed)).toBe(false);
  });

  test('has no such bound for connections that were used', async () => {
    const { url } = await start(CONNECTIONS);
    const idle: Held[] = [];
    for (let i = 0; i < 3 * MOST; i += 1) {
      idle.push(await holdIdle(url, '127.0.0.2'));
      now += LATER;
    }
    for (const one of idle) await use(one);
    expect(closings()).toEqual([]);
  });

  test('has none as a trusted proxy, and is not taken for one client at the limit', async () => {
    const { url } = await start(CONNECTIONS, { trusted_proxies: ['127.0.0.2'] });
    const proxied: Held[] = [];
    for (let i = 0; i < 62; i += 1) proxied.push(await hold(url, UNFINISHED, '127.0.0.2'));
    now += LATER;
    const own = [await holdIdle(url, '127.0.0.3'), await holdIdle(url, '127.0.0.3')];
    await holdIdle(url, '127.0.0.4');
    await until(() => own[0] !== undefined && isClosed(own[0]));
    expect(closings()).toEqual(['limit']);
    expect(proxied.some(isClosed)).toBe(false);
  });
});

test('a crowd of clients that comes at once keeps its connections, up to the limit', async () => {
  const { url } = await start({ connections: 100 });
  const crowd = Array.from({ length: 100 }, () => client(url));
  const rounds: string[] = [];
  for (let round = 0; round < 3; round += 1) {
    rounds.push(...(await Promise.all(crowd.map((one) => one.ask()))));
    now += LATER;
  }
  expect(new Set(rounds.slice(100))).toEqual(new Set(['hit']));
  expect(new Set(crowd.map((one) => one.connections()))).toEqual(new Set([1]));
  expect(closings()).toEqual([]);
  for (const one of crowd) one.end();
});

describe('a head', () => {
  const ask = async (head: string) => {
    const { url } = gateway ?? (await start({ head: '16KiB', head_timeout: '1s' }));
    const { bytes, ended } = await sendRaw(portOf(url), head);
    return { text: bytes.toString(), ended };
  };
  const LONG = `GET /health/live HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n`;

  test.each([
    ['of 17 KiB', `${LONG}X: ${'a'.repeat(17 * 1024)}\r\n\r\n`],
    ['of 2 MB, of which the client reads the refusal all the same', `${LONG}X: ${'a'.repeat(2e6)}`],
    ['of 201 headers', `${LONG}${'X: a\r\n'.repeat(199)}\r\n`],
    ['of 202 headers', `${LONG}${'X: a\r\n'.repeat(200)}\r\n`],
    ['of 1,000 headers', `${LONG}${'X: a\r\n'.repeat(998)}\r\n`],
  ])('%s is refused with 431, in the same words', async (_what, head) => {
    const { text, ended } = await ask(head);
    expect(text).toMatch(/^HTTP\/1\.1 431 [^]*\r\nConnection: close\r\n/i);
    expect(text.split('\r\n\r\n')[1]).toBe(
      'The head of the request is too long: it is larger than limits.head, or has more than 200 headers.\n',
    );
    expect(ended).toBe('end');
  });

  test('of 15 KiB, or of 200 headers, is answered', async () => {
    const long = await ask(`${LONG}X: ${'a'.repeat(15 * 1024)}\r\n\r\n`);
    const many = await ask(`${LONG}${'X: a\r\n'.repeat(198)}\r\n`);
    expect([long.text, many.text]).toEqual([
      expect.stringMatching(/^HTTP\/1\.1 200 /),
      expect.stringMatching(/^HTTP\/1\.1 200 /),
    ]);
  });

  test('that does not come in time is refused with 408, in words, unless nothing was asked', async () => {
    await start({ head: '16KiB', head_timeout: '1s' });
    const [late, none, behind] = await Promise.all([
      ask(UNFINISHED),
      ask(''),
      ask(LIVE + UNFINISHED),
    ]);
    expect(late.text).toMatch(/^HTTP\/1\.1 408 [^]*did not come in time/);
    expect(none).toEqual({ text: '', ended: 'end' });
    // Behind another request it has no more time, and the answer of that one is whole.
    expect(behind.text).toMatch(/^HTTP\/1\.1 200 [^]*HTTP\/1\.1 408 /);
  });

  test('that is not valid is refused with 400, in words', async () => {
    const { text } = await ask('GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n');
    expect(text).toMatch(/^HTTP\/1\.1 400 [^]*The request is not valid HTTP\/1\.1: /);
  });
});

describe('over HTTPS', () => {
  let authority: Authority;
  let own: Certificate;
  beforeAll(() => {
    authority = makeAuthority();
    own = authority.issue('gateway');
  });
  afterAll(() => authority.remove());

  const secure = (limits: object) => start(limits, { certificate: own.certificate, key: own.key });

  async function holdSecurely(url: string, bytes: string): Promise<Socket> {
    const options: ConnectionOptions & { localAddress: string } = {
      port: portOf(url),
      host: '127.0.0.1',
      localAddress: '127.0.0.2',
      ca: authority.pem,
    };
    const socket = connectSecurely(options);
    held.push(socket);
    socket.on('error', () => {});
    socket.resume();
    await once(socket, 'secureConnect');
    socket.write(bytes);
    return socket;
  }

  test('neither unfinished handshakes nor unfinished heads take the connection of another client', async () => {
    const { url } = await secure({ connections: LIMIT });
    const other = client(url, { ca: authority.pem });
    await other.ask();
    const told: string[] = [];
    const handshakes: Held[] = [];
    for (let i = 0; i < 2 * LIMIT; i += 1) {
      handshakes.push(await hold(url, '\x16\x03\x01\x40\x00\x01', '127.0.0.2'));
    }
    told.push(await other.ask());
    const heads: Socket[] = [];
    for (let i = 0; i < 2 * LIMIT; i += 1) heads.push(await holdSecurely(url, UNFINISHED));
    told.push(await other.ask());
    expect(told).toEqual(['hit', 'hit']);
    expect(other.connections()).toBe(1);
    await until(
      () => handshakes.every(isClosed) && heads.slice(0, LIMIT).every((one) => one.closed),
    );
    other.end();
  });

  test('a connection that carries a request stays', async () => {
    const { url } = await secure({ connections: 1 });
    const going = checkpoint();
    engine.answerWith(async (response, request) => {
      await going.arrive();
      await sendXml(mddatasetAnswer())(response, request);
    });
    const one = client(url, { ca: authority.pem });
    const answer = one.ask();
    await until(() => engine.seen.length === 1);
    const late = await hold(url, '', '127.0.0.2');
    await until(() => isClosed(late));
    going.release();
    expect(await answer).toBe('miss stored');
    one.end();
  });

  test('a handshake that does not end in time is ended', async () => {
    const { url } = await secure({ connections: LIMIT, head_timeout: '1s' });
    const one = await hold(url, '\x16\x03\x01\x40\x00\x01', '127.0.0.2');
    await until(() => isClosed(one));
    expect(closings()).toEqual([]);
  });
});

test('a reload changes the limit of connections, and names what waits for a restart', async () => {
  const { url, events, reload } = await start({ connections: LIMIT });
  const first = await holdIdle(url, '127.0.0.2');
  const second = await holdIdle(url, '127.0.0.2');
  await reload({
    engine: { url: engine.url },
    limits: { connections: 2, head: '32KiB', head_timeout: '20s' },
  });
  const warnings = events.flatMap((event) => (event.type === 'warning' ? [event.message] : []));
  expect(warnings).toEqual(['these keys change by a restart: limits.head, limits.head_timeout']);
  await holdIdle(url, '127.0.0.2');
  await until(() => isClosed(first));
  expect(isClosed(second)).toBe(false);
});

test('several workers have their parts of the limit, and go on answering', async () => {
  const folder = await configFolder();
  const running = runMain([
    'serve',
    '--config',
    folder.write({ workers: 2, engine: { url: engine.url }, limits: { connections: LIMIT } }),
  ]);
  try {
    const url = await listening(running);
    const others = [client(url), client(url), client(url)];
    for (const other of others) await other.ask();
    const attackers: Held[] = [];
    for (let i = 0; i < 4 * LIMIT; i += 1) {
      attackers.push(await hold(url, UNFINISHED, '127.0.0.2'));
    }
    await until(() => attackers.filter((one) => !isClosed(one)).length <= LIMIT);
    const told = [];
    for (const other of others) told.push(await other.ask());
    expect(told.every((status) => status.startsWith('miss') || status === 'hit')).toBe(true);
    expect(others.map((other) => other.connections())).toEqual([1, 1, 1]);
    const page = await send(url, { path: '/metrics', headers: { authorization: basic('ADMIN') } });
    expect(page.text).toContain(`mdx_gateway_connections_limit ${LIMIT}\n`);
    for (const other of others) other.end();
  } finally {
    running.kill('SIGTERM');
    for (const socket of held) socket.destroy();
    await running.ended;
    folder.remove();
  }
});
