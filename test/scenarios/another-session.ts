import { scenario } from './vocabulary.ts';

scenario('what a user made in a session is seen there, and nowhere else', {}, async ({ user }) => {
  const alice = user('alice');
  await alice.asks('Sales', 'miss stored: Sales of Monday');
  const [one, other] = [await alice.begins(), await alice.begins()];
  await one.says('CREATE SESSION SET [Mine] AS {[Time].[1997]}');
  await one.asks('Sales', 'bypass dirty-session: Sales of Monday with Mine');
  await one.asks('Sales', 'bypass dirty-session: Sales of Monday with Mine');
  await other.asks('Sales', /: Sales of Monday$/);
  await alice.asks('Sales', 'hit: Sales of Monday');
});
