import { describe, expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { createInflateRaw, gunzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import {
  type Deflated,
  GZIP_FROM,
  gzipWithSession,
  makeVariant,
  variantBytes,
  withSession,
} from '../../../../src/cache/stored-answer.ts';
import { mddatasetAnswer } from '../../../support/answers.ts';
import { sizes } from '../../../support/sizes.ts';
import { answerWith, ENCODINGS, sessionIds } from './session-documents.ts';

/** A body of several KiB that compresses, with noise in it so that no two are alike. */
const body = fc
  .tuple(
    fc.uint8Array({ maxLength: 200 }),
    fc.integer({ min: 300, max: 1_500 }),
    fc.uint8Array({ maxLength: 200 }),
  )
  .map(([before, cells, after]) =>
    Buffer.concat([before, Buffer.alloc(cells * 7, '<Cell/>'), after]),
  );

const cases = fc
  .record({
    body,
    /** Of the length of the body; undefined without a place. */
    at: fc.option(fc.double({ min: 0, max: 0.5, noNaN: true }), { nil: undefined }),
    encoding: fc.constantFrom(...ENCODINGS),
    id: sessionIds,
  })
  .map(({ body: bytes, at, encoding, id }) => ({
    id,
    answer: answerWith({
      body: bytes,
      session: at === undefined ? undefined : { at: Math.floor(at * bytes.length), encoding },
    }),
  }));

type Answer = Parameters<typeof withSession>[0];
const makeGzip = ({ body: text, session }: Answer) => makeVariant(text, session?.at ?? 0);

async function madeOf(answer: Answer): Promise<Deflated> {
  const variant = await makeGzip(answer);
  if (variant === undefined) throw new Error('it did not pay');
  return variant;
}

const gzipOf = (variant: Deflated, { session }: Answer, id?: string) =>
  Buffer.concat(gzipWithSession({ body: variant, session }, id));
const identityOf = (...of: Parameters<typeof withSession>) => Buffer.concat(withSession(...of));

/** Decoded by gzip(1), which shares no code with zlib's decoder in Node. */
function decodedByGzip(bytes: Buffer): Buffer {
  const { status, stdout, stderr, error } = spawnSync('gzip', ['-dc'], {
    input: bytes,
    maxBuffer: 2 ** 30,
  });
  if (error !== undefined) throw error;
  expect([status, stderr.toString()]).toEqual([0, '']);
  return stdout;
}

describe('a compressed answer', () => {
  test('holds exactly the bytes of the plain one, whatever its body, its place and the id', async () => {
    await fc.assert(
      fc.asyncProperty(cases, sessionIds, async ({ answer, id }, other) => {
        const variant = await madeOf(answer);
        for (const one of [id, other]) {
          expect(gunzipSync(gzipOf(variant, answer, one)).equals(identityOf(answer, one))).toBe(
            true,
          );
        }
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('is read alike by another program', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(cases, { minLength: 1, maxLength: 50 }), async (several) => {
        // A file of several members holds what they hold in a row (RFC 1952 section 2.2).
        const members: Buffer[] = [];
        for (const { answer, id } of several) {
          members.push(gzipOf(await madeOf(answer), answer, id));
        }
        const plain = several.map(({ answer, id }) => identityOf(answer, id));
        expect(decodedByGzip(Buffer.concat(members)).equals(Buffer.concat(plain))).toBe(true);
      }),
      { numRuns: Math.ceil(sizes.propertyRuns / 50) },
    );
  });

  test('is one single member: some clients read no further', async () => {
    const answer = answerWith({
      body: Buffer.from(mddatasetAnswer({ cells: 50 })),
      session: { at: 300, encoding: 'utf-8' },
    });
    const bytes = gzipOf(await madeOf(answer), answer, 'abc');
    // Ten bytes in front of the deflate blocks, eight behind them (RFC 1952 section 2.3).
    const inflate = createInflateRaw();
    inflate.end(bytes.subarray(10));
    expect(await buffer(inflate)).toEqual(identityOf(answer, 'abc'));
    expect(inflate.bytesWritten).toBe(bytes.length - 18);
  });

  test.each([65_534, 65_535, 65_536, 131_070, 200_000])(
    'may have its session id behind %d bytes, which no stored block holds',
    async (at) => {
      const head = randomBytes(at);
      const answer = answerWith({
        body: Buffer.concat([head, Buffer.alloc(at * 2, '<Cell/>')]),
        session: { at, encoding: 'utf-16le' },
      });
      const variant = await madeOf(answer);
      for (const id of ['', 'a', '3a7f-20260101']) {
        const bytes = gzipOf(variant, answer, id);
        expect(gunzipSync(bytes).equals(identityOf(answer, id))).toBe(true);
        expect(decodedByGzip(bytes).equals(identityOf(answer, id))).toBe(true);
      }
    },
  );

  test('has a length that tells nothing of the session id but its length', async () => {
    const answer = answerWith({
      body: Buffer.concat([
        Buffer.from('<Session SessionId=""/>'),
        Buffer.from('3a7f-20260101 '.repeat(300)),
      ]),
      session: { at: 20, encoding: 'utf-8' },
    });
    const variant = await madeOf(answer);
    const lengths = ['3a7f-20260101', '9zq1-77777777', 'aaaaaaaaaaaaa'].map(
      (id) => gzipOf(variant, answer, id).length,
    );
    expect(new Set(lengths).size).toBe(1);
  });

  test('that shows a session is given to nobody without one', async () => {
    const answer = answerWith({
      body: Buffer.alloc(5_000, '<Cell/>'),
      session: { at: 10, encoding: 'utf-8' },
    });
    const variant = await madeOf(answer);
    expect(() => gzipOf(variant, answer, undefined)).toThrow('without one');
  });

  test('tells what memory it takes', async () => {
    const answer = answerWith({
      body: Buffer.from(mddatasetAnswer({ cells: 500 })),
      session: undefined,
    });
    const variant = await madeOf(answer);
    const { tail } = variant;
    expect(variantBytes(variant)).toBeGreaterThan(tail.length);
    expect(tail.buffer.byteLength).toBe(tail.length);
  });
});

describe('nothing is compressed that would not pay', () => {
  test('what is short', async () => {
    const text = '<Cell/>'.repeat(GZIP_FROM);
    const short = answerWith({
      body: Buffer.from(text.slice(0, GZIP_FROM - 1)),
      session: undefined,
    });
    const enough = answerWith({ body: Buffer.from(text.slice(0, GZIP_FROM)), session: undefined });
    expect(await makeGzip(short)).toBeUndefined();
    expect(await makeGzip(enough)).toBeDefined();
  });

  test('what stays as long as it was, or stands up to the session id', async () => {
    const noise = answerWith({ body: randomBytes(10_000), session: undefined });
    expect(await makeGzip(noise)).toBeUndefined();
    const text = Buffer.alloc(10_000, '<Cell/>');
    for (const [at, pays] of [
      [8_500, true],
      [9_500, false],
    ] as const) {
      const answer = answerWith({ body: text, session: { at, encoding: 'utf-8' } });
      expect((await makeGzip(answer)) !== undefined).toBe(pays);
    }
  });
});
