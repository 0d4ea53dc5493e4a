import { describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { decodeEntry, encodeEntry } from '../../../../src/cache/shared-entries.ts';
import { readHead, readMarks } from '../../../../src/cache/shared-entries.ts';
import { createSealer, NO_SEALER } from '../../../../src/common/sealing.ts';
import { storedAnswer } from '../fakes.ts';
import { BEGAN, KEY as OLD_KEY, PACKED, PLAIN } from './older-entries.ts';

const KEY = createHash('sha256').update('one').digest('base64url');
const OTHER_KEY = createHash('sha256').update('two').digest('base64url');
const SECRET = 'a secret of more than thirty-two letters';
const sealer = createSealer(SECRET);
const ANSWER = storedAnswer({
  body: Buffer.from('<root>the figures of alice</root>'),
  contentType: 'text/xml; charset=utf-8',
});
const TOKENS = ['token of everything', 'token of Sales'];

const sealed = (answer = ANSWER) => encodeEntry(KEY, answer, TOKENS, sealer);
const open = (value: Buffer, by = sealer, key = KEY) => decodeEntry(key, value, 1024 * 1024, by);

describe('a sealed entry', () => {
  test('brings back its answer to all who have the key', async () => {
    expect(await open(await sealed(), createSealer(SECRET))).toEqual(ANSWER);
    const long = { ...ANSWER, body: Buffer.alloc(50_000, '<Cell/>') };
    expect(await open(await sealed(long))).toEqual(long);
  });

  test('shows nothing of body, type and epochs', async () => {
    const value = await sealed();
    for (const secret of ['figures', 'text/xml', ...TOKENS]) {
      expect(value.includes(secret)).toBe(false);
      expect((await encodeEntry(KEY, ANSWER, TOKENS, NO_SEALER)).includes(secret)).toBe(
        !TOKENS.includes(secret),
      );
    }
  });

  test('is a miss under another key, and without one', async () => {
    const value = await sealed();
    const another = createSealer(`${SECRET}.`);
    expect(await open(value, another)).toBe('sealed otherwise');
    expect(await open(value, NO_SEALER)).toBe('sealed');
  });

  test('is asked for where there is a key: nobody can plant a plain one', async () => {
    const planted = await encodeEntry(KEY, ANSWER, TOKENS, NO_SEALER);
    expect(await open(planted)).toBe('not sealed');
    // Nor one that says that it is sealed.
    planted.writeUInt8(planted.readUInt8(5) | 0x80, 5);
    expect(await open(planted)).toBe('sealed otherwise');
  });

  test('is refused when any one byte is another, also of its plain head', async () => {
    const value = await sealed();
    for (let at = 0; at < value.length; at += 1) {
      for (const flip of [1, 0x80, 0xff]) {
        const spoilt = Buffer.from(value);
        spoilt.writeUInt8(spoilt.readUInt8(at) ^ flip, at);
        expect(await open(spoilt)).toEqual(expect.any(String));
      }
    }
  });

  test('cannot be moved to another key, nor to another moment', async () => {
    const value = await sealed();
    expect(await open(value, sealer, OTHER_KEY)).toBe('another key');
    const moved = Buffer.from(value);
    Buffer.from(OTHER_KEY, 'base64url').copy(moved, 16);
    expect(await open(moved, sealer, OTHER_KEY)).toBe('sealed otherwise');
    const younger = Buffer.from(value);
    younger.writeBigUInt64BE(BigInt(ANSWER.requestedAt + 1_000), 8);
    expect(await open(younger)).toBe('sealed otherwise');
  });

  test('is refused when it was cut at any place', async () => {
    const value = await sealed();
    for (let length = 0; length < value.length; length += 1) {
      expect(await open(value.subarray(0, length))).toEqual(expect.any(String));
    }
  });
});

describe('an entry of an older version', () => {
  test.each([
    ['as it is', PLAIN],
    ['compressed', PACKED],
  ])('is a miss, with a key and without: %s', async (_what, base64) => {
    const value = Buffer.from(base64, 'base64');
    expect(value.length).toBeGreaterThan(200);
    for (const by of [NO_SEALER, sealer]) {
      expect(await open(value, by, OLD_KEY)).toBe('another version');
    }
  });

  test('compares with one of today by the moment when its fill began', async () => {
    const old = Buffer.from(PLAIN, 'base64');
    expect(Number(old.readBigUInt64BE(8))).toBe(BEGAN);
    for (const by of [NO_SEALER, sealer]) {
      const made = await encodeEntry(KEY, storedAnswer({ requestedAt: BEGAN }), TOKENS, by);
      expect(made.subarray(8, 16)).toEqual(old.subarray(8, 16));
    }
  });
});

describe('the head of an entry', () => {
  test.each([
    ['plain', NO_SEALER],
    ['sealed', sealer],
  ])('names its epochs to a sweep, without their tokens: %s', async (_what, by) => {
    const value = await encodeEntry(KEY, ANSWER, TOKENS, by);
    const marks = TOKENS.map((token) =>
      createHash('sha256').update(token).digest('hex').slice(0, 16),
    );
    const head = readHead(value);
    if (typeof head === 'string') throw new Error(head);
    expect(head).toMatchObject({ requestedAt: 1_700_000_000_000 });
    expect(readMarks(value, head)).toEqual(marks);
  });

  test('has room for more epochs than a request can have, and says so beyond', async () => {
    const tokens = (count: number) => Array.from({ length: count }, (_, i) => `token ${i}`);
    const most = await encodeEntry(KEY, ANSWER, tokens(64), sealer);
    expect(await open(most)).toEqual(ANSWER);
    await expect(encodeEntry(KEY, ANSWER, tokens(65), sealer)).rejects.toThrow('64 epochs');
  });
});
