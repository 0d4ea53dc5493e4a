import { describe, expect, test } from '@jest/globals';
import { Readable } from 'node:stream';
import type { IncomingMessage } from 'node:http';
import { deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { readBody } from '../../../src/http/read-body.ts';

const requestOf = (chunks: readonly Buffer[], headers: Record<string, string> = {}) =>
  Object.assign(Readable.from(chunks), { headers }) as unknown as IncomingMessage;

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
