import { scenario } from './vocabulary.ts';

scenario('clearCache drops one project, or everything', {}, async ({ engine, user, purges }) => {
  const [shop, bank] = ['Shop', 'Bank'].map((project) => user('alice', { project }));
  await shop?.asks('Sales', 'miss stored: Sales of Monday');
  await bank?.asks('Sales', 'miss stored: Sales of Monday');
  engine.data = 'Tuesday';
  await purges('Shop');
  await shop?.asks('Sales', 'miss stored: Sales of Tuesday');
  await bank?.asks('Sales', 'hit: Sales of Monday');
  await purges();
  await bank?.asks('Sales', 'miss stored: Sales of Tuesday');
  await shop?.asks('Sales', 'miss stored: Sales of Tuesday');
});
