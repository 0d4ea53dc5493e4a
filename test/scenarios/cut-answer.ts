import { scenario } from './vocabulary.ts';

scenario('an answer that the engine breaks off is never kept', {}, async ({ engine, user }) => {
  const alice = user('alice');
  engine.mood = 'cut';
  // What has not left the gateway by then becomes a fault; the client takes neither for a whole answer.
  await alice.asks('Sales', /^(?:gateway engine-unreachable: fault|miss: cut)$/);
  await alice.asks('Sales', /^(?:gateway engine-unreachable: fault|miss: cut)$/);
  engine.mood = 'well';
  await alice.asks('Sales', 'miss stored: Sales of Monday');
  await alice.asks('Sales', 'hit: Sales of Monday');
});
