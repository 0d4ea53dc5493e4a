import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { systemClock } from '../../../src/common/clock.ts';
import { createHttpEngine } from '../../../src/engine/http-engine.ts';
import type { QueryHeaders } from '../../../src/engine/replicas.ts';
import { makeAuthority } from '../../support/certificates.ts';
import { type RawEngine, startRawEngine, wholeAnswer } from '../../support/raw-engine.ts';
import { gate, sendXml, startStubEngine } from '../../support/stub-engine.ts';
import { ADDRESSEE, DEAD, engineConfig, engineHouse, type EngineHouse } from './engine-house.ts';
import { shared } from '../../support/opened.ts';

const HEADERS: QueryHeaders = {
  'content-type': 'text/xml',
  soapaction: '"urn:schemas-microsoft-com:xml-analysis:Execute"',
  accept: undefined,
  'user-agent': undefined,
  'x-as-sessionid': undefined,
};
const never = new AbortController().signal;

const stub = shared(() => startStubEngine(() => {}));
let house: EngineHouse | undefined;

beforeEach(() => {
  stub.seen.length = 0;
  stub.answerWith(sendXml('<a/>'));
});
afterEach(() => house?.engine.close());

const open = (...given: Parameters<typeof engineHouse>) => (house = engineHouse(...given)).engine;

async function ask(engine: EngineHouse['engine'], changed: Partial<typeof ADDRESSEE> = {}) {
  const asked = { ...ADDRESSEE, ...changed };
  const answer = await engine.ask(asked, HEADERS, Buffer.from('<q/>'), never);
  const chunks: Buffer[] = [];
  for await (const chunk of answer.body) chunks.push(chunk);
  return { ...answer, text: Buffer.concat(chunks).toString() };
}

describe('an answer to a query', () => {
  test('comes without the coding that nobody asked for', async () => {
    const text = '<a/>'.repeat(50_000);
    stub.answerWith(
      sendXml(gzipSync(text), { headers: { 'content-encoding': 'gzip', success: 'true' } }),
    );
    const answer = await ask(open([stub.url]));
    expect(stub.seen[0]?.headers['accept-encoding']).toBe('identity');
    expect(answer.text).toBe(text);
    expect(answer.head.headers).toMatchObject({ success: 'true' });
    expect(answer.head.headers).not.toHaveProperty('content-encoding');
    expect(answer.head.headers).not.toHaveProperty('content-length');
    expect(answer.replica).toBe(stub.url);
  });

  test.each([
    ['cut off', gzipSync('<a/>').subarray(0, -4)],
    ['no gzip', Buffer.from('<a/>')],
  ])('whose coding is %s is a failure of the engine, told once', async (_what, body) => {
    stub.answerWith(sendXml(body, { headers: { 'content-encoding': 'gzip' } }));
    const engine = open([stub.url]);
    await expect(ask(engine)).rejects.toMatchObject({ message: expect.any(String) });
    expect(house?.failures()).toEqual(['engine-unreachable']);
    expect(house?.atEngine()).toBe(0);
  });

  test('that breaks off in its coding is a failure of the engine, told once', async () => {
    const coded = gzipSync('<a/>'.repeat(50_000));
    stub.answerWith((response) => {
      response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': coded.length });
      response.write(coded.subarray(0, 100), () => response.destroy());
    });
    const engine = open([stub.url]);
    await expect(ask(engine)).rejects.toMatchObject({ message: expect.any(String) });
    expect(house?.failures()).toEqual(['engine-unreachable']);
  });

  test.each([
    ['plain', {}, Buffer.alloc(1_000_000)],
    ['coded', { 'content-encoding': 'gzip' }, gzipSync(Buffer.alloc(1_000_000)).subarray(0, -20)],
  ])('may be left in the middle without being called a failure: %s', async (_, headers, part) => {
    const engine = open([stub.url]);
    const closed = gate();
    stub.answerWith((response) => {
      response.on('close', closed.open);
      response.writeHead(200, headers);
      response.write(part);
    });
    const { body } = await engine.ask(ADDRESSEE, HEADERS, Buffer.from('<q/>'), never);
    for await (const _ of body) break;
    await closed.opened;
    expect(house?.failures()).toEqual([]);
  });
});

