import { scenario } from './vocabulary.ts';

scenario('nobody gets data from before an acknowledged purge', {}, async (scene) => {
  const { engine, user, purges } = scene;
  const [alice, bob] = [user('alice'), user('bob')];
  await alice.asks('Sales', 'miss stored: Sales of Monday');
  engine.data = 'Tuesday';
  await alice.asks('Sales', 'hit: Sales of Monday');
  await purges();
  await alice.asks('Sales', 'miss stored: Sales of Tuesday');

  // An answer that the engine computed before the purge comes in after it.
  const late = engine.holdNext();
  const asking = alice.asks('Stock', /: Stock of Tuesday$/);
  await late.computed;
  engine.data = 'Wednesday';
  await purges();
  late.letGo();
  await asking;
  await bob.asks('Stock', 'miss stored: Stock of Wednesday');
  await bob.asks('Sales', 'miss stored: Sales of Wednesday');
});
