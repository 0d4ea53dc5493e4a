import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { AnswerWatch } from '../../../../src/engine/http-engine.ts';
import { sendXml, startStubEngine } from '../../../support/stub-engine.ts';
import { DEAD, engineHouse, type EngineHouse, type Front, startFront } from '../engine-house.ts';
import { begin, notingWatch } from './watch-house.ts';
import { shared } from '../../../support/opened.ts';

const stub = shared(() => startStubEngine(() => {}));
let house: EngineHouse;
let front: Front | undefined;
/** What the watch was told, in order. */
let told: string[];

beforeEach(() => {
  stub.seen.length = 0;
  told = [];
});
afterEach(async () => {
  await front?.close();
  front = undefined;
});

const noting = (does?: Partial<AnswerWatch>) => notingWatch(told, does);

async function start(
  watch: AnswerWatch | undefined,
  urls: readonly string[] = [stub.url],
  changed: Parameters<typeof engineHouse>[1] = {},
) {
  house = engineHouse(urls, changed);
  front = await startFront(house, watch);
  return front;
}

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
    await front?.idle();
    expect([client.text, stub.seen.length, stub.seen[0]?.body.toString()]).toEqual([
      '<a/>',
      1,
      '<q/>',
    ]);
    expect([house.failures(), house.atEngine(), front?.crowded()]).toEqual([[], 0, false]);
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
    house = engineHouse([`${DEAD}/a`, stub.url]);
    front = await startFront(house, watch(), `${DEAD}/a`);
    const client = begin(front.url);
    expect(await client.over).toBe('whole');
    expect([client.head.statusCode, stub.seen.length]).toEqual([502, 0]);
  });
});