describe('a query', () => {
  test('carries the session that its header names', async () => {
    const engine = open([stub.url]);
    const asked = { ...HEADERS, 'x-as-sessionid': 'one' };
    const { body } = await engine.ask(ADDRESSEE, asked, Buffer.from('<q/>'), never);
    for await (const _ of body);
    await ask(engine);
    expect(stub.seen.map(({ headers }) => headers['x-as-sessionid'])).toEqual(['one', undefined]);
  });

  test('reaches each replica in turn, and says which one answered', async () => {
    const other = await startStubEngine(sendXml('<b/>'));
    const engine = open([stub.url, other.url]);
    const answers = [await ask(engine), await ask(engine), await ask(engine)];
    expect(answers.map(({ replica }) => replica)).toEqual([stub.url, other.url, stub.url]);
    expect(answers.map(({ text }) => text)).toEqual(['<a/>', '<b/>', '<a/>']);
    await other.close();
  });

  test.each([
    ['refuses connections', `${DEAD}/xmla`],
    ['has a name that nobody knows', 'http://no-such-engine.invalid/xmla'],
  ])('goes to another replica when one %s, unseen by the client', async (_what, url) => {
    const engine = open([url, stub.url]);
    expect((await ask(engine)).replica).toBe(stub.url);
    expect(house?.failures()).toEqual([]);
  });

  test('goes to another replica when one does not speak TLS, or shows a certificate of nobody', async () => {
    const plain = await startStubEngine(() => {});
    const authority = makeAuthority();
    const { createServer } = await import('node:https');
    const { certificate, key } = authority.issue('engine');
    const { readFileSync } = await import('node:fs');
    const secure = createServer({ cert: readFileSync(certificate), key: readFileSync(key) });
    await new Promise<void>((resolve) => {
      secure.listen(0, '127.0.0.1', resolve);
    });
    const { port } = secure.address() as { port: number };
    const urls = [`https://127.0.0.1:${plain.port}/`, `https://127.0.0.1:${port}/`, stub.url];
    expect((await ask(open(urls))).replica).toBe(stub.url);
    expect(plain.seen).toEqual([]);
    secure.close();
    await plain.close();
    authority.remove();
  });

  test('that no connection carries in time has not timed out: it never reached the engine', async () => {
    const raw = await startRawEngine(() => {});
    const engine = open([raw.url.replace('http:', 'https:')], { timeout: 100 });
    await expect(ask(engine)).rejects.toMatchObject({ reason: 'engine-unreachable' });
    expect(house?.failures()).toEqual(['engine-unreachable']);
    await raw.close();
  });

  test('that must go to one replica goes to no other', async () => {
    const engine = open([`${DEAD}/xmla`, stub.url]);
    await expect(ask(engine, { replica: `${DEAD}/xmla` })).rejects.toMatchObject({
      reason: 'engine-unreachable',
    });
    expect(stub.seen).toEqual([]);
    expect((await ask(engine, { replica: stub.url })).text).toBe('<a/>');
  });

  test('for a replica that is no longer configured goes to any', async () => {
    const engine = open([stub.url]);
    expect((await ask(engine, { replica: 'http://old/xmla' })).text).toBe('<a/>');
  });

  test.each([
    ['resets the connection', (socket: Socket) => socket.resetAndDestroy()],
    ['closes it', (socket: Socket) => socket.end()],
    ['speaks another protocol', (socket: Socket) => socket.end('220 smtp.example\r\n')],
  ])('that was sent to a replica which then %s is not sent to another', async (_what, act) => {
    const broken: RawEngine = await startRawEngine(act);
    const engine = open([broken.url, stub.url]);
    await expect(ask(engine)).rejects.toMatchObject({ reason: 'engine-unreachable' });
    expect(broken.seen).toHaveLength(1);
    expect(stub.seen).toEqual([]);
    await broken.close();
  });

  test('on a connection that a replica had closed goes out once more, and then to the other one', async () => {
    const raw = await startRawEngine((socket) => socket.write(wholeAnswer('<raw/>')));
    const engine = open([raw.url, stub.url]);
    // The first of all is sent in another way than the next one.
    for (let index = 0; index < 2; index += 1) {
      expect((await ask(engine, { replica: raw.url })).text).toBe('<raw/>');
    }
    // The kept connection dies with the server; nothing listens any more when it is tried again.
    raw.answerWith((socket) => {
      void raw.close();
      socket.destroy();
    });
    const answer = await ask(engine, { again: true });
    expect([answer.replica, stub.seen.length]).toEqual([stub.url, 1]);
    expect(house?.failures()).toEqual([]);
  });

  test('with all replicas away is one failure', async () => {
    const engine = open([`${DEAD}/a`, `${DEAD}/b`]);
    await expect(ask(engine)).rejects.toMatchObject({ reason: 'engine-unreachable' });
    expect(house?.failures()).toEqual(['engine-unreachable']);
    expect(house?.atEngine()).toBe(0);
  });

  test('is asked at the path of the replica that it reaches', async () => {
    const base = stub.url.replace('/xmla', '');
    const engine = open([`${DEAD}/a/{project}`, `${base}/b/{project}/x`]);
    await ask(engine, { project: 'Food Mart', query: ['q=1'] });
    expect(stub.seen.map(({ url }) => url)).toEqual(['/b/Food%20Mart/x?q=1']);
    expect(engine.tellsProject).toBe(true);
  });
});

