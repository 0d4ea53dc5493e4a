import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import type { IncomingMessage } from 'node:http';
import { deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { readBody } from '../../../src/http/read-body.ts';
import { bodyAccount } from '../cache/fakes.ts';

const requestOf = (chunks: readonly Buffer[], headers: Record<string, string> = {}) =>
  Object.assign(Readable.from(chunks), { headers }) as unknown as IncomingMessage;

/** So long a request waits for memory (ms). */
const patience = () => 90_000;
const LIMIT = 1000;
const fits = Buffer.alloc(LIMIT, 'a');
const tooLong = Buffer.alloc(LIMIT + 1, 'a');

describe('the limit of a request body', () => {
  test.each([
    ['as it is', fits, ''],
    ['gzip', gzipSync(fits), 'gzip'],
    ['deflate', deflateSync(fits), 'deflate'],
    ['raw deflate', deflateRawSync(fits), 'deflate'],
  ])('lets through what just fits (%s)', async (_what, body, coding) => {
    expect(await readBody(requestOf([body], { 'content-encoding': coding }), LIMIT)).toEqual(fits);
  });

  test.each([
    ['as it is', tooLong, ''],
    ['gzip', gzipSync(tooLong), 'gzip'],
    ['deflate', deflateSync(tooLong), 'deflate'],
    ['raw deflate', deflateRawSync(tooLong), 'deflate'],
  ])('stops what is one byte longer (%s)', async (_what, body, coding) => {
    await expect(
      readBody(requestOf([body], { 'content-encoding': coding }), LIMIT),
    ).rejects.toMatchObject({ reason: 'too-big', status: 413 });
  });

  test('counts all chunks together', async () => {
    const chunks = Array.from({ length: 11 }, () => Buffer.alloc(100));
    await expect(readBody(requestOf(chunks), LIMIT)).rejects.toMatchObject({ reason: 'too-big' });
    expect(await readBody(requestOf(chunks.slice(1)), LIMIT)).toHaveLength(LIMIT);
  });

  test('is read from the length that is announced, before a byte is read', async () => {
    const request = requestOf([fits], { 'content-length': String(LIMIT + 1) });
    await expect(readBody(request, LIMIT)).rejects.toMatchObject({ reason: 'too-big' });
    expect(request.readableDidRead).toBe(false);
  });
});

test('a body that breaks off is the client’s doing', async () => {
  const broken = new Readable({ read() {} });
  broken.push(fits.subarray(0, 10));
  const reading = readBody(
    Object.assign(broken, { headers: {} }) as unknown as IncomingMessage,
    LIMIT,
  );
  broken.destroy(new Error('aborted'));
  await expect(reading).rejects.toMatchObject({ reason: 'client-gone' });
});

test('several gzip members are one body, as RFC 1952 §2.2 says', async () => {
  const body = Buffer.concat([gzipSync('ab'), gzipSync('cd')]);
  const read = await readBody(requestOf([body], { 'content-encoding': 'gzip' }), LIMIT);
  expect(read.toString()).toBe('abcd');
});

describe('a client that stands still', () => {
  afterEach(() => {
    jest.useRealTimers();
  });

  test('is broken off after a minute of silence, and not while it goes on', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] });
    const slow = new Readable({ read() {} });
    const request = Object.assign(slow, { headers: {} }) as unknown as IncomingMessage;
    let failure: unknown;
    const reading = readBody(request, LIMIT).catch((error: unknown) => (failure = error));
    for (let sent = 0; sent < 3; sent += 1) {
      slow.push('a');
      await setImmediate();
      jest.advanceTimersByTime(59_999);
      await setImmediate();
      expect([slow.destroyed, failure]).toEqual([false, undefined]);
    }
    jest.advanceTimersByTime(1);
    await reading;
    expect(failure).toMatchObject({ reason: 'client-gone' });
    expect(slow.destroyed).toBe(true);
    expect(jest.getTimerCount()).toBe(0);
  });

  test('and whose body is read leaves nothing that waits', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] });
    expect(await readBody(requestOf([fits]), LIMIT)).toEqual(fits);
    await expect(readBody(requestOf([tooLong]), LIMIT)).rejects.toMatchObject({ status: 413 });
    expect(jest.getTimerCount()).toBe(0);
  });
});

