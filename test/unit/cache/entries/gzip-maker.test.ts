import { describe, expect, test } from '@jest/globals';
import {
  createGzipMaker,
  type GzipVariant,
  type StoredAnswer,
} from '../../../../src/cache/stored-answer.ts';
import { gate } from '../../../support/stub-engine.ts';
import { bodyAccount, quiet } from '../fakes.ts';
import { answerWith } from './session-documents.ts';

const VARIANT: GzipVariant = {
  bytes: 1,
  body: Buffer.alloc(1),
  tail: Buffer.alloc(1),
  tailCrc: 0,
  tailShift: 0,
  headCrc: 0,
};

const answerOf = (text: string) => answerWith({ body: Buffer.from(text), session: undefined });

/** A maker whose work a test holds; `made` are the bodies that were begun, `kept` those that were kept. */
function heldMaker(
  most: number,
  outcome: () => GzipVariant | undefined = () => VARIANT,
  account = bodyAccount(),
) {
  const made: string[] = [];
  const kept: string[] = [];
  const door = gate();
  const maker = createGzipMaker({
    most,
    account,
    async make({ body }) {
      made.push(body.toString());
      await door.opened;
      return outcome();
    },
  });
  const prepare = (answer: StoredAnswer) =>
    maker.prepare(answer, () => kept.push(answer.body.toString()));
  return { prepare, made, kept, open: door.open };
}

describe('a compressed answer', () => {
  test('is made later where there is no room for it now, and gives its room back', async () => {
    const account = bodyAccount(8);
    const { prepare, made, open } = heldMaker(5, undefined, account);
    const [long, other] = [answerOf('four'), answerOf('more')];
    prepare(long);
    prepare(other);
    expect([made, account.usage().bytes.value]).toEqual([['four'], 4]);
    open();
    await quiet();
    expect(account.usage().bytes.value).toBe(0);
    prepare(other);
    expect(made).toEqual(['four', 'more']);
    await quiet();
  });

  test('is made once, however many ask for it meanwhile and afterwards', async () => {
    const { prepare, made, kept, open } = heldMaker(5);
    const answer = answerOf('a');
    prepare(answer);
    prepare(answer);
    open();
    await quiet();
    prepare(answer);
    await quiet();
    expect([made, kept]).toEqual([['a'], ['a']]);
  });

  test('is not made while others are; the next hit makes it', async () => {
    const { prepare, made, kept, open } = heldMaker(1);
    const [first, second] = [answerOf('a'), answerOf('b')];
    prepare(first);
    prepare(second);
    expect(made).toEqual(['a']);
    open();
    await quiet();
    prepare(second);
    await quiet();
    expect([made, kept]).toEqual([
      ['a', 'b'],
      ['a', 'b'],
    ]);
  });

  test('that does not pay is neither kept nor tried again', async () => {
    const { prepare, made, kept, open } = heldMaker(1, () => undefined);
    const answer = answerOf('a');
    open();
    prepare(answer);
    await quiet();
    prepare(answer);
    await quiet();
    expect([made, kept]).toEqual([['a'], []]);
  });

  test('that cannot be made, or kept, harms nobody and leaves its place', async () => {
    let fails = true;
    const { prepare, made, kept, open } = heldMaker(1, () => {
      if (fails) throw new Error('out of memory');
      return VARIANT;
    });
    open();
    prepare(answerOf('a'));
    await quiet();
    fails = false;
    prepare(answerOf('b'));
    await quiet();
    expect([made, kept]).toEqual([['a', 'b'], ['b']]);

    const maker = createGzipMaker({ most: 1, account: bodyAccount(), make: async () => VARIANT });
    const tried: string[] = [];
    for (const name of ['c', 'd']) {
      maker.prepare(answerOf(name), () => {
        tried.push(name);
        throw new Error('full');
      });
      await quiet();
    }
    expect(tried).toEqual(['c', 'd']);
  });
});
