import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect } from 'node:net';
import type { SessionRecord } from '../../../src/sessions/session-store.ts';
import { until } from '../../support/http-client.ts';
import { checkpoint, quiet } from '../query-cache/fakes.ts';
import { answerWith } from '../query-cache/entries/session-documents.ts';
import {
  ANSWER,
  asked,
  FOUND,
  loggedIn,
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
  for (const event of house.events) if (event.type === 'internal-error') throw event.error;
  if (house.working() !== 0) throw new Error('something is told to be under way for ever');
});

const ANSWERED = `<Session SessionId="${SESSION}"/>stored`;
const ask = async () => `${await house.ask(asked())}`;

/** Memory has dropped what was learnt, and tier 2 holds it. */
async function droppedByMemory(...order: Parameters<House['taught']>) {
  await house.taught(...order);
  [house.stored, house.inTier2] = [undefined, ANSWER];
}

/** A request that is held between its question to tier 2 and the answer of that. */
async function held<T>(asks: () => Promise<T>) {
  const asking = checkpoint();
  house.asking = asking;
  const answer = asks();
  await asking.arrived;
  return { answer, release: asking.release };
}

test('a query whose answer tier 2 holds is answered from there before the line, and then from memory', async () => {
  await droppedByMemory();
  expect(await ask()).toBe(ANSWERED);
  expect(house.kept).toEqual([ANSWER]);
  expect(await ask()).toBe(ANSWERED);
  expect([house.line.length, house.besides]).toEqual([2, [asked().length]]);
  const told = { type: 'xmla-answered', principal: 'alice', subject: 'Execute', status: 200 };
  const bytes = ANSWER.body.length + SESSION.length;
  expect(house.events).toMatchObject([
    { ...told, outcome: { kind: 'hit', detail: 'redis' }, bytes, saved: 7, complete: true },
    { ...told, outcome: { kind: 'hit', detail: 'memory' }, bytes, saved: 7, complete: true },
  ]);
});

test('what came into memory while tier 2 was asked is the answer', async () => {
  await droppedByMemory();
  const { answer, release } = await held(ask);
  const body = Buffer.from(`${ANSWER.body}`.replace('stored', 'newer'));
  house.stored = answerWith({ ...ANSWER, body });
  release();
  expect(await answer).toContain('newer');
  expect(house.kept).toEqual([]);
  expect(house.events).toMatchObject([{ outcome: { kind: 'hit', detail: 'memory' } }]);
});

test('whoever waits for the end of what is under way waits for a question to tier 2', async () => {
  await droppedByMemory();
  const { answer, release } = await held(ask);
  expect(house.working()).toBe(1);
  release();
  await answer;
  expect(house.working()).toBe(0);
});

test('an answer of tier 2 is sent where nothing that matters has changed meanwhile', async () => {
  await droppedByMemory();
  const { answer, release } = await held(ask);
  house.session = { kind: 'known', record: { ...house.record, forwardedAt: house.clock.wall() } };
  release();
  expect(await answer).toBe(ANSWERED);
});

describe('no answer of tier 2 is sent, and the line gets the body as it came, when meanwhile', () => {
  test.each<[string, () => void]>([
    ['a purge was acknowledged, or that cannot be known', () => (house.current = false)],
    ['the login ceased to count', () => (house.login.valid = false)],
    ['the session was made dirty', () => changeRecord({ dirty: true })],
    ['the session became somebody else’s', () => changeRecord({ principal: 'bob' })],
    ['the session went to another catalog', () => changeRecord({ catalog: 'Other' })],
    ['the engine must be told that the session lives', () => house.clock.advance(999)],
    ['the session was forgotten', () => (house.session = { kind: 'unknown' })],
    ['nobody knows of the session any more', () => (house.session = undefined)],
    ['the time of the entry came to its end', () => expire()],
  ])('%s', async (_why, happen) => {
    await droppedByMemory();
    const { answer, release } = await held(ask);
    happen();
    release();
    expect(await answer).toBe('the line');
    expect(house.line.at(-1)?.body).toEqual(asked());
    expect([house.kept, house.events]).toEqual([[], []]);
  });

  test('the roles of the user changed', async () => {
    house.roles = 'roles:1,2';
    await droppedByMemory({ share: 'roles', identity: 'roles:1,2' });
    const { answer, release } = await held(ask);
    house.roles = 'roles:1';
    release();
    expect(await answer).toBe('the line');
    expect([house.kept, house.events]).toEqual([[], []]);
  });

  test('the same credentials came to mean another user, who asks first', async () => {
    await droppedByMemory();
    const { answer, release } = await held(ask);
    house.login.valid = false;
    house.login = loggedIn('bob');
    const bobs = { principal: { name: 'bob' }, identity: 'user:bob' };
    await house.learn(bobs);
    release();
    expect(await answer).toBe('the line');
    expect(house.kept).toEqual([]);
  });

  function changeRecord(other: Partial<SessionRecord>): void {
    house.session = { kind: 'known', record: { ...house.record, ...other } };
  }

  /** By the wall clock alone, so that no session needs a sign of life. */
  function expire(): void {
    house.inTier2 = undefined;
    house.clock.stepWall(2 * FOUND.ttl);
    const forwardedAt = house.clock.wall();
    house.session = { kind: 'known', record: { ...house.record, forwardedAt } };
  }
});

