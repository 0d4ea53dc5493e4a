import type { AnswerText, StoredAnswer } from '../../../src/cache/stored-answer.ts';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { createPermissions } from '../../../src/auth/authenticator.ts';
import type { GatewayEvent } from '../../../src/common/events.ts';
import type { Config } from '../../../src/config/config.ts';
import { createClients } from '../../../src/line/client.ts';
import { createAnswerBody, createXmlaHandler } from '../../../src/line/handler.ts';
import { createMemo } from '../../../src/line/memo.ts';
import { createReplay, createStands } from '../../../src/line/replay.ts';
import { createQueryOf } from '../../../src/line/query.ts';
import { createExamine } from '../../../src/line/session-step.ts';
import type { Client, KnownKey, Query } from '../../../src/cache/query.ts';
import { execute } from '../../support/envelopes.ts';
import { send, until } from '../../support/http-client.ts';
import { HITS_UNTIL_REMEMBERED } from '../../support/remembered.ts';
import { answerWith } from '../cache/stored-answer/session-documents.ts';
import { bodyAccount, handClock, quiet } from '../cache/fakes.ts';
import { principalOf } from '../../../src/common/principal.ts';

const LOGIN = 'Basic YWxpY2U6YWxpY2U=';
const QUERY = execute({ statement: 'SELECT FROM [Sales]', properties: { Catalog: 'FoodMart' } });
const KEY: KnownKey = {
  key: 'k',
  captured: { scopes: [], tokens: [], keySecret: '', leases: [] },
  ttl: 1_000,
  digests: '',
};
const SHORT = answerWith({ body: Buffer.from('<stored/>'), session: undefined });

let handler: ReturnType<typeof createXmlaHandler>;
let server: Server;
let url: string;
let events: GatewayEvent[];
/** What memory holds; and how often it answered what was remembered, and by a key. */
let stored: StoredAnswer;
let answered: { byMemo: number; byKey: number };
let sending: AnswerText[];
let working: number;
/** Called in the turn in which a request came. */
let onCome: (request: IncomingMessage, response: ServerResponse) => void;

