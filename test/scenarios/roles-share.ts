import { apiOf, users } from '../contract/api-client.ts';
import { scenario } from './vocabulary.ts';

scenario(
  'users with the same roles share answers, until their roles differ',
  {
    engine: { login: 'forward' },
    cache: { share: 'roles', engine_permissions_ignored: true, lease: '500ms' },
  },
  async ({ gateway, user }) => {
    const [alice, bob] = [user('alice'), user('bob')];
    const api = apiOf(gateway.url);
    const role = await api.created({ name: 'buyers', contains: users('alice', 'bob') });
    await alice.asks('Sales', 'miss stored: Sales of Monday for alice');
    await bob.asks('Sales', 'hit: Sales of Monday for alice');
    await api.remove(role);
    await api.created({ name: 'sellers', contains: users('bob') });
    await bob.asks('Sales', 'miss stored: Sales of Monday for bob');
    await alice.asks('Sales', 'miss stored: Sales of Monday for alice');
  },
);
