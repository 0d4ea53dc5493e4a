import { expect } from '@jest/globals';
import { nextRun } from '../support/warm-up.ts';
import { scenario } from './vocabulary.ts';

scenario(
  'after a purge, what people ask is in the cache before they ask again',
  { cache: { share: 'everyone' }, warm: { mode: 'auto', settle: '0' } },
  async ({ engine, gateway, user, purges }) => {
    const [alice, bob] = [user('alice'), user('bob')];
    await alice.asks('Sales', 'miss stored: Sales of Monday');
    await bob.asks('Sales', 'hit: Sales of Monday');
    engine.data = 'Tuesday';
    const { stored } = await nextRun(gateway, purges);
    expect([stored, engine.asked]).toEqual([1, 2]);
    await bob.asks('Sales', 'hit: Sales of Tuesday');
    expect(engine.asked).toBe(2);
  },
);
