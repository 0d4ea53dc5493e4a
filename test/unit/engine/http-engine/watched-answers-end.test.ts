import { describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { gzipSync } from 'node:zlib';
import { portOf, until } from '../../../support/http-client.ts';
import { gate, sendXml } from '../../../support/stub-engine.ts';
import { DEAD, engineHouse, startFront } from '../engine-house.ts';
import { begin, inPieces, longPiece, watchedEngine } from './watch-house.ts';

/** So long that a request is sent, and its answer begins, before it is over, also on a busy machine (ms). */
const SILENCE = 1_000;

const { noting, now, start, stub } = watchedEngine();

describe('a watched answer that breaks off', () => {
  test('in its first piece becomes a Fault, when the watch was told', async () => {
    const door = gate();
    const engine = inPieces(stub, ['one '], 'destroy');
    const { url } = await start(noting({ end: () => door.opened }));
    const client = begin(url);
    engine.open(0);
    await until(() => now.told.includes('one '));
    engine.last();
    await until(() => now.told.includes('broken'));
    expect(client.begun).toBe(false);
    door.open();
    expect(await client.over).toBe('whole');
    expect([client.head.statusCode, client.text.includes('<SOAP-ENV:Fault>')]).toEqual([502, true]);
    expect(now.told).toEqual(['head 200', 'one ', 'broken']);
    await now.front?.idle();
    expect([now.house.failures(), now.house.atEngine()]).toEqual([['engine-unreachable'], 0]);
  });

  test('later is broken off at the client, whatever the watch says of it', async () => {
    const two = longPiece('2');
    const engine = inPieces(stub, ['one ', two], 'destroy');
    const { url } = await start(noting({ end: () => Promise.reject(new Error('odd')) }));
    const client = begin(url);
    engine.open(0);
    await until(() => now.told.includes('one '));
    engine.open(1);
    await until(() => client.text === 'one ');
    engine.last();
    expect(await client.over).toBe('broken');
    expect([now.told[0], now.told.slice(1, -1).join(''), now.told.at(-1)]).toEqual([
      'head 200',
      `one ${two}`,
      'broken',
    ]);
  });

  test('in its coding becomes a Fault', async () => {
    stub.answerWith(
      sendXml(gzipSync('<a/>').subarray(0, -4), { headers: { 'content-encoding': 'gzip' } }),
    );
    const { url } = await start(noting());
    const client = begin(url);
    expect(await client.over).toBe('whole');
    expect(client.head.statusCode).toBe(502);
    expect(now.told.at(-1)).toBe('broken');
  });
});

describe('a request whose watched answer never begins', () => {
  test.each([
    ['is refused a connection', [`${DEAD}/`], {}, 502, 'not-sent'],
    [
      'is refused one by every replica',
      [`${DEAD}/a`, `${DEAD}/b`, `${DEAD}/c`],
      {},
      502,
      'not-sent',
    ],
    ['finds a silent engine', undefined, { timeout: SILENCE }, 504, 'broken'],
  ])(
    'because it %s tells the watch once, before the client',
    async (_what, urls, changed, status, outcome) => {
      const door = gate();
      stub.answerWith(() => {});
      const { url } = await start(noting({ end: () => door.opened }), urls, changed);
      const client = begin(url);
      await until(() => now.told.length > 0);
      expect(client.begun).toBe(false);
      door.open();
      expect(await client.over).toBe('whole');
      expect([client.head.statusCode, now.told]).toEqual([status, [outcome]]);
      await now.front?.idle();
      expect([now.told, now.house.atEngine()]).toEqual([[outcome], 0]);
    },
  );

  test('because too many wait for the engine tells the watch once', async () => {
    now.house = engineHouse([stub.url], {}, { concurrency: 1, per_user: 1, queue: 0 });
    now.front = await startFront(now.house, noting());
    const arrived = gate();
    stub.answerWith(() => arrived.open());
    const first = begin(now.front.url);
    await arrived.opened;
    const client = begin(now.front.url);
    expect(await client.over).toBe('whole');
    expect([client.head.statusCode, now.told]).toEqual([503, ['not-sent']]);
    first.asked.destroy();
    await now.front.idle();
  });

  test('because the engine closes a connection that was made tells the watch that it was sent', async () => {
    stub.answerWith((response) => void response.destroy());
    const { url } = await start(noting(), [`${DEAD}/`, stub.url]);
    for (const turn of [1, 2]) {
      const client = begin(url);
      expect(await client.over).toBe('whole');
      expect([client.head.statusCode, now.told]).toEqual([502, Array(turn).fill('broken')]);
    }
  });

  test('because its client goes away in the queue tells the watch that nothing was sent', async () => {
    now.house = engineHouse([stub.url], {}, { concurrency: 1, per_user: 1, queue: 1 });
    now.front = await startFront(now.house, noting());
    const arrived = gate();
    stub.answerWith(() => arrived.open());
    const first = begin(now.front.url);
    await arrived.opened;
    const client = begin(now.front.url);
    await until(() => now.house.waiting() === 1);
    client.asked.destroy();
    await until(() => now.told.length > 0);
    expect(now.told).toEqual(['not-sent']);
    first.asked.destroy();
    await now.front.idle();
    expect([now.told, stub.seen.length]).toEqual([['not-sent', 'broken'], 1]);
  });

  test('because the login of the gateway is refused tells the watch nothing of the answer', async () => {
    stub.answerWith(sendXml('who?', { status: 401 }));
    const { url } = await start(noting());
    const client = begin(url);
    expect(await client.over).toBe('whole');
    expect([client.head.statusCode, now.told]).toEqual([502, ['broken']]);
    expect(client.head.headers['cache-status']).toContain('engine-login');
  });
});

describe('a client that goes away', () => {
  test('before the answer ends the request to the engine, and the watch is told once', async () => {
    const closed = gate();
    const arrived = gate();
    stub.answerWith((response) => {
      response.on('close', closed.open);
      arrived.open();
    });
    const { url } = await start(noting());
    const client = begin(url);
    await arrived.opened;
    client.asked.destroy();
    await closed.opened;
    await now.front?.idle();
    expect(now.told).toEqual(['broken']);
    expect([now.house.failures(), now.house.atEngine()]).toEqual([[], 0]);
  });

  test('in the middle of it ends the request to the engine, and the watch is told once', async () => {
    const closed = gate();
    stub.answerWith((response) => {
      response.on('close', closed.open);
      response.writeHead(200);
      const more = () => {
        if (response.destroyed) return;
        if (response.write(Buffer.alloc(10_000, 'x'))) setImmediate(more);
        else response.once('drain', more);
      };
      more();
    });
    const { url } = await start(noting());
    const client = begin(url);
    await until(() => client.text !== '');
    client.asked.destroy();
    await closed.opened;
    await now.front?.idle();
    expect(now.told.filter((word) => word === 'broken' || word === 'whole')).toEqual(['broken']);
    expect([now.house.failures(), now.house.atEngine()]).toEqual([[], 0]);
  });

  test('while the watch takes note of a whole answer leaves that note in place', async () => {
    const door = gate();
    stub.answerWith(sendXml('<a/>'));
    const { url } = await start(noting({ end: () => door.opened }));
    const client = begin(url);
    await until(() => now.told.includes('whole'));
    client.asked.destroy();
    await until(() => now.house.events.some(({ type }) => type === 'xmla-answered'));
    door.open();
    await now.front?.idle();
    expect(now.told).toEqual(['head 200', '<a/>', 'whole']);
    expect(now.house.atEngine()).toBe(0);
  });
});

test('a client that stops reading a watched answer is broken off, and not the engine blamed', async () => {
  stub.answerWith((response) => {
    response.writeHead(200);
    const more = () => {
      while (response.write(Buffer.alloc(100_000, 'x')));
      response.once('drain', more);
    };
    more();
  });
  let seen = 0;
  const { url } = await start(
    {
      holdsLast: true,
      head() {},
      write: (chunk) => void (seen += chunk.length),
      end: (outcome) => void now.told.push(outcome),
    },
    [stub.url],
    { timeout: SILENCE },
  );
  const asked = request({ host: '127.0.0.1', port: portOf(url), method: 'POST', agent: false });
  asked.on('error', () => {});
  asked.end('<q/>');
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  answer.on('error', () => {});
  answer.pause();
  await until(() => now.told.length > 0);
  await now.front?.idle();
  expect([now.told, now.house.failures(), now.house.atEngine()]).toEqual([['broken'], [], 0]);
  // Bounded by the buffers on the way, or it would have gone on for ever.
  expect(seen).toBeGreaterThan(0);
  asked.destroy();
});