describe('an engine', () => {
  const idOf = (...given: Parameters<typeof engineConfig>) => open(...given).id;

  test('is the same one however its replicas are ordered, and another one with other replicas', () => {
    const id = idOf(['http://a/', 'http://b/']);
    expect(idOf(['http://b/', 'http://a/'])).toBe(id);
    expect(idOf(['http://a/'])).not.toBe(id);
    expect(idOf(['http://a/', 'http://c/'])).not.toBe(id);
  });

  test('is another one for each kind and login', () => {
    const service = { name: 'one', password: 'x' };
    const ids = [
      idOf(['http://a/']),
      idOf(['http://a/'], { kind: 'ssas' }),
      idOf(['http://a/'], { login: 'forward' }),
      idOf(['http://a/'], { login: 'service', service }),
      idOf(['http://a/'], { login: 'service', service: { ...service, name: 'two' } }),
      idOf(['http://a/'], { delegation: 'forward' }),
    ];
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.join()).not.toContain('"x"');
  });

  test('stays the same one with other timeouts, another password and another clear operation', () => {
    const service = { name: 'one', password: 'x' };
    const id = idOf(['http://a/'], { login: 'service', service });
    const changed = { timeout: 1, session_idle: 9, clear: 'kylin' } as const;
    const other = { ...service, password: 'y' };
    expect(idOf(['http://a/'], { login: 'service', service: other, ...changed })).toBe(id);
  });

  test('is another one with a certificate of another name, and the same one with a renewed one', () => {
    const authority = makeAuthority();
    const shown = (name: string) => {
      const { certificate, key } = authority.issue(name);
      return idOf(['https://a/'], { certificate, key });
    };
    const ids = [shown('one'), shown('one'), shown('two')];
    expect([ids[0] === ids[1], ids[1] === ids[2]]).toEqual([true, false]);
    authority.remove();
  });

  test('takes the time of a request from the moment before the first replica was tried', async () => {
    const clock = { at: 7, now: () => clock.at++, wall: () => 1_000 + clock.at };
    const events: unknown[] = [];
    const engine = createHttpEngine({
      config: engineConfig([`${DEAD}/`, stub.url]),
      admission: {
        enter: () => () => {},
        admit: async () => () => {},
      },
      clock: { ...systemClock, ...clock },
      emit: (event) => events.push(event),
    });
    const answer = await engine.ask(ADDRESSEE, HEADERS, Buffer.from('<q/>'), never);
    for await (const _ of answer.body);
    expect(answer.began).toEqual({ now: 7, wall: 1_008 });
    engine.close();
  });
});
