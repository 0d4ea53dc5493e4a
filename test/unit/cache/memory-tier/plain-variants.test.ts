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
  const clock = handClock();
  const tier = createMemoryTier({ maxBytes: MAX_BYTES, clock, account });
  /** As a client that takes no gzip. */
  const hit = (key: string, answer: StoredAnswer) => {
    tier.get(key, true);
    return tier.textOf(key, answer, false);
  };
  const isPlain = (key: string, answer: StoredAnswer) =>
    Buffer.isBuffer(tier.textOf(key, answer, false));
  return { tier, clock, hit, isPlain };
}

describe('a long answer that lies compressed', () => {
  test.each([0, FRONT])(
    'is there as it is too from its second hit on without gzip, and counts (%d bytes in front)',
    async (front) => {
      const { tier, hit, isPlain } = tierOf();
      const { text, answer } = longAnswer(300_000, front);
      tier.set('key', answer, 'digests');
      expect(hit('key', answer)).toBe(answer.body);
      // One is made at a time, so that it would be there before that of the other.
      const { answer: other } = longAnswer(200_000);
      tier.set('other', other, 'digests');
      for (let hits = 0; hits < 2; hits += 1) hit('other', other);
      await until(() => isPlain('other', other));
      expect(isPlain('key', answer)).toBe(false);
      tier.set('other', storedAnswer({ requestedAt: other.requestedAt + 1 }), 'digests', 'usual');
      const kept = tier.usage().bytes;
      expect(hit('key', answer)).toBe(answer.body);
      await until(() => isPlain('key', answer));
      expect(text.equals(hit('key', answer) as Buffer)).toBe(true);
      expect(tier.usage()).toEqual({ entries: 2, bytes: kept + text.length });
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

  test('leaves half of the memory to what lies compressed: the one that was used least recently gives way', async () => {
    const { tier, clock, hit, isPlain } = tierOf();
    const answers = Array.from({ length: 18 }, () => zeros(300_000));
    const makePlain = async (at: number) => {
      const answer = answers[at] as StoredAnswer;
      tier.set(`${at}`, answer, 'digests');
      clock.advance(1);
      for (let hits = 0; hits < 2; hits += 1) hit(`${at}`, answer);
      await until(() => isPlain(`${at}`, answer));
    };
    for (let at = 0; at < 16; at += 1) await makePlain(at);
    clock.advance(1);
    hit('0', answers[0] as StoredAnswer);
    await makePlain(16);
    const arePlain = () => answers.map((answer, at) => isPlain(`${at}`, answer));
    expect(arePlain()).toEqual([true, false, ...Array<boolean>(15).fill(true), false]);
    expect(tier.get('1')).toBe(answers[1]);
    expect(tier.usage().bytes).toBeLessThan(MAX_BYTES / 2 + 18 * 3_000);
    // It was made once, and is not made again.
    for (let hits = 0; hits < 3; hits += 1) hit('1', answers[1] as StoredAnswer);
    await makePlain(17);
    expect(isPlain('1', answers[1] as StoredAnswer)).toBe(false);
  });

  test('whose time is over gives way with all that is there of it', async () => {
    const { tier, clock, hit, isPlain } = tierOf();
    const use = async (key: string, answer: StoredAnswer) => {
      tier.set(key, answer, 'digests');
      for (let hits = 0; hits < 2; hits += 1) hit(key, answer);
      await until(() => isPlain(key, answer));
    };
    for (let at = 0; at < 16; at += 1) await use(`old ${at}`, zeros(300_000));
    clock.advance(120_000);
    const fresh = { ...zeros(300_000), requestedAt: clock.wall() };
    await use('fresh', fresh);
    expect(tier.usage().entries).toBe(16);
  });

  test.each([
    ['cannot be read', Buffer.from('no deflate')],
    ['is shorter than it says', deflateRawSync(Buffer.alloc(199_999))],
    ['is longer than it says', deflateRawSync(Buffer.alloc(200_001))],
  ])('is not kept as it is where it %s, and that harms nobody', async (_how, flawed) => {
    const account = bodyAccount();
    const { tier, hit } = tierOf(account);
    const broken = storedAnswer({
      body: deflated(200_000, Buffer.alloc(0), flawed, 0),
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

/** Of nothing but zeros. */
function zeros(length: number): StoredAnswer {
  const body = deflated(length, Buffer.alloc(0), deflateRawSync(Buffer.alloc(length)), 0);
  expect(bytesOf(body)).toBeLessThan(2_000);
  return storedAnswer({ body });
}
