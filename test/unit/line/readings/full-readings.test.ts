import { expect, test } from '@jest/globals';
import { createReadings } from '../../../../src/line/readings.ts';
import { createOwnTurns } from '../../../../src/line/understand.ts';
import { execute } from '../../../support/envelopes.ts';
import { circumstancesFor, USUAL } from './random-asks.ts';

/** Readings, and how often a body was read in full: each such reading looks once for this. */
function countedReadings() {
  const readings = createReadings();
  const { refusesDelegation, ...others } = circumstancesFor(USUAL);
  let count = 0;
  const circumstances = {
    ...others,
    get refusesDelegation() {
      count += 1;
      return refusesDelegation;
    },
    toJSON: () => ({ ...others, refusesDelegation }),
  };
  const ownTurn = createOwnTurns();
  const ask = (body: Buffer, owner: string) =>
    readings.read({ body, circumstances, owner, ownTurn });
  return { ask, full: () => count };
}

/** One question, in a session and with ids of its own each time. */
const question = (of: number, statement = 'SELECT FROM [Sales]') =>
  execute({
    statement,
    properties: {
      Catalog: 'FoodMart',
      DbpropMsmdActivityID: String(of).padStart(36, '0'),
    },
    session: { kind: 'in', id: `session${String(of).padStart(5, 'x')}` },
  });

const LONG = `SELECT FROM [Sales] /* ${'x'.repeat(100_000)} */`;

test.each([
  ['short', undefined],
  ['long', LONG],
])(
  'a %s body is read once when it comes once, and twice when it comes a hundred times',
  async (_, statement) => {
    const { ask, full } = countedReadings();
    await ask(question(0, statement), 'user0');
    expect(full()).toBe(1);
    for (let at = 1; at <= 100; at += 1) {
      const { asked } = await ask(question(at, statement), `user${at % 10}`);
      expect(asked.session).toMatchObject({ id: `session${String(at).padStart(5, 'x')}` });
      expect(asked.sessionIds).toHaveLength(1);
    }
    expect(full()).toBe(2);
  },
);

test('a body that ten users send ten times at once is read twice', async () => {
  const { ask, full } = countedReadings();
  const all = Array.from({ length: 100 }, (_, at) => ask(question(at), `user${at % 10}`));
  const ids = (await Promise.all(all)).map(({ asked }) => asked.sessionIds[0]);
  expect(new Set(ids).size).toBe(100);
  expect(full()).toBe(2);
});

test('one who goes away while he reads leaves it to the next', async () => {
  const readings = createReadings();
  const door = Promise.withResolvers<void>();
  const asking = { circumstances: circumstancesFor(USUAL), owner: 'alice' };
  const gone = readings.read({ ...asking, body: question(1), ownTurn: () => door.promise });
  const other = readings.read({ ...asking, body: question(2), ownTurn: () => undefined });
  door.reject(new Error('gone'));
  await expect(gone).rejects.toThrow('gone');
  expect((await other).asked.session).toMatchObject({ id: 'sessionxxxx2' });
});

test('a user who sends ever more bodies drops his own, and none that others use', async () => {
  const { ask, full } = countedReadings();
  for (const at of [1, 2]) await ask(question(at), 'alice');
  const long = (at: number) =>
    question(at, `SELECT FROM [Sales ${at}] /* ${'x'.repeat(300_000)} */`);
  for (let at = 0; at < 40; at += 1) await ask(long(at), 'bob');
  const before = full();
  await ask(question(3), 'carol');
  expect(full()).toBe(before);
  await ask(long(0), 'bob');
  expect(full()).toBe(before + 1);
});
