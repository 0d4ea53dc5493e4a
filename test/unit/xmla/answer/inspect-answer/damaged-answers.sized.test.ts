import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { XmlDocument, XmlError } from 'libxml2-wasm';
import type { AnswerSession } from '../../../../../src/xmla/answer/answer-reader.ts';
import { inspectAnswer } from '../../../../../src/xmla/answer/inspect-answer.ts';
import type { Inspection } from '../../../../../src/xmla/answer/inspect-answer.ts';
import { fuzzSeed } from '../../../../support/mutate.ts';
import { cutElement, cutSession } from '../../../cache/stored-answer/session-documents.ts';
import { withSession } from '../../../../../src/cache/stored-answer.ts';
import { sizes } from '../../../../support/sizes.ts';
import { BAD, GOOD, SESSIONS } from './answer-samples.ts';
import type { Sample } from './answer-samples.ts';
import { mutated } from './damaged-answers.ts';

const errorsAsData = ['java-exception', 'error-dataset'] as const;

function inspect(method: Sample['method'], chunks: readonly Uint8Array[]): Inspection {
  const inspector = inspectAnswer({ contentType: 'text/xml', method, errorsAsData });
  for (const chunk of chunks) inspector.write(chunk);
  return inspector.end();
}

function wellFormedByLibxml2(bytes: Buffer): boolean {
  try {
    XmlDocument.fromBuffer(bytes).dispose();
    return true;
  } catch (error) {
    if (error instanceof XmlError) return false;
    throw error;
  }
}

describe('an answer that was damaged on its way', () => {
  test.each(GOOD)('$name: is whole and well-formed to begin with', ({ method, bytes }) => {
    expect(inspect(method, [bytes]).ok).toBe(true);
    expect(wellFormedByLibxml2(bytes)).toBe(true);
  });

  test.each(BAD)('$name: is refused to begin with', ({ method, bytes }) => {
    expect(inspect(method, [bytes]).ok).toBe(false);
  });

  test('is never accepted when libxml2 calls it ill-formed', () => {
    const seed = fuzzSeed();
    let accepted = 0;
    let illFormed = 0;
    fc.assert(
      fc.property(mutated(GOOD), ({ method, bytes }) => {
        const wellFormed = wellFormedByLibxml2(bytes);
        const accepts = inspect(method, [bytes]).ok;
        if (accepts) accepted += 1;
        if (!wellFormed) illFormed += 1;
        expect(accepts && !wellFormed).toBe(false);
      }),
      { numRuns: sizes.fuzzedAnswers, seed },
    );
    const counts = { seed, runs: sizes.fuzzedAnswers, accepted, illFormed };
    console.log(`fuzzed answers: ${JSON.stringify(counts)}`);
    // Both kinds must have been there in number, or nothing was compared.
    expect(accepted).toBeGreaterThan(sizes.fuzzedAnswers / 40);
    expect(illFormed).toBeGreaterThan(sizes.fuzzedAnswers / 40);
  });

  test.each(GOOD)('$name: is refused wherever it is cut off', ({ method, bytes }) => {
    const text = bytes.toString('latin1');
    const end = text.lastIndexOf('>') + (text.includes('\0') && !text.startsWith('\xfe') ? 2 : 1);
    const step = sizes.cutStep;
    for (let length = 0; length < end; length += end - length > 60 ? step : 1) {
      expect([length, inspect(method, [bytes.subarray(0, length)]).ok]).toEqual([length, false]);
    }
  });

  test('gets the same verdict where it was cut in front of a byte that its encoding forbids', () => {
    const bytes = Buffer.from('<![CDATA[\xFF\xFE]]>', 'latin1');
    const whole = inspect('Discover', [bytes]);
    for (let at = 1; at < bytes.length; at += 1) {
      expect(inspect('Discover', [bytes.subarray(0, at), bytes.subarray(at)])).toEqual(whole);
    }
  });

  test('gets the same verdict, and the same session, however the network cuts it into chunks', () => {
    const seed = fuzzSeed();
    console.log(`cut answers: ${JSON.stringify({ seed })}`);
    const cuts = fc.array(fc.nat({ max: 400 }), { maxLength: 12 });
    fc.assert(
      fc.property(
        fc.oneof(mutated(GOOD), mutated(BAD), fc.constantFrom(...GOOD, ...BAD)),
        cuts,
        ({ method, bytes }, lengths) => {
          const chunks: Buffer[] = [];
          let at = 0;
          for (const length of lengths) {
            chunks.push(bytes.subarray(at, at + length));
            at += length;
          }
          chunks.push(bytes.subarray(at));
          expect(inspect(method, chunks)).toEqual(inspect(method, [bytes]));
        },
      ),
      { numRuns: Math.ceil(sizes.fuzzedAnswers / 5), seed },
    );
  });

  test.each([...GOOD, ...BAD])('$name: gets the same verdict byte by byte', ({ method, bytes }) => {
    const single = Array.from(bytes, (byte) => Uint8Array.of(byte));
    expect(inspect(method, single)).toEqual(inspect(method, [bytes]));
  });
});

/** What the cache makes of an answer for a client whose session has another id. */
function spliced(bytes: Buffer, session: AnswerSession, id: string): Buffer {
  const { body, session: place } = cutSession(bytes, session);
  return Buffer.concat(withSession({ body, session: place }, id));
}

describe('the place of a session', () => {
  const ids = fc
    .oneof(fc.string({ minLength: 1, unit: 'grapheme' }), fc.constantFrom('"', "'", '<&>', 'é😀'))
    .filter((id) => !/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/u.test(id));

  test('takes any other id, and the answer stays one', () => {
    const seed = fuzzSeed();
    let replaced = 0;
    fc.assert(
      fc.property(
        fc.oneof(mutated(SESSIONS), fc.constantFrom(...SESSIONS)),
        ids,
        ({ method, bytes }, id) => {
          const before = inspect(method, [bytes]);
          if (!before.ok || before.session === undefined) return;
          replaced += 1;
          const { session } = before;
          const other = spliced(bytes, session, id);
          expect(wellFormedByLibxml2(other)).toBe(true);
          const moved = other.length - bytes.length;
          expect(inspect(method, [other])).toEqual({
            ok: true,
            session: {
              ...session,
              id,
              value: { start: session.value.start, end: session.value.end + moved },
              element: { start: session.element.start, end: session.element.end + moved },
            },
          });
          // Without the element it is an answer without a session.
          const without = cutElement(bytes, session);
          expect(wellFormedByLibxml2(without)).toBe(true);
          expect(inspect(method, [without])).toEqual({ ok: true, session: undefined });
        },
      ),
      { numRuns: sizes.fuzzedAnswers, seed },
    );
    console.log(
      `replaced sessions: ${JSON.stringify({ seed, runs: sizes.fuzzedAnswers, replaced })}`,
    );
    expect(replaced).toBeGreaterThan(sizes.fuzzedAnswers / 10);
  });
});
