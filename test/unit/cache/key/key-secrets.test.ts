import { describe, expect, test } from '@jest/globals';
import { queryKey } from '../../../../src/cache/key.ts';
import { sharedEpochs } from '../purge/fake-epoch-stores.ts';
import { told } from '../fake-client.ts';
import {
  checkpoint,
  engineAnswer,
  fakeTier,
  handClock,
  keyParts,
  queryOf,
  rowset,
} from '../fakes.ts';
import { ORDER, replica } from '../purge/replica.ts';

const LEASE = 1_000;

function twoGateways() {
  const clock = handClock();
  const shared = sharedEpochs();
  // The lease alone must do.
  shared.messages = 'lost';
  const values = fakeTier();
  const one = () => replica({ clock, values, store: shared.replica(LEASE), lease: LEASE });
  const engine = { data: 'old' };
  const query = (project = 'a') =>
    queryOf(async () => engineAnswer(rowset(engine.data), clock), { project });
  return { clock, shared, a: one(), b: one(), engine, query };
}

describe('when Redis has lost the secret of the keys and made another', () => {
  test('gateways that still use the old one and those that use the new one miss, and find no entry of the other', async () => {
    const { a, b, shared, query, clock } = twoGateways();
    await a.answer(query());
    shared.keySecret = 'another';
    expect(told(await b.answer(query()))).toBe('miss');
    // Its lease holds: it goes on with what it has.
    expect(told(await a.answer(query()))).toBe('hit:memory');
    clock.advance(LEASE);
    expect(told(await a.answer(query()))).toBe('hit:redis');
  });

  test.each(['a', 'b'] as const)(
    'a purge by one of them counts for all, whichever secret they use (%s)',
    async (who) => {
      const { a, b, shared, query, engine } = twoGateways();
      await a.answer(query());
      await a.answer(query('b'));
      shared.keySecret = 'another';
      // One of its reads brings the new secret while its other epochs came with the old one.
      await a.answer(query('c'));
      await b.answer(query());
      engine.data = 'new';
      expect(await { a, b }[who].purge({ project: 'a' }, ORDER)).toMatchObject({
        ok: true,
      });
      for (const gateway of [a, b, a, b]) {
        expect((await gateway.answer(query())).body).toBe(`${rowset('new')}`);
      }
    },
  );

  test('a purge counts for an answer that began under the old one', async () => {
    const { a, b, shared, query, engine, clock } = twoGateways();
    const held = checkpoint();
    const fill = a.answer(
      queryOf(async () => {
        const answer = engineAnswer(rowset('old'), clock);
        await held.arrive();
        return answer;
      }),
    );
    await held.arrived;
    shared.keySecret = 'another';
    engine.data = 'new';
    await b.purge({ project: 'a' }, ORDER);
    held.release();
    await fill;
    for (const gateway of [a, b]) {
      expect((await gateway.answer(query())).body).toBe(`${rowset('new')}`);
    }
  });

  test('no key made from the one is a key made from the other', () => {
    const captured = { scopes: ['everything'] as const, tokens: ['token'], keySecret: 'secret' };
    const other = { ...captured, keySecret: 'another' };
    expect(queryKey(keyParts(), captured)).not.toBe(queryKey(keyParts(), other));
  });
});
