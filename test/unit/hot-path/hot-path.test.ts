import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import type { SessionRecord } from '../../../src/sessions/session-store.ts';
import { execute } from '../../support/envelopes.ts';
import { until } from '../../support/http-client.ts';
import { quiet } from '../query-cache/fakes.ts';
import {
  ANSWER,
  asked,
  FOUND,
  GUID,
  loggedIn,
  NO_SESSION,
  openHouse,
  SESSION,
  type House,
} from './hot-path-house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse();
});
afterEach(() => {
  house.close();
  // Whatever throws goes the whole line too, and would hide here what should have said no.
  for (const event of house.events) if (event.type === 'internal-error') throw event.error;
});

const ask = async (...order: Parameters<House['ask']>) => `${await house.ask(...order)}`;
const taught: House['taught'] = (...order) => house.taught(...order);
/** The same bytes with others somewhere. */
const changed = (from: string, to: string) => Buffer.from(`${asked()}`.replace(from, to));

test('a query that is known is answered before the line, with its own session and whatever ids it makes up', async () => {
  await taught();
  expect(await ask(asked())).toBe(`<Session SessionId="${SESSION}"/>stored`);
  expect(await ask(asked(SESSION, GUID.replaceAll('0', 'f')))).toContain('stored');
  expect(house.line).toHaveLength(2);
  expect(house.events).toEqual(
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
    ['the login must be checked again', () => (house.login.valid = false)],
    ['the entry is gone, too old or purged', () => (house.stored = undefined)],
    ['the session must be asked for', () => (house.session = undefined)],
    ['the session is not known', () => (house.session = { kind: 'unknown' })],
    [
      'the store of sessions is away',
      () => (house.session = { kind: 'unavailable', last: house.record }),
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
    expect(house.line.at(-1)?.body).toEqual(body);
  });

  function changeRecord(other: Partial<SessionRecord>): void {
    house.session = { kind: 'known', record: { ...house.record, ...other } };
  }

  test.each<[string, Parameters<House['ask']>[1]]>([
    ['another user asks', { headers: { authorization: 'Basic Ym9iOmJvYg==' } }],
    ['another project is asked', { path: '/b' }],
    ['it has a query', { path: '?a=b' }],
    ['its method is another', { method: 'PUT' }],
    ['a header is there that was not', { headers: { 'cache-control': 'no-cache' } }],
    ['the client is another program', { headers: { 'user-agent': 'Java' } }],
    ['the body is compressed', { headers: { 'content-encoding': 'gzip' } }],
    ['the session is named in a header', { headers: { 'x-as-sessionid': SESSION } }],
    ['rights of another are asked for', { headers: { 'execute-as-user-id': 'bob' } }],
  ])('%s', async (_why, way) => {
    await taught();
    expect(await ask(asked(), way)).toBe('the line');
    expect(await ask(asked())).toContain('stored');
  });

  test.each<[string, Buffer]>([
    ['the session is one that nothing was learnt of', asked(SESSION.replaceAll('q', 'x'))],
    ['a session is not named', execute({ statement: 'SELECT FROM [Sales]' })],
    ['another statement is asked', changed('Sales', 'Other')],
    ['an id holds what means something to XML', changed(GUID, GUID.replaceAll('0', '&'))],
    ['an id is longer', asked(SESSION, `${GUID}0`)],
    ['an id of a session is longer', asked(`${SESSION}0`)],
  ])('%s', async (_why, body) => {
    await taught();
    expect(await ask(body)).toBe('the line');
    expect(house.line.at(-1)?.body).toEqual(body);
    expect(await ask(asked())).toContain('stored');
  });

  test('the roles under which it is shared are not those of the user any more', async () => {
    house.roles = 'roles:1,2';
    await taught({ share: 'roles', identity: 'roles:1,2' });
    expect(await ask(asked())).toContain('stored');
    house.roles = undefined;
    expect(await ask(asked())).toBe('the line');
    house.roles = 'roles:1';
    expect(await ask(asked())).toBe('the line');
  });

  test('it names a session, and was learnt without one', async () => {
    await taught(NO_SESSION);
    expect(await ask(asked())).toBe('the line');
  });

  test('more of its body is to come', async () => {
    await taught();
    await ask(asked());
    const [socket, received] = await connected();
    const looked = taken();
    socket.write(`${headOf(asked().length + 2)}${asked()}`);
    await looked;
    expect(received()).toBe('');
    socket.write(' \n');
    await until(() => received().endsWith('the line'));
    expect(`${house.line.at(-1)?.body}`).toBe(`${asked()} \n`);
    socket.destroy();
  });

  test('its body goes on behind what is known, in another chunk that came with it', async () => {
    const head = `POST /mdx/xmla HTTP/1.1\r\nhost: x\r\nauthorization: Basic YWxpY2U6YWxpY2U=\r\n`;
    const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
    const [socket, received] = await connected();
    const write = (...chunks: readonly string[]) =>
      void socket.write(
        `${head}transfer-encoding: chunked\r\n\r\n${[...chunks, ''].map(chunk).join('')}`,
      );
    for (const time of [1, 2]) {
      write(`${asked()}`);
      await until(() => house.line.length === time);
      await house.learn();
    }
    write(`${asked()}`);
    await until(() => received().includes('stored'));
    write(`${asked()}`, '<more/>');
    await until(() => house.line.length === 3 || received().split('stored').length > 2);
    expect(`${house.line.at(-1)?.body}`).toBe(`${asked()}<more/>`);
    expect(received().split('stored')).toHaveLength(2);
    socket.destroy();
  });

  test('its client has gone', async () => {
    await taught();
    const [socket] = await connected();
    house.onTaken = (request) => void request.destroy();
    const looked = taken();
    socket.write(`${headOf(asked().length)}${asked()}`);
    await looked;
    expect([house.events, house.sending]).toEqual([[], []]);
    socket.destroy();
  });

  /** With the very head that was learnt. */
  function headOf(length: number): string {
    const { rawHeaders } = house.line.at(-1)?.request ?? { rawHeaders: [] };
    const lines = rawHeaders.flatMap((name, at) => {
      const value = name.toLowerCase() === 'content-length' ? `${length}` : rawHeaders[at + 1];
      return at % 2 === 0 ? [`${name}: ${value}\r\n`] : [];
    });
    return `POST /mdx/xmla HTTP/1.1\r\n${lines.join('')}\r\n`;
  }

  async function connected() {
    const socket = connect(house.port, '127.0.0.1').setNoDelay();
    const chunks: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', () => {});
    await once(socket, 'connect');
    return [socket, () => `${Buffer.concat(chunks)}`] as const;
  }

  /** Resolves when the next request was taken, and the hot path has had its turn. */
  function taken(): Promise<void> {
    const before = house.onTaken;
    const here = Promise.withResolvers<void>();
    house.onTaken = (request: IncomingMessage, response) => {
      before(request, response);
      here.resolve();
    };
    return here.promise.then(quiet);
  }
});

