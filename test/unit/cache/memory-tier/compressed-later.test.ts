import { describe, expect, test } from '@jest/globals';
import { createMemoryTier } from '../../../../src/cache/memory-tier.ts';
import { type Deflated, deflated, type StoredAnswer } from '../../../../src/cache/stored-answer.ts';
import { gate } from '../../../support/stub-engine.ts';
import { until } from '../../../support/http-client.ts';
import type { FakeClient } from '../fake-client.ts';
import { bodyAccount, engineAnswer, handClock, queryOf, quiet, rowset } from '../fakes.ts';
import { fakeEngine, replica } from '../purge/replica.ts';
import { answerWith } from '../stored-answer/session-documents.ts';

const VARIANT = deflated(1_024, Buffer.alloc(0), Buffer.alloc(1), 0);

/** Long enough to be compressed. */
const SIZE = 1_024;
const answerOf = (text: string) =>
  answerWith({ body: Buffer.from(text.padEnd(SIZE)), session: undefined });

/** A memory tier whose compressing a test holds; `made` are the bodies that were begun. */
function heldTier(outcome: () => Deflated | undefined = () => VARIANT, account = bodyAccount()) {
  const made: string[] = [];
  const door = gate();
  const tier = createMemoryTier({
    maxBytes: 100_000,
    clock: handClock(),
    account,
    async compress(body) {
      made.push(body.toString().trimEnd());
      await door.opened;
      return outcome();
    },
  });
  function ask(answer: StoredAnswer & { readonly body: Buffer }): Deflated | undefined {
    const key = answer.body.toString();
    if (tier.peek(key) === undefined) tier.set(key, answer, 'digests');
    const text = tier.textOf(key, answer, true);
    return Buffer.isBuffer(text) ? undefined : text;
  }
  return { ask, made, open: door.open };
}

describe('a compressed answer', () => {
  test('is made later where there is no room for it now, and gives its room back', async () => {
    const account = bodyAccount(2 * SIZE);
    const { ask, made, open } = heldTier(undefined, account);
    const [long, other] = [answerOf('four'), answerOf('more')];
    const room = account.open('fill');
    while (room.grow(SIZE / 4));
    ask(long);
    expect([made, account.usage().bytes.value]).toEqual([[], 0]);
    room.release();
    ask(long);
    expect([made, account.usage().bytes.value]).toEqual([['four'], SIZE]);
    open();
    await quiet();
    expect(account.usage().bytes.value).toBe(0);
    ask(other);
    expect(made).toEqual(['four', 'more']);
    await quiet();
  });

  test('is made once, however many ask for it meanwhile and afterwards', async () => {
    const { ask, made, open } = heldTier();
    const answer = answerOf('a');
    expect([ask(answer), ask(answer)]).toEqual([undefined, undefined]);
    open();
    await quiet();
    expect([ask(answer), made]).toEqual([VARIANT, ['a']]);
  });

  test('is not made while another is; the next hit makes it', async () => {
    const { ask, made, open } = heldTier();
    const [first, second] = [answerOf('a'), answerOf('b')];
    ask(first);
    ask(second);
    expect(made).toEqual(['a']);
    open();
    await quiet();
    ask(second);
    await quiet();
    expect([made, ask(first), ask(second)]).toEqual([['a', 'b'], VARIANT, VARIANT]);
  });

  test('that does not pay is neither kept nor tried again', async () => {
    const { ask, made, open } = heldTier(() => undefined);
    const answer = answerOf('a');
    open();
    ask(answer);
    await quiet();
    ask(answer);
    await quiet();
    expect([made, ask(answer)]).toEqual([['a'], undefined]);
  });

  test('is not made of a short one, nor of one that is not there', async () => {
    const { ask, made } = heldTier();
    const short = answerWith({ body: Buffer.from('short'), session: undefined });
    expect([ask(short), made]).toEqual([undefined, []]);
  });

  test('that cannot be made harms nobody and leaves its place', async () => {
    let fails = true;
    const { ask, made, open } = heldTier(() => {
      if (fails) throw new Error('out of memory');
      return VARIANT;
    });
    open();
    ask(answerOf('a'));
    await quiet();
    fails = false;
    const next = answerOf('b');
    ask(next);
    await quiet();
    expect([made, ask(next)]).toEqual([['a', 'b'], VARIANT]);
  });

  test('that one client had made is there for the next one, as long as the answer is', async () => {
    const clock = handClock();
    const { answer, memory } = replica({ clock });
    const engine = fakeEngine((call) => engineAnswer(rowset(`answer ${call} `.repeat(500)), clock));
    await answer(queryOf(engine.ask));
    const first = await answer(queryOf(engine.ask));
    const isCompressed = (client: FakeClient) => !Buffer.isBuffer(client.text?.(true));
    expect(isCompressed(first)).toBe(false);
    await until(() => isCompressed(first));
    expect((await answer(queryOf(engine.ask))).text?.(true)).toBe(first.text?.(true));
    memory.clear();
    await answer(queryOf(engine.ask));
    expect(isCompressed(await answer(queryOf(engine.ask)))).toBe(false);
  });
});
