import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { Agent, createServer, request as send, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { RememberedLogin } from '../../../src/auth/authenticator.ts';
import type { GatewayEvent } from '../../../src/events.ts';
import { createHotPath, type HotPath, type Lesson } from '../../../src/hot-path/hot-path.ts';
import { engineTraits } from '../../../src/engine-kinds.ts';
import type { KnownKey } from '../../../src/query-cache/query.ts';
import type { StoredAnswer } from '../../../src/query-cache/stored-answer.ts';
import type { SessionRecord } from '../../../src/sessions/session-store.ts';
import type { FoundSession } from '../../../src/sessions/sessions.ts';
import { readAsked } from '../../../src/xmla-line/asked.ts';
import { execute } from '../../support/envelopes.ts';
import { handClock } from '../query-cache/fakes.ts';

const LOGIN = 'Basic YWxpY2U6YWxpY2U=';
const TRAITS = engineTraits('mondrian');
const SESSION = 'qy3p8o1v5zk2';
const GUID = '0f8fad5b-d9cb-469f-a165-70867728950e';
const FOUND: KnownKey = {
  key: 'k',
  captured: { scopes: [], tokens: [], keySecret: '' },
  ttl: 1_000,
  digests: '',
};
const ANSWER: StoredAnswer = {
  body: Buffer.from('<Session SessionId=""/>stored'),
  session: { at: 20, encoding: 'utf-8' },
  sessionHeader: false,
  contentType: 'text/xml',
  contentLanguage: undefined,
  requestedAt: 0,
  lifetime: 1_000,
  engineMilliseconds: 7,
};

const asked = (id = SESSION, activity = GUID) =>
  execute({
    statement: 'SELECT FROM [Sales]',
    properties: { Catalog: 'FoodMart', DbpropMsmdActivityID: activity },
    session: { kind: 'in', id },
  });

/** Everything that may have changed since a query was learnt. */
let world: {
  login: boolean;
  stored: StoredAnswer | undefined;
  session: FoundSession | undefined;
  roles: string | undefined;
};
let record: SessionRecord;
let hotPath: HotPath;
let server: Server;
let url: string;
let agent: Agent;
let events: GatewayEvent[];
/** Bodies that went the whole line, and lessons to be learnt of them. */
let line: { readonly body: string; readonly request: IncomingMessage }[];

beforeEach(async () => {
  const clock = handClock();
  record = {
    principal: 'alice',
    profile: 'p',
    catalog: 'FoodMart',
    replica: '',
    dirty: false,
    spelling: '',
    version: '',
    forwardedAt: clock.wall(),
  };
  world = { login: true, stored: ANSWER, session: { kind: 'known', record }, roles: undefined };
  [events, line] = [[], []];
  const login: RememberedLogin = { principal: { name: 'alice' }, counts: () => world.login };
  hotPath = createHotPath({
    authenticator: { remembered: (header) => (header === LOGIN ? login : undefined) },
    cache: {
      recall: () => world.stored && { answer: world.stored, ttl: 900, age: 100 },
      gzipOf: () => undefined,
    },
    sessions: { handle: () => ({ find: () => world.session }) },
    roleSets: { heldName: () => world.roles },
    gzip: { prepare() {} },
    inUse: { hold: () => () => {} },
    clock,
    secret: 's',
    newId: () => 'id',
    emit: (event) => events.push(event),
  });
  server = createServer((request, response) =>
    hotPath.take(request, response, () => {
      void text(request).then((body) => {
        line.push({ body, request });
        response.end('the line');
      });
    }),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mdx/xmla`;
  agent = new Agent({ keepAlive: true, maxSockets: 1 });
});
afterEach(() => {
  agent.destroy();
  server.close();
});

async function ask(body: Buffer, headers: Record<string, string> = {}): Promise<string> {
  const sent = send(url, {
    method: 'POST',
    agent,
    headers: { authorization: LOGIN, 'content-length': body.length, ...headers },
  });
  sent.end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return text(response);
}

/** What the line tells of the request that it answered last. */
async function learn(changed: Partial<Lesson> = {}): Promise<void> {
  const last = line.at(-1);
  if (last === undefined) throw new Error('the line saw no request');
  const body = Buffer.from(last.body);
  const understood = await readAsked(last.request.headers, body, TRAITS);
  await hotPath.learn({
    request: last.request,
    body,
    asked: understood,
    destination: {
      traits: TRAITS,
      settings: { session_idle: 1_000 },
    },
    principal: { name: 'alice' },
    project: '',
    session:
      understood.session.kind === 'in'
        ? { name: { place: '', id: understood.session.id }, record }
        : undefined,
    share: 'user',
    identity: 'user:alice',
    found: FOUND,
    ...changed,
  });
}

async function taught(changed?: Partial<Lesson>): Promise<void> {
  expect(await ask(asked())).toBe('the line');
  await learn(changed);
}

test('a query that is known is answered before the line, with its own session and whatever ids it makes up', async () => {
  await taught();
  expect(await ask(asked())).toBe(`<Session SessionId="${SESSION}"/>stored`);
  expect(await ask(asked(SESSION, GUID.replaceAll('0', 'f')))).toContain('stored');
  expect(line).toHaveLength(1);
  expect(events).toEqual(
    [1, 2].map(() => ({
      type: 'xmla-answered',
      id: 'id',
      principal: 'alice',
      project: '',
      subject: 'Execute',
      why: '',
      outcome: { kind: 'hit', detail: 'memory' },
      status: 200,
      bytes: ANSWER.body.length + SESSION.length,
      milliseconds: 0,
      saved: 7,
      complete: true,
    })),
  );
});

describe('goes the whole line, which gets the body as it came, when', () => {
  test.each<[string, () => void]>([
    ['the login must be checked again', () => (world.login = false)],
    ['the entry is gone, too old or purged', () => (world.stored = undefined)],
    ['the session must be asked for', () => (world.session = undefined)],
    ['the session is not known', () => (world.session = { kind: 'unknown' })],
    [
      'the store of sessions is away',
      () => (world.session = { kind: 'unavailable', last: record }),
    ],
    ['the session is dirty', () => changeRecord({ dirty: true })],
    ['the session is somebody else’s', () => changeRecord({ principal: 'bob' })],
    ['the session began with something else', () => changeRecord({ profile: 'q' })],
    ['the session is in another catalog', () => changeRecord({ catalog: 'Other' })],
    ['the engine must be told that the session lives', () => changeRecord({ forwardedAt: 0 })],
  ])('%s', async (_why, happen) => {
    await taught();
    expect(await ask(asked())).toContain('stored');
    happen();
    const body = asked(SESSION, GUID.replaceAll('0', 'f'));
    expect(await ask(body)).toBe('the line');
    expect(line.at(-1)?.body).toBe(body.toString());
  });

  function changeRecord(changed: Partial<SessionRecord>): void {
    world.session = { kind: 'known', record: { ...record, ...changed } };
  }

  test.each<[string, Record<string, string>]>([
    ['another user asks', { authorization: 'Basic Ym9iOmJvYg==' }],
    ['a header is there that was not', { 'cache-control': 'no-cache' }],
    ['the client is another program', { 'user-agent': 'Java' }],
    ['the body is compressed', { 'content-encoding': 'gzip' }],
    ['the session is named in a header', { 'x-as-sessionid': SESSION }],
    ['rights of another are asked for', { 'execute-as-user-id': 'bob' }],
  ])('%s', async (_why, headers) => {
    await taught();
    expect(await ask(asked(), headers)).toBe('the line');
  });

  test.each<[string, Buffer]>([
    ['the session is one that nothing was learnt of', asked('another0session')],
    ['a session is not named', execute({ statement: 'SELECT FROM [Sales]' })],
    ['another statement is asked', Buffer.from(asked().toString().replace('Sales', 'Other'))],
    ['an id holds what means something to XML', asked(SESSION, GUID.replaceAll('0', '&'))],
    ['an id is longer', asked(SESSION, `${GUID}0`)],
  ])('%s', async (_why, body) => {
    await taught();
    expect(await ask(body)).toBe('the line');
    expect(line.at(-1)?.body).toBe(body.toString());
  });

  test('the roles under which it is shared are not those of the user any more', async () => {
    world.roles = 'roles:1,2';
    await taught({ share: 'roles', identity: 'roles:1,2' });
    expect(await ask(asked())).toContain('stored');
    world.roles = undefined;
    expect(await ask(asked())).toBe('the line');
    world.roles = 'roles:1';
    expect(await ask(asked())).toBe('the line');
  });
});

describe('nothing is learnt', () => {
  test('of a user without roles where answers are shared by roles', async () => {
    await taught({ share: 'roles', identity: 'user:alice' });
    expect(await ask(asked())).toBe('the line');
  });

  test('of a login that is not remembered', async () => {
    expect(await ask(asked(), { authorization: 'Basic Ym9iOmJvYg==' })).toBe('the line');
    await learn();
    expect(await ask(asked(), { authorization: 'Basic Ym9iOmJvYg==' })).toBe('the line');
  });
});

test('what was learnt on one connection is known on the next one', async () => {
  await taught();
  agent.destroy();
  agent = new Agent({ keepAlive: true, maxSockets: 1 });
  expect(await ask(asked())).toContain('stored');
});

test('an answer that cannot be given to this client goes the whole line', async () => {
  const withoutSession = execute({ statement: 'SELECT FROM [Sales]' });
  await ask(withoutSession);
  await learn();
  expect(await ask(withoutSession)).toBe('the line');
  expect(events).toMatchObject([{ type: 'internal-error' }]);
});
