import { validateHeaderValue } from 'node:http';
import { deflateRawSync } from 'node:zlib';
import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { Counter } from 'prom-client';
import { cacheStatus } from '../../../../src/line/client.ts';
import { decodeEntry } from '../../../../src/cache/shared-entries.ts';
import { remaining } from '../../../../src/cache/memory-tier.ts';
import { withSession, type StoredAnswer } from '../../../../src/cache/stored-answer.ts';
import { NO_SEALER } from '../../../../src/common/sealing.ts';
import { sizes } from '../../../support/sizes.ts';
import { storedAnswer } from '../fakes.ts';
import { bytesIn } from '../stored-answer/session-documents.ts';
import { DESCRIPTION, ENCODINGS, headerValue, KEY, value } from './hand-made-entry.ts';
import { codePoint } from '../../../support/code-point.ts';

const MAX_BODY = 1024 * 1024;

const decode = (bytes: Buffer) => decodeEntry(KEY, bytes, MAX_BODY, NO_SEALER);

/** Mostly a sound description in which one or two fields are something else; also any JSON. */
const description = fc.oneof(
  { arbitrary: fc.json(), weight: 1 },
  {
    arbitrary: fc.dictionary(
      fc.constantFrom(...Object.keys(DESCRIPTION)),
      fc.oneof(
        fc.jsonValue(),
        fc.double(),
        fc.integer({ min: -10, max: 10 }),
        fc.string({ unit: codePoint }),
        headerValue,
        fc.record({ at: fc.oneof(fc.integer(), fc.nat({ max: 8 })), encoding: fc.jsonValue() }),
        fc.record({ at: fc.nat({ max: 8 }), encoding: fc.constantFrom(...ENCODINGS) }),
      ),
      { maxKeys: 2 },
    ),
    weight: 9,
  },
);

/** What replays an answer and what counts it do not throw. */
function expectReplayable({ body, ...replayed }: StoredAnswer): void {
  validateHeaderValue('content-type', replayed.contentType);
  if (replayed.contentLanguage !== undefined) {
    validateHeaderValue('content-language', replayed.contentLanguage);
  }
  const pieces = withSession({ ...replayed, body: bytesIn(body) }, 'id');
  expect(pieces.length).toBe(replayed.session === undefined ? 1 : 3);
  expect(pieces.every((piece) => piece.length > 0)).toBe(true);
  const counter = new Counter({ name: 'saved', help: 'saved', registers: [] });
  counter.inc(replayed.engineMilliseconds / 1000);
  const ttl = remaining({ ...replayed, body }, 1_700_000_000_000);
  expect(cacheStatus({ kind: 'hit', detail: 'redis' }, ttl)).toMatch(/; ttl=\d+;/);
}

describe('the description of a value of tier 2', () => {
  const unsound: readonly (readonly [what: string, made: Buffer])[] = [
    ['a description without a type', value({ description: { ...DESCRIPTION, contentType: 7 } })],
    [
      'no session but a place for it',
      value({ description: { ...DESCRIPTION, session: { at: 3, encoding: null } } }),
    ],
    ['texts that are a number', value({ description: '7' })],
    ...[
      ['at the first byte', { at: 0, encoding: 'utf-8' }],
      ['at the end', { at: 7, encoding: 'utf-8' }],
      ['behind the body', { at: 8, encoding: 'utf-8' }],
      ['in front of it', { at: -1, encoding: 'utf-8' }],
      ['between two bytes', { at: 1.5, encoding: 'utf-8' }],
      ['nowhere', { encoding: 'utf-8' }],
      ['in an encoding that nobody knows', { at: 3, encoding: 'utf-7' }],
      ['in an encoding named like what every object has', { at: 3, encoding: 'toString' }],
      ['in no encoding', { at: 3 }],
      ['in a list of one encoding', { at: 3, encoding: ['utf-8'] }],
      ['that is a text', 'at 3'],
    ].map(
      ([what, session]) =>
        [
          `a session place ${JSON.stringify(what)}`,
          value({ description: { ...DESCRIPTION, session } }),
        ] as const,
    ),
    [
      'a session header that is neither there nor not',
      value({ description: { ...DESCRIPTION, sessionHeader: 1 } }),
    ],
    ...(['lifetime', 'engineMilliseconds', 'bodyLength'] as const).flatMap((field) =>
      [-1, -1e9, -1e-9, 1e16, Infinity, -Infinity, NaN].map(
        (number) =>
          [
            `the ${field} ${number}`,
            value({ description: { ...DESCRIPTION, [field]: number } }),
          ] as const,
      ),
    ),
    ...[7.5, 1e-9].map(
      (number) =>
        [
          `the bodyLength ${number}`,
          value({ coding: 2, description: { ...DESCRIPTION, bodyLength: number } }),
        ] as const,
    ),
    ...(['contentType', 'contentLanguage'] as const).flatMap((field) =>
      ['a\r\nSet-Cookie: b', 'a\n', '\u0000', 'a\u007f', ' a', 'a\t', '销售', '\ud800', ' '].map(
        (text) =>
          [
            `the ${field} ${JSON.stringify(text)}`,
            value({ description: { ...DESCRIPTION, [field]: text } }),
          ] as const,
      ),
    ),
    ['an empty type', value({ description: { ...DESCRIPTION, contentType: '' } })],
  ];
  test.each(unsound)('with %s and a checksum that fits is refused', async (_what, made) => {
    expect(await decode(made)).toBe('unreadable description');
  });

  test('with an empty language is read: an engine may send one', async () => {
    const made = value({ description: { ...DESCRIPTION, contentLanguage: '' } });
    expect(await decode(made)).toEqual(storedAnswer({ contentLanguage: '' }));
  });

  test('whatever JSON describes it is refused, or can be replayed and counted', async () => {
    let sound = 0;
    await fc.assert(
      fc.asyncProperty(description, fc.constantFrom(0, 2), async (text, coding) => {
        const plain = Buffer.from('<root/>');
        const coded = coding === 0 ? plain : deflateRawSync(plain);
        const taken: number[] = [];
        const decoded = await decodeEntry(
          KEY,
          value({ description: text, coding, body: coded }),
          MAX_BODY,
          NO_SEALER,
          (bytes) => void taken.push(bytes),
        );
        expect(taken.every((bytes) => bytes >= 0 && bytes <= 2 * MAX_BODY)).toBe(true);
        if (typeof decoded === 'string') return;
        sound += 1;
        expectReplayable(decoded);
      }),
      { numRuns: 10 * sizes.propertyRuns },
    );
    // Otherwise it would have looked at nothing.
    expect(sound).toBeGreaterThan(0);
  });
});
