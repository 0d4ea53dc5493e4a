import { createHash, randomBytes } from 'node:crypto';
import { Readable, type Transform } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { crc32, createDeflateRaw, deflateRawSync } from 'node:zlib';
import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { decodeEntry, encodeEntry } from '../../../../src/cache/shared-entries.ts';
import {
  deflated,
  keepText,
  LONG,
  type SessionGap,
  type StoredAnswer,
} from '../../../../src/cache/stored-answer.ts';
import { NO_SEALER } from '../../../../src/common/sealing.ts';
import { sizes } from '../../../support/sizes.ts';
import { storedAnswer } from '../fakes.ts';
import { DESCRIPTION, ENCODINGS, headerValue, KEY, TOKENS, value } from './hand-made-entry.ts';

const OTHER_KEY = createHash('sha256').update('two').digest('base64url');
const MIB = 1024 * 1024;
const MAX_BODY = MIB;

const body = fc.oneof(
  fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
  // Around and above the size from which bodies are compressed; one that compresses, one that does not.
  fc.nat({ max: 8_000 }).map((length) => Buffer.alloc(length, '<Cell/>')),
  fc.nat({ max: 8_000 }).map((length) => randomBytes(length)),
);
const place = (length: number): fc.Arbitrary<SessionGap | undefined> =>
  length < 2
    ? fc.constant(undefined)
    : fc.option(
        fc.record({
          at: fc.integer({ min: 1, max: length - 1 }),
          encoding: fc.constantFrom(...ENCODINGS),
        }),
        { nil: undefined },
      );
const amount = fc.double({ noNaN: true, min: 0, max: Number.MAX_SAFE_INTEGER });
const answer: fc.Arbitrary<StoredAnswer> = body.chain((bytes) =>
  fc.record({
    body: fc.constant(bytes),
    session: place(bytes.length),
    sessionHeader: fc.boolean(),
    contentType: headerValue.filter((text) => text !== ''),
    contentLanguage: fc.option(headerValue, { nil: undefined }),
    requestedAt: fc.maxSafeNat(),
    lifetime: amount,
    engineMilliseconds: amount,
  }),
);

const decode = (bytes: Buffer, key = KEY) => decodeEntry(key, bytes, MAX_BODY, NO_SEALER);
const encode = (kept: StoredAnswer) => encodeEntry(KEY, kept, TOKENS, NO_SEALER);

/** So many MiB of zeros, compressed without ever being in memory. */
function zerosPacked(mebibytes: number, packer: Transform): Promise<Buffer> {
  const zeros = Buffer.alloc(MIB);
  return buffer(Readable.from(Array(mebibytes).fill(zeros)).pipe(packer));
}

