import { scenario } from './vocabulary.ts';

scenario('an error of the engine is told to who asked, and never kept', {}, async (scene) => {
  const { engine, user } = scene;
  const [alice, bob] = [user('alice'), user('bob')];
  engine.mood = 'fault';
  await alice.asks('Sales', 'miss fault: fault');
  await alice.asks('Sales', 'miss fault: fault');
  engine.mood = 'well';
  await bob.asks('Sales', 'miss stored: Sales of Monday');
  engine.mood = 'fault';
  await bob.asks('Sales', 'hit: Sales of Monday');
});
