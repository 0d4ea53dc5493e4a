import { expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { GatewayEvent } from '../../../src/common/events.ts';
import { createHub, createIds, tellAll, tellTogether } from '../../../src/compose/parts.ts';

test('ids are of 128 random bits and more, each used once, and fetched many at one time', () => {
  let calls = 0;
  const newId = createIds({
    randomBytes(count) {
      calls += 1;
      return randomBytes(count);
    },
  });
  const ids = Array.from({ length: 10_000 }, newId);
  expect(new Set(ids).size).toBe(ids.length);
  for (const id of ids) expect(id).toMatch(/^[\w-]{22}$/);
  expect(calls).toBe(Math.ceil(ids.length / 1024));
});

test('no byte of one id stands in another', () => {
  let next = 0;
  const newId = createIds({
    randomBytes: (count) => Buffer.from(Array.from({ length: count }, () => (next += 1) % 251)),
  });
  const ids = Array.from({ length: 3_000 }, () => [...Buffer.from(newId(), 'base64url')]);
  expect(ids).toEqual(ids.map((bytes, id) => bytes.map((_byte, i) => (16 * id + i + 1) % 251)));
});

test('the events of a turn are told at its end, in their order, also where a subscriber throws', async () => {
  const told: string[] = [];
  const hear = (event: GatewayEvent) => {
    if (event.type !== 'warning') return;
    told.push(event.message);
    if (event.message === 'first') throw new Error('a fault of a subscriber');
  };
  const emit = tellTogether(tellAll([hear]));
  for (const message of ['first', 'second']) emit({ type: 'warning', message });
  expect(told).toEqual([]);
  await nextTurn();
  expect(told).toEqual(['first', 'second']);
  emit({ type: 'warning', message: 'third' });
  await nextTurn();
  expect(told).toEqual(['first', 'second', 'third']);
});

test('a hub tells its listener each event once, and later subscribers the earlier ones too', () => {
  const heard: string[] = [];
  const heardLater: string[] = [];
  const hub = createHub(({ type }) => void heard.push(type));
  hub.emit({ type: 'warning', message: 'early' });
  expect(heard).toEqual(['warning']);
  hub.tellTo([(event) => void heardLater.push('message' in event ? event.message : '')]);
  hub.emit({ type: 'warning', message: 'late' });
  expect([heard.length, heardLater]).toEqual([2, ['early', 'late']]);
});
