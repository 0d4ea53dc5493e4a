import { afterEach, expect, test } from '@jest/globals';
import { closeServers, replay, serve, SHORT } from './replay-server.ts';

afterEach(closeServers);

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