test('a long body comes whole, and leaves the event loop to others while it is put together', async () => {
  const chunks = Array.from({ length: 200 }, (_none, number) => Buffer.alloc(65_000, `${number},`));
  let atEnd = 0;
  let turns = 0;
  const request = Object.assign(
    Readable.from(
      (function* () {
        yield* chunks;
        atEnd = turns;
      })(),
    ),
    { headers: {} },
  ) as unknown as IncomingMessage;
  const counting = new AbortController();
  const counted = (async () => {
    for (; !counting.signal.aborted; turns += 1) await setImmediate();
  })();
  const body = await readBody(request, 20_000_000);
  const afterwards = turns - atEnd;
  counting.abort();
  await counted;
  expect(body.equals(Buffer.concat(chunks))).toBe(true);
  // 13 MB in pieces of 2 MiB are seven, between which others have six turns; the first may begin in the same turn.
  expect(afterwards).toBeGreaterThanOrEqual(5);
});

describe('the memory of a request body', () => {
  const LONG_LIMIT = 10_000_000;
  const signal = new AbortController().signal;

  test.each([
    ['as it is', (body: Buffer) => body, ''],
    ['gzip', (body: Buffer) => gzipSync(body), 'gzip'],
    ['raw deflate', (body: Buffer) => deflateRawSync(body), 'deflate'],
  ])(
    'is counted as it comes, and then by the size of what was read (%s)',
    async (_what, code, coding) => {
      const account = bodyAccount();
      const whole = Buffer.alloc(5_000_000, 'some text that repeats itself,');
      const coded = code(whole);
      const half = coded.length >> 1;
      const request = Object.assign(new Readable({ read() {} }), {
        headers: { 'content-encoding': coding, 'content-length': String(coded.length) },
      }) as unknown as IncomingMessage;
      const room = account.request('alice', patience);
      const used = () => account.usage().bytes.request;
      const reading = readBody(request, LONG_LIMIT, { room, signal });
      await setImmediate();
      // What is only announced takes nothing.
      expect(used()).toBe(0);
      request.push(coded.subarray(0, half));
      await setImmediate();
      expect(used()).toBe(half);
      request.push(coded.subarray(half));
      request.push(null);
      const body = await reading;
      expect([body.length, used()]).toEqual([whole.length, whole.length]);
      room.release();
      expect(used()).toBe(0);
    },
  );

  /** An account in which the first may go beyond the limit, so that others wait for it. */
  function crowded(queue?: number) {
    const account = bodyAccount(1_600, queue);
    const [first, beyond] = [
      account.request('alice', patience, 100_000),
      account.request('alice', patience, 100_000),
    ];
    expect([first.grow(1_100, signal), beyond.grow(1_500, signal)]).toEqual([undefined, undefined]);
    return {
      account,
      end() {
        first.release();
        beyond.release();
      },
    };
  }

  test('is waited for, without that counting as the client’s silence', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] });
    const { account, end } = crowded();
    const request = Object.assign(new Readable({ read() {} }), { headers: {} });
    const room = account.request('alice', patience);
    const reading = readBody(request as unknown as IncomingMessage, LIMIT, { room, signal });
    // The first piece finds room among the small ones, the second waits.
    for (const size of [50, 450]) {
      request.push(Buffer.alloc(size));
      await setImmediate();
    }
    // Another waits for what this one holds, which is not its fault.
    const other = account.request('alice', patience, 100_000);
    const waits = other.grow(10, signal);
    // Longer than a client may be silent.
    jest.advanceTimersByTime(89_999);
    expect([account.usage().waiting, request.destroyed]).toEqual([2, false]);
    end();
    await waits;
    await setImmediate();
    jest.advanceTimersByTime(59_999);
    expect(request.destroyed).toBe(false);
    request.push(null);
    expect(await reading).toHaveLength(500);
    expect(jest.getTimerCount()).toBe(0);
    jest.useRealTimers();
  });

  test('is refused when it has waited as long as it may', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] });
    const { account, end } = crowded();
    const request = Object.assign(new Readable({ read() {} }), { headers: {} });
    const room = account.request('alice', patience);
    const reading = readBody(request as unknown as IncomingMessage, LIMIT, { room, signal });
    const failed = reading.catch((error: unknown) => error);
    for (const size of [50, 450]) {
      request.push(Buffer.alloc(size));
      await setImmediate();
    }
    jest.advanceTimersByTime(90_000);
    expect(await failed).toMatchObject({ reason: 'overloaded', status: 503 });
    room.release();
    end();
    expect(account.usage()).toMatchObject({ bytes: { request: 0 }, waiting: 0 });
    expect(jest.getTimerCount()).toBe(0);
    jest.useRealTimers();
  });

  test('is not taken by a client that sends slowly while others wait for it', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] });
    const account = bodyAccount(1_600);
    const slow = Object.assign(new Readable({ read() {} }), { headers: {} });
    const room = account.request('alice', patience, 100_000);
    const reading = readBody(slow as unknown as IncomingMessage, LONG_LIMIT, { room, signal });
    const failed = reading.catch((error: unknown) => error);
    for (let sent = 0; sent < 30; sent += 1) {
      slow.push(Buffer.alloc(100));
      await setImmediate();
      jest.advanceTimersByTime(1_000);
    }
    // As long as nobody waits it may take its time.
    expect([slow.destroyed, account.usage().bytes.request]).toEqual([false, 3_000]);
    const other = account.request('bob', patience, 100_000);
    const waits = other.grow(500, signal);
    expect(account.usage().waiting).toBe(1);
    jest.advanceTimersByTime(10_000);
    expect(await failed).toMatchObject({ reason: 'client-gone' });
    room.release();
    await waits;
    expect(account.usage().bytes.request).toBe(500);
    expect(jest.getTimerCount()).toBe(0);
    jest.useRealTimers();
  });

  test('is not kept by a client that now and then waits for some itself and else sends slowly', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] });
    const { account, end } = crowded();
    const slow = Object.assign(new Readable({ read() {} }), { headers: {} });
    const room = account.request('bob', patience);
    const reading = readBody(slow as unknown as IncomingMessage, LONG_LIMIT, { room, signal });
    const failed = reading.catch((error: unknown) => error);
    for (const size of [10, 100]) {
      slow.push(Buffer.alloc(size));
      await setImmediate();
    }
    jest.advanceTimersByTime(4_000);
    expect(account.usage().waiting).toBe(1);
    end();
    await setImmediate();
    // From now on it sends nothing, and others wait.
    const [beyond, other] = [
      account.request('carol', patience, 100_000),
      account.request('dave', patience, 100_000),
    ];
    expect(beyond.grow(2_000, signal)).toBeUndefined();
    const waits = other.grow(500, signal);
    jest.advanceTimersByTime(6_000);
    expect([slow.destroyed, account.usage().waiting]).toEqual([true, 1]);
    expect(await failed).toMatchObject({ reason: 'client-gone' });
    for (const share of [room, beyond]) share.release();
    await waits;
    expect(account.usage().bytes.request).toBe(500);
    jest.useRealTimers();
  });

  test('is refused when too many wait for it, and given back when the client goes away', async () => {
    const { account, end } = crowded(1);
    const gone = new AbortController();
    const [waiting, late] = [
      account.request('alice', patience),
      account.request('alice', patience),
    ];
    const reading = readBody(requestOf([fits]), LIMIT, { room: waiting, signal: gone.signal });
    await setImmediate();
    await expect(readBody(requestOf([fits]), LIMIT, { room: late, signal })).rejects.toMatchObject({
      reason: 'overloaded',
      headers: { 'retry-after': '5' },
    });
    gone.abort(new Error('gone'));
    await expect(reading).rejects.toMatchObject({ reason: 'client-gone' });
    for (const room of [waiting, late]) room.release();
    end();
    expect(account.usage()).toMatchObject({ bytes: { request: 0 }, waiting: 0 });
  });
});
