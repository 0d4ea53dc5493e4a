import { afterEach, expect, test } from '@jest/globals';
import { closeServers, replay, serve, SHORT } from './replay-server.ts';

afterEach(closeServers);

test('a request has one time for all that it waits for until it is at the engine, from its first wait on', async () => {
  const left: number[] = [];
  const { ask, clock } = await serve((client) => {
    clock.advance(60_000);
    left.push(client.patience());
    clock.advance(10_000);
    left.push(client.waits());
    client.engineStep('asked');
    clock.advance(25_000);
    left.push(client.waits());
    // Some of that was no waiting.
    left.push(client.waits(6_000));
    replay(client, SHORT);
  });
  await ask();
  expect(left).toEqual([30_000, 20_000, 0, 1_000]);
});

test('what a request says of itself is told up to 255 characters of it', async () => {
  const { ask, events } = await serve((client) => {
    client.facts.subject = 's'.repeat(900_000);
    client.facts.why = 'w'.repeat(256);
    replay(client, SHORT);
  });
  await ask();
  while (events.length === 0) await new Promise((resolve) => setImmediate(resolve));
  expect(events).toEqual([
    expect.objectContaining({ subject: 's'.repeat(255), why: 'w'.repeat(255) }),
  ]);
});
