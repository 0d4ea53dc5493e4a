import { describe, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { deflateRawSync } from 'node:zlib';
import { createMemoryTier } from '../../../../src/cache/memory-tier.ts';
import { bytesOf, deflated, type StoredAnswer } from '../../../../src/cache/stored-answer.ts';
import { until } from '../../../support/http-client.ts';
import { bodyAccount, handClock, storedAnswer } from '../fakes.ts';

const MAX_BYTES = 32 * 300_000;
/** What stands before the place of the session id. */
const FRONT = 1_000;

/** A text of which a quarter compresses to nothing, and the answer in which it lies compressed. */
function longAnswer(length: number, front = FRONT) {
  const text = Buffer.concat([randomBytes((3 * length) / 4), Buffer.alloc(length / 4)]);
  const tail = deflateRawSync(text.subarray(front));
  const body = deflated(length, text.subarray(0, front), tail, 0);
  return { text, answer: storedAnswer({ body }) };
}

function tierOf(account = bodyAccount()) {
  const tier = createMemoryTier({ maxBytes: MAX_BYTES, clock: handClock(), account });
  /** As a client that takes no gzip. */
  const hit = (key: string, answer: StoredAnswer) => {
    tier.get(key, true);
    return tier.textOf(key, answer, false);
  };
  const isPlain = (key: string, answer: StoredAnswer) =>
    Buffer.isBuffer(tier.textOf(key, answer, false));
  return { tier, hit, isPlain };
}

describe('a long answer that lies compressed', () => {
  test.each([0, FRONT])(
    'is there as it is too from its second hit on without gzip, and counts (%d bytes in front)',
    async (front) => {
      const { tier, hit, isPlain } = tierOf();
      const { text, answer } = longAnswer(300_000, front);
      tier.set('key', answer, 'digests');
      const before = tier.usage().bytes;
      expect(hit('key', answer)).toBe(answer.body);
      // Whoever looks without a hit changes nothing.
      expect([isPlain('key', answer), tier.usage().bytes]).toEqual([false, before]);
      expect(hit('key', answer)).toBe(answer.body);
      await until(() => isPlain('key', answer));
      expect(text.equals(hit('key', answer) as Buffer)).toBe(true);
      expect(tier.usage()).toEqual({ entries: 1, bytes: before + text.length });
      expect(tier.textOf('key', answer, true)).toBe(answer.body);
      tier.clear();
      expect(tier.usage().bytes).toBe(0);
      expect(isPlain('key', answer)).toBe(false);
    },
  );

  test('is not kept as it is where that takes more than a 32nd of the memory', async () => {
    const { tier, hit, isPlain } = tierOf();
    const [tooLong, other] = [longAnswer(300_004).answer, longAnswer(200_000).answer];
    for (const [key, answer] of Object.entries({ tooLong, other })) {
      tier.set(key, answer, 'digests');
      for (let hits = 0; hits < 3; hits += 1) hit(key, answer);
    }
    await until(() => isPlain('other', other));
    expect(isPlain('tooLong', tooLong)).toBe(false);
  });

  test('leaves half of the memory to what lies compressed, until one of them goes', async () => {
    const { tier, hit, isPlain } = tierOf();
    const answers = Array.from({ length: 17 }, () => longAnswer(300_000).answer);
    const kept = answers.slice(0, 16);
    for (const [at, answer] of kept.entries()) {
      tier.set(`${at}`, { ...answer, body: small(answer) }, 'digests');
    }
    for (const at of kept.keys()) {
      const answer = tier.get(`${at}`) as StoredAnswer;
      for (let hits = 0; hits < 2; hits += 1) hit(`${at}`, answer);
      await until(() => isPlain(`${at}`, answer));
    }
    const last = { ...(answers[16] as StoredAnswer), body: small(answers[16] as StoredAnswer) };
    tier.set('last', last, 'digests');
    for (let hits = 0; hits < 3; hits += 1) hit('last', last);
    expect(tier.usage().bytes).toBeLessThan(MAX_BYTES / 2 + 17 * 3_000);
    tier.set('0', storedAnswer({ requestedAt: last.requestedAt + 1 }), 'digests', 'usual');
    hit('last', last);
    await until(() => isPlain('last', last));
  });

  test('goes out compressed where its text cannot be made, and that harms nobody', async () => {
    const account = bodyAccount();
    const { tier, hit } = tierOf(account);
    const broken = storedAnswer({
      body: deflated(200_000, Buffer.alloc(0), Buffer.from('no deflate'), 0),
    });
    tier.set('key', broken, 'digests');
    for (let hits = 0; hits < 3; hits += 1) expect(hit('key', broken)).toBe(broken.body);
    await until(() => account.usage().bytes.value === 0);
    const { answer, text } = longAnswer(200_000);
    tier.set('other', answer, 'digests');
    await until(() => hit('other', answer) !== answer.body);
    expect(text.equals(hit('other', answer) as Buffer)).toBe(true);
    expect(hit('key', broken)).toBe(broken.body);
  });
});

/** The same length, of nothing but zeros. */
function small({ body }: StoredAnswer) {
  const tail = deflateRawSync(Buffer.alloc(body.length));
  const short = deflated(body.length, Buffer.alloc(0), tail, 0);
  expect(bytesOf(short)).toBeLessThan(2_000);
  return short;
}