describe('nothing is learnt', () => {
  test('of a head that comes for the first time, in which nothing is read again', async () => {
    expect(await ask(asked())).toBe('the line');
    await house.learn();
    expect(await ask(asked())).toBe('the line');
  });

  test('of a user without roles where answers are shared by roles', async () => {
    house.roles = 'user:alice';
    await taught({ share: 'roles', identity: 'user:alice' });
    expect(await ask(asked())).toBe('the line');
  });

  test('of a login that is not remembered, or is of another by now', async () => {
    const bob = { headers: { authorization: 'Basic Ym9iOmJvYg==' } };
    await taught({}, asked(), bob);
    expect(await ask(asked(), bob)).toBe('the line');
    house.login = loggedIn('bob');
    await taught();
    expect(await ask(asked())).toBe('the line');
  });

  test('of a body that is compressed', async () => {
    const body = gzipSync(execute({ statement: 'SELECT FROM [Sales]' }));
    const way = { headers: { 'content-encoding': 'gzip' } };
    house.stored = { ...ANSWER, session: undefined };
    await taught({}, body, way);
    expect(await ask(body, way)).toBe('the line');
  });

  test('of a request that names its session in a header', async () => {
    const way = { headers: { 'x-as-sessionid': SESSION } };
    await taught({}, asked(), way);
    expect(await ask(asked(), way)).toBe('the line');
  });

  test('of a request by another method', async () => {
    await taught({}, asked(), { method: 'PUT' });
    expect(await ask(asked(), { method: 'PUT' })).toBe('the line');
    await taught();
  });

  test('of a body of more than 64 KiB, which is never made a text', async () => {
    const sized = (length: number) => {
      const body = asked();
      return Buffer.concat([body, Buffer.alloc(length - body.length, ' ')]);
    };
    // Such bodies come in pieces, and so are recognised once they were read.
    const recognised = (body: Buffer) => {
      const request = house.line.at(-1)?.request;
      return request && house.hotPath.recognise(request, body);
    };
    await taught({}, sized(65_536));
    expect(recognised(sized(65_536))).toMatchObject({ found: FOUND });
    const body = sized(65_537);
    await taught({}, body);
    expect(recognised(sized(65_536))).toBeDefined();
    Object.assign(body, { toString: () => expect('a text').toBe('made of it') });
    expect(recognised(body)).toBeUndefined();
    await house.learn({ body });
  });
});

describe('what was learnt', () => {
  test('on one connection is known on the next one', async () => {
    await taught();
    house.reconnect();
    expect(await ask(asked())).toContain('stored');
  });

  test('counts again when the login was checked again', async () => {
    await taught();
    house.login.valid = false;
    expect(await ask(asked())).toBe('the line');
    house.login = loggedIn();
    await house.learn();
    expect(await ask(asked())).toContain('stored');
  });

  test('counts for no one else who logs in with the same credentials later', async () => {
    const [body, other] = ['[Sales]', '[Other]'].map((cube) =>
      execute({ statement: `SELECT FROM ${cube}` }),
    );
    if (body === undefined || other === undefined) throw new Error('no queries');
    house.stored = { ...ANSWER, session: undefined };
    await taught({}, body);
    expect(await ask(body)).toContain('stored');
    house.login.valid = false;
    house.login = loggedIn('bob');
    const bobs = { principal: { name: 'bob' }, identity: 'user:bob' };
    await taught(bobs, other);
    expect(await ask(other)).toContain('stored');
    expect(await ask(body)).toBe('the line');
  });

  test('is found under another key when it was answered under another one since', async () => {
    await taught({ found: { ...FOUND, key: 'before' } });
    expect(await ask(asked())).toBe('the line');
    await house.learn();
    expect(await ask(asked())).toContain('stored');
  });

  test('of one project is told as of that one', async () => {
    await taught({ project: 'b' }, asked(), { path: '/b' });
    await ask(asked(), { path: '/b' });
    expect(house.events).toMatchObject([{ project: 'b' }]);
  });
});
