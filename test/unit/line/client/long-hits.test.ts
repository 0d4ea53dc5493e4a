import { afterEach, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { ServerResponse } from 'node:http';
import { gunzipSync } from 'node:zlib';
import { deflated } from '../../../../src/cache/stored-answer.ts';
import { closeServers, GZIP, replay, serve, SHORT } from './replay-server.ts';

const MIB = 1024 * 1024;
const HITS = 16;

afterEach(closeServers);

/** @returns the most bytes that answers were given within a turn of the event loop */
async function mostInOneTurn(work: () => Promise<unknown>): Promise<number> {
  const { write } = ServerResponse.prototype;
  let [now, most] = [0, 0];
  ServerResponse.prototype.write = function (this: ServerResponse, ...given: unknown[]) {
    if (now === 0) setImmediate(() => (now = 0));
    now += (given[0] as Buffer).length;
    most = Math.max(most, now);
    return Reflect.apply(write, this, given) as boolean;
  } as typeof write;
  await work().finally(() => (ServerResponse.prototype.write = write));
  return most;
}

test('long hits that come at once are sent little by little, and others are answered between', async () => {
  const large = { ...SHORT, body: Buffer.alloc(4 * MIB, 'text ') };
  const waiting: (() => void)[] = [];
  const { ask } = await serve(async (client) => {
    await new Promise<void>((resolve) => {
      waiting.push(resolve);
      if (waiting.length === HITS) for (const go of waiting) go();
    });
    replay(client, large);
  });
  const most = await mostInOneTurn(async () => {
    const answers = await Promise.all(Array.from({ length: HITS }, () => ask()));
    for (const { body } of answers) expect(body.equals(large.body)).toBe(true);
  });
  expect(most).toBeGreaterThan(0);
  // At both ends of a turn the limit may be reached.
  expect(most).toBeLessThanOrEqual(5 * MIB);
});

test('a long compressed text arrives whole, and says that it is compressed', async () => {
  const text = Buffer.alloc(100);
  const front = Buffer.alloc(2 * MIB, 'front ');
  // An empty block that is the last one.
  const gzip = () => deflated(front.length, front, Buffer.from([3, 0]), 0);
  const { ask, responses } = await serve((client) =>
    replay(client, { ...SHORT, body: text }, { gzip }),
  );
  const answer = await ask(GZIP);
  if (!responses[0]?.closed) await once(responses[0]!, 'close');
  expect(answer.headers['content-encoding']).toBe('gzip');
  const bytes = Buffer.from(answer.body);
  expect(bytes.equals(front) || gunzipSync(bytes).equals(front)).toBe(true);
});
