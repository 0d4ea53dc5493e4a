import { describe, expect, test } from '@jest/globals';
import { sendXml, startStubEngine } from '../../../support/stub-engine.ts';
import { DEAD, engineHouse, startFront } from '../engine-house.ts';
import { begin, watchedEngine } from './watch-house.ts';

const { noting, now, start, stub } = watchedEngine();

describe.each([
  ['watched', noting],
  ['not watched', () => undefined],
])('a request that is %s', (_kind, watch) => {
  test('goes to another replica when no connection reaches the first, with its whole body', async () => {
    stub.answerWith(sendXml('<a/>'));
    const dead = Array.from({ length: 12 }, (_, count) => `${DEAD}/${count}`);
    const { url } = await start(watch(), [...dead, stub.url]);
    const client = begin(url);
    expect(await client.over).toBe('whole');
    await now.front?.idle();
    expect([client.text, stub.seen.length, stub.seen[0]?.body.toString()]).toEqual([
      '<a/>',
      1,
      '<q/>',
    ]);
    expect([now.house.failures(), now.house.atEngine(), now.front?.crowded()]).toEqual([
      [],
      0,
      false,
    ]);
  });

  test('and reached one replica that broke the connection reaches no other', async () => {
    stub.answerWith((response) => void response.destroy());
    const other = await startStubEngine(sendXml('<b/>'));
    const { url } = await start(watch(), [stub.url, other.url]);
    const client = begin(url);
    expect(await client.over).toBe('whole');
    expect([client.head.statusCode, stub.seen.length, other.seen.length]).toEqual([502, 1, 0]);
    await other.close();
  });

  test('and belongs to one replica goes to no other', async () => {
    now.house = engineHouse([`${DEAD}/a`, stub.url]);
    now.front = await startFront(now.house, watch(), `${DEAD}/a`);
    const client = begin(now.front.url);
    expect(await client.over).toBe('whole');
    expect([client.head.statusCode, stub.seen.length]).toEqual([502, 0]);
  });
});
