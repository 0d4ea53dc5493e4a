import { expect, test } from '@jest/globals';
import type { GatewayEvent } from '../../../src/common/events.ts';
import { createAway } from '../../../src/engine/away.ts';
import { NotConnected } from '../../../src/proxy/upstream.ts';
import { handClock } from '../cache/fakes.ts';

test('a server is told once to be away, and once to answer again, with the time between', () => {
  const clock = handClock();
  const events: GatewayEvent[] = [];
  const away = createAway({ clock, emit: (event) => void events.push(event) });
  const fails = () =>
    away.failed('a', 'http://a/xmla', clock.now(), new NotConnected(new Error('refused')));
  away.answered('a');
  fails();
  clock.advance(5_000);
  fails();
  const since = new Date(clock.wall() - 5_000).toISOString();
  expect(away.list()).toEqual([{ url: 'http://a/xmla', since }]);
  away.answered('a');
  expect(away.list()).toEqual([]);
  const server = { type: 'engine-away', url: 'http://a/xmla' };
  expect(events).toEqual([
    { ...server, state: 'down', why: 'refused', ms: 0 },
    { ...server, state: 'up', why: 'it answers again', ms: 5_000 },
  ]);
});

test('no server is away where none may be asked', () => {
  const away = createAway({ clock: handClock() });
  expect([away.isAway([]), away.refusal([])]).toEqual([false, undefined]);
});
