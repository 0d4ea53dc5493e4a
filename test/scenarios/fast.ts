import { expect } from '@jest/globals';
import { scenario } from './vocabulary.ts';

const SHARED = { cache: { share: 'everyone' } };

scenario('the engine is asked once for what many ask', SHARED, async ({ engine, user }) => {
  const [alice, bob] = [user('alice'), user('bob')];
  await alice.asks('Sales', 'miss stored: Sales of Monday');
  await bob.asks('Sales', 'hit: Sales of Monday');
  await alice.asks('Sales', 'hit: Sales of Monday');
  expect(engine.asked).toBe(1);

  const slow = engine.holdNext();
  const all = Array.from({ length: 50 }, () => bob.asks('Stock', /: Stock of Monday$/));
  await slow.computed;
  slow.letGo();
  await Promise.all(all);
  expect(engine.asked).toBe(2);
});