beforeEach(async () => {
  [events, stored, sending, working] = [[], SHORT, [], 0];
  answered = { byMemo: 0, byKey: 0 };
  onCome = () => {};
  const principal = principalOf('alice');
  const never = () => {
    throw new Error('not here');
  };
  const facts = () => ({
    outcome: { kind: 'hit', detail: 'memory' } as const,
    ttl: 1_000,
    age: 0,
    sessionId: undefined,
  });
  const engineOf = () => ({
    volatile: [],
    engine: { id: 'e', tellsProject: false } as never,
    settings: {
      kind: 'mondrian',
      login: 'none',
      headers: [] as string[],
      delegation: 'forward',
      session_idle: undefined,
      timeout: 300_000,
    } as const,
  });
  const config = {
    auth: { provider: 'file' },
    cache: { purge_on_refresh_cube: false, engine_permissions_ignored: false },
  } as Config;
  const permissions = createPermissions(
    { admins: [], viewers: [], purgers: [] } as never,
    'nobody',
  );
  const parts = {
    authenticator: {
      remembered: () => ({ principal, counts: () => true, countsForHits: () => true }),
      checkBehind: never,
    },
    login: () => principal,
    addressOf: () => '192.0.2.1',
    permissions,
    pageOrigins: undefined,
    engineOf,
    roleSets: { heldName: never, nameFor: never },
    cache: {
      recall() {
        answered.byMemo += 1;
        return { answer: stored, source: 'memory' as const, ttl: 1_000, age: 0, ending: false };
      },
      bring: () => undefined,
      hasTier2: false,
      textOf: (_key: string, { body }: StoredAnswer) => body,
      async answer(query: Query, client: Client) {
        answered.byKey += 1;
        client.replay(stored, facts());
        query.found?.(KEY, undefined);
      },
    },
    sessions: {} as never,
    judges: [],
    account: bodyAccount(),
    clock: handClock(),
    newId: () => 'id',
    emit: (event: GatewayEvent) => void events.push(event),
  };
  const clientOf = createClients({
    ...parts,
    patience: () => 300_000,
    holdBody(body) {
      sending.push(body);
      return () => void sending.splice(sending.indexOf(body), 1);
    },
  });
  const names = { admit: () => true, answered() {} };
  const memo = createMemo({ ...parts, secret: 's' });
  const queryOf = createQueryOf({
    ...parts,
    config,
    names,
    policyOf: () => ({ cache: 'on', ttl: 1_000, share: 'everyone' }) as never,
    seen: [],
  });
  const stands = createStands(parts);
  const answerBody = createAnswerBody({
    ...parts,
    ifError: never,
    memo,
    examine: createExamine({ ...parts, config, names }),
    queryOf,
    keepAlive: never,
    pass: never,
    seen: [],
    dropped: { note() {} },
  });
  handler = createXmlaHandler({
    ...parts,
    clientOf,
    memo,
    replay: createReplay({ ...parts, seen: [], stands }),
    maxBodyBytes: 100_000,
    believedHit: never,
    answerBody,
    clearCache: async (_request, response) => void response.end('cleared'),
    work: { begin: () => void (working += 1), end: () => void (working -= 1) },
  });
  server = createServer((request, response) => {
    if (!handler(request, response)) response.end('another’s');
    onCome(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
  if (working !== 0) throw new Error('something is told to be under way for ever');
});

const HEADERS = { authorization: LOGIN, 'content-type': 'text/xml' };
const ask = (body = QUERY) => send(`${url}/mdx/xmla`, { method: 'POST', headers: HEADERS, body });
const head = (length: number) =>
  `POST /mdx/xmla HTTP/1.1\r\nhost: x\r\nauthorization: ${LOGIN}\r\ncontent-type: text/xml\r\n` +
  `content-length: ${length}\r\n\r\n`;
const WRITTEN = Buffer.concat([Buffer.from(head(QUERY.length)), QUERY]);

async function client() {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').setNoDelay();
  let received = '';
  socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')));
  socket.on('error', () => {});
  await once(socket, 'connect');
  return { socket, received: () => received };
}

/** Until the very head and body are remembered that {@link client} writes. */
async function remembered() {
  const { socket, received } = await client();
  for (let asked = 1; answered.byMemo === 0; asked += 1) {
    expect(asked).toBeLessThanOrEqual(HITS_UNTIL_REMEMBERED);
    socket.write(WRITTEN);
    await until(() => received().split('<stored/>').length > asked);
  }
  socket.destroy();
  await quiet();
  events = [];
  answered = { byMemo: 0, byKey: 0 };
}

test('a request is answered by its key until it is remembered, and told in the same words then', async () => {
  await ask();
  await remembered();
  const { socket, received } = await client();
  socket.write(WRITTEN);
  await until(() => received().includes('<stored/>'));
  expect([answered, sending]).toEqual([{ byMemo: 1, byKey: 0 }, []]);
  expect(events).toEqual([
    {
      type: 'xmla-answered',
      id: 'id',
      principal: 'alice',
      address: '192.0.2.1',
      program: '',
      project: '',
      catalogs: ['FoodMart'],
      cubes: ['Sales'],
      digest: expect.stringMatching(/^[\w-]{22}$/) as never,
      statement: 'SELECT FROM [Sales]',
      trace: '',
      subject: 'Execute',
      why: '',
      outcome: { kind: 'hit', detail: 'memory' },
      status: 200,
      bytes: SHORT.body.length,
      milliseconds: 0,
      engine: undefined,
      saved: SHORT.engineMilliseconds,
      complete: true,
    },
  ]);
  socket.destroy();
});

test.each([
  ['that was never seen', async () => {}],
  ['that is remembered', remembered],
])(
  'a request %s and whose client leaves before its body is looked at is told once',
  async (_what, before) => {
    await before();
    onCome = (request) => void request.socket.destroy();
    const { socket } = await client();
    socket.write(WRITTEN);
    await until(() => events.length > 0);
    await quiet();
    expect(events).toMatchObject([
      { type: 'xmla-answered', outcome: { detail: 'client-gone' }, status: 499, complete: false },
    ]);
    expect(answered).toEqual({ byMemo: 0, byKey: 0 });
  },
);

test('a request whose body comes in pieces is understood as it is remembered, and answered by its key', async () => {
  await remembered();
  const { socket, received } = await client();
  socket.write(WRITTEN.subarray(0, -10));
  await quiet();
  socket.write(WRITTEN.subarray(-10));
  await until(() => received().includes('<stored/>'));
  expect(answered).toEqual({ byMemo: 0, byKey: 1 });
  socket.destroy();
});

test('requests that come at once are answered in their order', async () => {
  await remembered();
  const { socket, received } = await client();
  socket.write(
    Buffer.concat([WRITTEN, WRITTEN, Buffer.from('GET /none HTTP/1.1\r\nhost: x\r\n\r\n')]),
  );
  await until(() => received().endsWith('another’s') || received().includes('another'));
  expect(received().split('<stored/>')).toHaveLength(3);
  expect(events).toHaveLength(2);
  socket.destroy();
});

describe('an answer to a client that reads slowly', () => {
  /** More than the system takes for a client that reads nothing. */
  const LARGE = { ...SHORT, body: Buffer.alloc(32 * 1024 * 1024, ' ') };

  async function slowClient() {
    await remembered();
    stored = LARGE;
    const come = Promise.withResolvers<ServerResponse>();
    onCome = (_request, response) => come.resolve(response);
    const { socket } = await client();
    socket.pause();
    socket.write(WRITTEN);
    const response = await come.promise;
    await until(() => response.headersSent);
    await quiet();
    // Not the bodies themselves: what is said of so many bytes cannot be read.
    expect([sending.map((body) => body === LARGE.body), events]).toEqual([[true], []]);
    return { socket, response };
  }

  test.each([
    ['until it has it', true],
    ['until it goes away', false],
  ])('is counted %s', async (_when, complete) => {
    const { socket } = await slowClient();
    if (complete) socket.resume();
    else socket.destroy();
    await until(() => events.length === 1);
    expect([sending.length, events]).toMatchObject([0, [{ complete }]]);
    socket.destroy();
  });

  test('breaks off when it takes nothing for five minutes', async () => {
    const { response } = await slowClient();
    expect(response.socket?.timeout).toBe(300_000);
    response.socket?.emit('timeout');
    await until(() => events.length === 1);
    expect([sending.length, events]).toMatchObject([0, [{ complete: false }]]);
  });
});

test('a mistake of this program is a Fault with the id of its event', async () => {
  await remembered();
  // Which no session may be shown without an id.
  stored = answerWith({ body: Buffer.from('<a/>'), session: { at: 1, encoding: 'utf-8' } });
  const { socket, received } = await client();
  socket.write(WRITTEN);
  await until(() => received().includes('(request id)'));
  expect(events).toMatchObject([
    { type: 'internal-error', id: 'id' },
    { type: 'xmla-answered', status: 500, outcome: { kind: 'gateway', detail: 'internal' } },
  ]);
  socket.destroy();
});

test('clearCache and what is not below its paths are left to others', async () => {
  expect((await send(url, { path: '/mdx/xmla/clearCache' })).text).toBe('cleared');
  expect((await send(url, { path: '/api/roles' })).text).toBe('another’s');
});

test('a request that is refused by its head has nothing made for it that could break it off', async () => {
  const made = jest.spyOn(globalThis, 'AbortController');
  const { status } = await send(url, { path: '/mdx/xmla/a/b', headers: { host: 'gateway' } });
  expect([status, made.mock.calls.length]).toEqual([404, 0]);
  made.mockRestore();
});