describe('a value of tier 2', () => {
  test('brings back the answer it was made of, to the last bit', async () => {
    await fc.assert(
      fc.asyncProperty(answer, async (kept) => {
        expect(await decode(await encode(kept))).toEqual(kept);
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('is read as documented, when it was made by hand', async () => {
    expect(await decode(value())).toEqual(storedAnswer());
    const packed = value({ coding: 2, body: deflateRawSync(Buffer.from('<root/>')) });
    expect(await decode(packed)).toEqual(storedAnswer());
    const [front, rest] = [Buffer.from('<root a=""'), Buffer.alloc(300_000, ' <a/>')];
    const session = { at: front.length, encoding: 'utf-8' } as const;
    const bodyLength = front.length + rest.length;
    const tail = deflateRawSync(rest);
    const long = value({
      coding: 3,
      description: { ...DESCRIPTION, session, bodyLength, tailCrc: crc32(rest) },
      body: Buffer.concat([front, tail]),
    });
    expect(await decode(long)).toEqual(
      storedAnswer({ session, body: deflated(bodyLength, front, tail, crc32(rest)) }),
    );
  });

  test.each([
    ['a place', { start: 100, end: 140, leavesGap: true }],
    ['a whole session', { start: 100, end: 240, leavesGap: false }],
  ])(
    'brings back a long text that is, less %s, as short as those that lie plain',
    async (_what, cut) => {
      const text = keepText(() => {});
      text.write(Buffer.alloc(LONG + 1, '<Cell/>'));
      const body = await text.end(cut);
      expect([Buffer.isBuffer(body), body.length <= LONG]).toEqual([false, true]);
      const session = cut.leavesGap ? ({ at: cut.start, encoding: 'utf-8' } as const) : undefined;
      const kept = storedAnswer({ body, session });
      expect(await decode(await encode(kept))).toEqual(kept);
    },
  );

  test('is made as documented', async () => {
    const made = value({ description: DESCRIPTION });
    expect(await encode(storedAnswer())).toEqual(made);
  });

  test('is not longer than its body by more than its head and its description', async () => {
    const noise = randomBytes(100_000);
    const made = await encode(storedAnswer({ body: noise }));
    expect(made.length - noise.length).toBeLessThan(300);
    expect(await decode(made)).toEqual(storedAnswer({ body: noise }));
  });

  test('holds a short body as it is, so that nobody needs to decompress it, and a longer one compressed', async () => {
    const lengthOf = async (length: number) =>
      (await encode(storedAnswer({ body: Buffer.alloc(length, '<Cell/>') }))).length;
    expect(await lengthOf(4_095)).toBeGreaterThan(4_095);
    expect(await lengthOf(4_096)).toBeLessThan(400);
  });

  test('says where a session id belongs, and in which encoding', async () => {
    const made = value({
      description: {
        ...DESCRIPTION,
        session: { at: 3, encoding: 'utf-16be' },
        sessionHeader: true,
      },
    });
    expect(await decode(made)).toEqual(
      storedAnswer({ session: { at: 3, encoding: 'utf-16be' }, sessionHeader: true }),
    );
  });

  test('holds at bytes 8 to 15 when its fill began, so that later ones compare as greater', async () => {
    await fc.assert(
      fc.asyncProperty(fc.maxSafeNat(), fc.maxSafeNat(), async (a, b) => {
        const [first, second] = await Promise.all(
          [a, b].map(async (requestedAt) =>
            (await encode(storedAnswer({ requestedAt }))).subarray(8, 16),
          ),
        );
        expect(Buffer.compare(first ?? Buffer.of(), second ?? Buffer.of())).toBe(Math.sign(a - b));
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test.each([100, 5_000])(
    'of %i bytes of body is refused when any one byte is another',
    async (size) => {
      const whole = await encode(storedAnswer({ body: Buffer.alloc(size, '<Cell/>') }));
      for (let at = 0; at < whole.length; at += 1) {
        for (const flip of [1, 0x80, 0xff]) {
          const spoilt = Buffer.from(whole);
          spoilt.writeUInt8(spoilt.readUInt8(at) ^ flip, at);
          expect(await decode(spoilt)).toEqual(expect.any(String));
        }
      }
    },
  );

  test('is refused when it was cut at any place, or something hangs on to it', async () => {
    const whole = await encode(storedAnswer({ body: Buffer.alloc(2_000, '<Cell/>') }));
    for (let length = 0; length < whole.length; length += 1) {
      expect(await decode(whole.subarray(0, length))).toEqual(expect.any(String));
    }
    expect(await decode(Buffer.concat([whole, Buffer.of(0)]))).toEqual(expect.any(String));
  });

  test('is refused, never thrown over, whatever bytes it is', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (bytes) => {
        expect(await decode(Buffer.from(bytes))).toEqual(expect.any(String));
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('never answers for another key', async () => {
    const whole = await encode(storedAnswer());
    expect(await decode(whole, OTHER_KEY)).toBe('another key');
  });

  const unsound: readonly (readonly [what: string, made: Buffer, why: string])[] = [
    ['another magic', value({ magic: 1 }), 'not an entry of this gateway'],
    ['an older version', value({ version: 5 }), 'another version'],
    ['a later version', value({ version: 7 }), 'another version'],
    ['a seal that it has not', value({ coding: 0x80 }), 'sealed'],
    ['more epochs than it has', value({ marks: 60 }), 'too short'],
    ['more epochs than anything has', value({ marks: 65 }), 'too many epochs'],
    ['fewer epochs than it has', value({ marks: 1 }), 'unreadable description'],
    [
      'more than the nothing that it claims',
      value({
        coding: 2,
        description: { ...DESCRIPTION, bodyLength: 0 },
        body: deflateRawSync(Buffer.from('<root/>')),
      }),
      'unreadable body',
    ],
    ['a coding that nobody knows', value({ coding: 4 }), 'unreadable body'],
    ['the coding of long texts, and no checksum of it', value({ coding: 3 }), 'unreadable body'],
    ['a description that is no JSON', value({ description: '{' }), 'unreadable description'],
    ['a description that is null', value({ description: 'null' }), 'unreadable description'],
    ['a description without an end', value({ describedLength: 60_000 }), 'unreadable description'],
    [
      'a description that goes beyond its end',
      value({ describedLength: 1_000, body: Buffer.of() }),
      'unreadable description',
    ],
    ['a description of nothing', value({ describedLength: 0 }), 'unreadable description'],
    ['a description without texts', value({ describedLength: 32 }), 'unreadable description'],
    ['a body that is too short', value({ body: Buffer.from('<root') }), 'unreadable body'],
    ['a body that is too long', value({ body: Buffer.from('<root/> ') }), 'unreadable body'],
    ['a body that is not deflate as its coding says', value({ coding: 2 }), 'unreadable body'],
  ];
  test.each(unsound)('with %s and a checksum that fits is refused', async (_what, made, why) => {
    expect(await decode(made)).toBe(why);
  });

  test('that would inflate beyond the bytes that it claims is refused, without the memory for it', async () => {
    const packed = await zerosPacked(512, createDeflateRaw());
    expect(packed.length).toBeLessThan(MIB);
    const most = process.resourceUsage().maxRSS;
    // The short one is undone at once, the other on the thread pool.
    for (const bodyLength of [65_536, 100_000]) {
      const made = value({
        coding: 2,
        description: { ...DESCRIPTION, bodyLength },
        body: packed,
      });
      expect([bodyLength, await decode(made)]).toEqual([bodyLength, 'unreadable body']);
      // In KiB. The whole would be 512 MiB.
      expect(process.resourceUsage().maxRSS - most).toBeLessThan(128 * 1024);
    }
  });

  test('that is undone as a whole is refused when it is so long that it would lie compressed', async () => {
    const ofLength = (bodyLength: number) =>
      value({
        coding: 2,
        description: { ...DESCRIPTION, bodyLength },
        body: deflateRawSync(Buffer.alloc(bodyLength)),
      });
    expect(await decode(ofLength(256 * 1024))).toMatchObject({ contentType: 'text/xml' });
    expect(await decode(ofLength(256 * 1024 + 1))).toBe('unreadable body');
  });

  test('that claims to be larger than an entry may be is refused before it is inflated', async () => {
    const made = value({
      coding: 3,
      description: { ...DESCRIPTION, bodyLength: MAX_BODY + 1, tailCrc: 0 },
      body: deflateRawSync(Buffer.alloc(MAX_BODY + 1)),
    });
    expect(await decode(made)).toBe('larger than cache.max_entry');
  });
});