describe('tier 2 is not asked', () => {
  test.each<[string, () => void]>([
    ['when the epochs must be read first', () => (house.current = false)],
    ['for whose login must be checked first', () => (house.login.valid = false)],
    ['in a session that must be asked for first', () => (house.session = undefined)],
    [
      'while memory holds an answer, be it too old',
      () => (house.stored = { ...ANSWER, requestedAt: 0 }),
    ],
  ])('%s', async (_why, happen) => {
    await droppedByMemory();
    happen();
    expect(await ask()).toBe('the line');
    expect([house.besides, house.events]).toEqual([[], []]);
  });
});

describe('what tier 2 does not hold', () => {
  test('goes the line with its body, which is not recognised there, so that tier 2 is not asked a third time', async () => {
    await droppedByMemory();
    house.inTier2 = undefined;
    expect(await ask()).toBe('the line');
    const last = house.line.at(-1);
    if (last === undefined) throw new Error('the line saw no request');
    expect(last.body).toEqual(asked());
    expect(house.besides).toHaveLength(1);
    expect(house.hotPath.recognise(last.request, last.body)).toBeUndefined();
    // Another request of that connection is.
    house.current = false;
    expect(await ask()).toBe('the line');
    const next = house.line.at(-1);
    expect(next && house.hotPath.recognise(next.request, next.body)).toMatchObject({
      found: FOUND,
    });
  });

  test('is recognised on the line where it was there and may not be used at this moment', async () => {
    await droppedByMemory();
    const { answer, release } = await held(ask);
    house.current = false;
    release();
    expect(await answer).toBe('the line');
    const last = house.line.at(-1);
    expect(last && house.hotPath.recognise(last.request, last.body)).toMatchObject({
      found: FOUND,
    });
  });
});

describe('while tier 2 is asked', () => {
  /** The very request that was learnt, as it goes over the wire. */
  function written(body = asked()): Buffer {
    const { rawHeaders } = house.line.at(-1)?.request ?? { rawHeaders: [] };
    const lines = rawHeaders.map((text, at) => text + (at % 2 === 0 ? ': ' : '\r\n'));
    return Buffer.concat([Buffer.from(`POST /mdx/xmla HTTP/1.1\r\n${lines.join('')}\r\n`), body]);
  }

  async function connected() {
    const socket = connect(house.port, '127.0.0.1').setNoDelay();
    let received = '';
    socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')));
    socket.on('error', () => {});
    await once(socket, 'connect');
    return { socket, received: () => received };
  }

  test('a client that goes away is told of once, and nothing goes the line', async () => {
    await droppedByMemory();
    const { socket } = await connected();
    const taken = Promise.withResolvers<[IncomingMessage, ServerResponse]>();
    house.onTaken = (...exchange) => taken.resolve(exchange);
    const { release } = await held(async () => void socket.write(written()));
    const [, response] = await taken.promise;
    socket.destroy();
    await until(() => response.destroyed);
    release();
    await until(() => house.events.length > 0);
    await quiet();
    expect(house.events).toEqual([
      {
        type: 'xmla-answered',
        id: 'id',
        principal: 'alice',
        project: '',
        subject: 'Execute',
        why: '',
        outcome: { kind: 'gateway', detail: 'client-gone' },
        status: 499,
        bytes: 0,
        milliseconds: 0,
        saved: 0,
        complete: false,
      },
    ]);
    expect([house.line.length, house.kept, house.sending]).toEqual([2, [], []]);
  });

  test('the next request of its connection waits for its turn, also when it is answered from memory', async () => {
    await droppedByMemory();
    const { socket, received } = await connected();
    const { release } = await held(async () => void socket.write(written()));
    const body = Buffer.from(`${ANSWER.body}`.replace('stored', 'second'));
    house.inTier2 = answerWith({ ...ANSWER, body });
    house.stored = house.inTier2;
    socket.write(written());
    await quiet();
    expect(received()).toBe('');
    house.stored = undefined;
    release();
    await until(() => received().includes('second'));
    expect(received().indexOf('stored')).toBeGreaterThan(0);
    expect(received().indexOf('stored')).toBeLessThan(received().indexOf('second'));
    expect(received().match(/HTTP\/1.1 200/g)).toHaveLength(2);
    await until(() => house.events.length === 2);
    expect(house.sending).toEqual([]);
    socket.destroy();
  });
});
