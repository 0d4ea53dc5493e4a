import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { describe, expect, test } from '@jest/globals';
import { circumstancesOf } from '../../../../src/line/circumstances.ts';
import { createOwnTurns, type OwnTurn, understandInTurn } from '../../../../src/line/understand.ts';
import { AROUND } from '../../../support/hostile-bodies.ts';

const HEADERS = { 'content-type': 'text/xml' };
const body = (bytes: number) => Buffer.from(AROUND.statement('x'.repeat(bytes)));
const read = async (bytes: number, ownTurn: OwnTurn) => {
  await ownTurn(bytes);
  return understandInTurn(
    circumstancesOf(HEADERS, {
      ...{ traits: { catalogsReread: false }, settings: { headers: [] } },
      ...{ engine: { id: '' }, addressee: { query: [] } },
    } as never),
    body(bytes),
    ownTurn,
  );
};

test.each([
  ['long', 100_000],
  ['short', 30_000],
])('others are answered between %s bodies that come at once', async (_, bytes) => {
  const server = createServer((socket) => socket.pipe(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  await once(client, 'connect');
  const ownTurn = createOwnTurns();
  let readings = 0;
  const all = Array.from({ length: 50 }, () => read(bytes, ownTurn).then(() => (readings += 1)));
  client.write('x');
  await once(client, 'data');
  expect(readings).toBeLessThan(25);
  await Promise.all(all);
  expect(readings).toBe(50);
  client.destroy();
  server.close();
});

test('a short body waits for no turn', async () => {
  const order: string[] = [];
  const ownTurn = createOwnTurns();
  setImmediate(() => order.push('turn'));
  await read(1_000, ownTurn).then(() => order.push('short'));
  await read(100_000, ownTurn).then(() => order.push('long'));
  expect(order).toEqual(['short', 'turn', 'long']);
});

describe('of bodies that come at once', () => {
  /** In which turn of the event loop each of them is read. */
  async function turnsOf(bodies: readonly (readonly [bytes: number, user: string])[]) {
    let [turn, over] = [0, false];
    setImmediate(function count() {
      turn += 1;
      if (!over) setImmediate(count);
    });
    const shared = createOwnTurns();
    const turns = bodies.map(async ([bytes, user]) => {
      await shared(bytes, user);
      return turn;
    });
    const all = await Promise.all(turns);
    over = true;
    return all;
  }
  const [short, medium, large] = [4_000, 30_000, 64 * 1024];

  test('no more than 64 KiB are read in one turn', async () => {
    const bodies = Array.from({ length: 5 }, () => [medium, 'alice'] as const);
    expect(await turnsOf(bodies)).toEqual([0, 0, 1, 1, 2]);
  });

  test('one of more than that is read in a turn of its own', async () => {
    const long = [2 * large, 'alice'] as const;
    expect(await turnsOf([[medium, 'alice'], long, long])).toEqual([0, 1, 2]);
  });

  test('those of a user do not wait behind all of another', async () => {
    const crowd = Array.from({ length: 20 }, () => [large, 'alice'] as const);
    const turns = await turnsOf([...crowd, [medium, 'bob']]);
    expect(turns.at(-1)).toBe(2);
    expect(turns[19]).toBe(20);
  });

  test('short ones do not wait behind longer ones, and 16 KiB of them are read in one turn', async () => {
    const crowd = Array.from({ length: 20 }, () => [large, 'alice'] as const);
    const shorts = Array.from({ length: 9 }, () => [short, 'alice'] as const);
    const turns = await turnsOf([...crowd, ...shorts]);
    expect(turns.slice(20)).toEqual([0, 0, 0, 0, 1, 1, 1, 1, 2]);
  });
});
