import { describe, expect, test } from '@jest/globals';
import {
  createVerifiedCredentials,
  createVerifiedTable,
} from '../../../../src/auth/verified-credentials.ts';
import { ADMIN, ANALYST, HERE, MINUTE, setUp } from '../support-file-authenticator.ts';
import { basic, createTestClock, HASHES } from '../support.ts';
import { principalOf } from '../../../../src/common/principal.ts';

const HEADER = basic('ANALYST', 'fast cars');

/** A house in which the header was verified, and what is remembered of it. */
async function rememberedHouse() {
  const house = await setUp();
  const { authenticator, login } = house;
  await login('ANALYST', 'fast cars');
  const remembered = authenticator.remembered(HEADER);
  if (remembered === undefined) throw new Error('nothing is remembered');
  /** What a request with the header is answered without a promise. */
  const atOnce = () => {
    const answer = authenticator.authenticate(HEADER, { id: 'id', address: HERE });
    return 'principal' in answer ? answer.principal.name : undefined;
  };
  return { ...house, remembered, atOnce };
}

describe('a remembered login', () => {
  test('counts without a comparison as long as the header would be answered at once', async () => {
    const { remembered, atOnce, clock, calls } = await rememberedHouse();
    expect(calls).toHaveLength(1);
    expect(remembered.principal).toEqual(principalOf('ANALYST'));
    clock.advance(MINUTE - 1);
    expect([remembered.counts(), atOnce()]).toEqual([true, 'ANALYST']);
    expect(calls).toHaveLength(1);
    clock.advance(MINUTE);
    expect([remembered.counts(), atOnce()]).toEqual([false, undefined]);
  });

  test('is none of a header that was not verified, or is spelt otherwise', async () => {
    const { authenticator, login } = await rememberedHouse();
    await login('ADMIN', 'wrong');
    const others = ['', basic('ADMIN', 'wrong'), basic('ADMIN', 'KYLIN'), `${HEADER} `, '\ud800'];
    for (const other of others) expect(authenticator.remembered(other)).toBeUndefined();
  });

  test('is none where nothing is remembered', async () => {
    const { authenticator, login } = await setUp({ verifiedFor: 0 });
    await login('ANALYST', 'fast cars');
    expect(authenticator.remembered(HEADER)).toBeUndefined();
  });

  test.each([
    ['was changed', [ADMIN, `ANALYST:${HASHES.newCars}`]],
    ['was removed', [ADMIN]],
    ['was renamed', [ADMIN, `ANALYST2:${HASHES.fastCars}`]],
  ])('no longer counts when its user %s', async (_case, lines) => {
    const { file, remembered, atOnce } = await rememberedHouse();
    file.write(lines);
    await file.pass(2);
    expect([remembered.counts(), atOnce()]).toEqual([false, undefined]);
    // The one of before is back, but what was verified is forgotten.
    file.write([ADMIN, ANALYST]);
    await file.pass(2);
    expect([remembered.counts(), atOnce()]).toEqual([false, undefined]);
  });

  test('no longer counts when the authenticator is closed', async () => {
    const { authenticator, remembered } = await rememberedHouse();
    const closing = authenticator.close();
    expect(remembered.counts()).toBe(false);
    await closing;
    expect(authenticator.remembered(HEADER)).toBeUndefined();
  });

  test('no longer counts when the credentials turn out wrong, were dropped, or were verified anew after that', () => {
    const clock = createTestClock();
    const make = (max: number) =>
      createVerifiedCredentials({
        table: createVerifiedTable(Buffer.alloc(32, 7), max),
        trust: { verifiedFor: 10, since: 'check', believedFor: 0 },
        users: { accounts: { get: () => 'p' } },
        clock,
      });
    for (const end of ['forget', 'drop', 'anew'] as const) {
      const verified = make(1);
      verified.remember('d', principalOf('A'), 'p', clock.now());
      const remembered = verified.find('d');
      expect(remembered?.counts()).toBe(true);
      if (end === 'forget') verified.forget('d');
      if (end === 'drop') verified.remember('e', principalOf('B'), 'p', clock.now());
      if (end === 'anew') verified.forget('d');
      if (end === 'anew') verified.remember('d', principalOf('A'), 'p', clock.now());
      expect(remembered?.counts()).toBe(false);
    }
  });
});
