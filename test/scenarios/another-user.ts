import { scenario } from './vocabulary.ts';

scenario(
  'where the engine sees who asks, no user gets the answer of another',
  { engine: { login: 'forward' } },
  async ({ user }) => {
    const [alice, bob] = [user('alice'), user('bob')];
    await alice.asks('Sales', 'miss stored: Sales of Monday for alice');
    await alice.asks('Sales', 'hit: Sales of Monday for alice');
    await bob.asks('Sales', 'miss stored: Sales of Monday for bob');
    await bob.asks('Sales', 'hit: Sales of Monday for bob');
    await alice.asks('Sales', 'hit: Sales of Monday for alice');
  },
);
