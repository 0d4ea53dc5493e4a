import { scenario } from './vocabulary.ts';

scenario('a right login is let in, whatever others do', {}, async ({ engine, user, purges }) => {
  const alice = user('alice');
  await user('alice', { password: 'wrong' }).asks('Sales', '401');
  await user('mallory').asks('Sales', '401');
  await alice.asks('Sales', 'miss stored: Sales of Monday');
  // Somebody guesses at the same desk.
  for (let guess = 0; guess < 30; guess += 1) {
    await user('alice', { password: `guess ${guess}` }).asks('Sales', /^401$|throttled/);
  }
  await alice.asks('Sales', 'hit: Sales of Monday');
  // The engine goes away: what is stored is still answered.
  engine.mood = 'away';
  await alice.asks('Sales', 'hit: Sales of Monday');
  await alice.asks('Stock', 'gateway engine-unreachable: fault');
  engine.mood = 'well';
  await purges();
  await alice.asks('Stock', 'miss stored: Stock of Monday');
  await alice.asks('Sales', 'miss stored: Sales of Monday');
});
