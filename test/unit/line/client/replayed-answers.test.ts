import { afterEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import type { StoredAnswer } from '../../../../src/cache/stored-answer.ts';
import { until } from '../../../support/http-client.ts';
import { gate } from '../../../support/stub-engine.ts';
import { quiet } from '../../cache/fakes.ts';
import {
  closeServers,
  type Facts,
  GZIP,
  gzipSource,
  inSession,
  LONG,
  replay,
  serve,
  SHORT,
  WHOLE,
  WITH_SESSION,
} from './replay-server.ts';

afterEach(closeServers);

describe('a stored answer', () => {
  test('is sent with a head of the gateway’s own and nothing else', async () => {
    const stored = {
      ...LONG,
      contentType: 'Text/XML ;charset="UTF-8"',
      contentLanguage: 'de-CH, en',
    };
    const { ask } = await serve((client) => replay(client, stored));
    const { status, headers, body } = await ask();
    const { date, ...said } = headers;
    expect([status, typeof date]).toEqual([200, 'string']);
    expect(said).toEqual({
      'content-type': 'Text/XML ;charset="UTF-8"',
      'content-language': 'de-CH, en',
      'content-length': String(WHOLE.length),
      vary: 'accept-encoding',
      'x-request-id': 'id',
      'cache-status': 'mdx-gateway; hit; ttl=30; detail=memory',
      age: '1',
      connection: 'close',
    });
    expect(body).toEqual(LONG.body);
  });

  test('shows every client his own session', async () => {
    const ids = ['3a7f-20260101', `b"<&>'é`, ''];
    const { ask } = await serve((client) => {
      replay(client, WITH_SESSION, { sessionId: ids.shift() ?? 'none is left' });
    });
    for (const written of ['3a7f-20260101', 'b&quot;&lt;&amp;&gt;&apos;é', '']) {
      const { headers, body } = await ask();
      expect(body).toEqual(inSession(written));
      expect(headers['content-length']).toBe(String(body.length));
    }
  });

  test('that shows a session is never sent to a client without one', async () => {
    const { ask, events } = await serve((client) => replay(client, WITH_SESSION));
    const { status, text } = await ask();
    expect(status).toBe(500);
    expect(text).not.toContain('CellData');
    expect(events.filter(({ type }) => type === 'internal-error')).toHaveLength(1);
  });

  test('is told as the bytes that were sent', async () => {
    const gzip = gzipSource(WITH_SESSION);
    const facts = { sessionId: 'abc', gzip };
    const { ask, events } = await serve((client) => replay(client, WITH_SESSION, facts));
    const sent = [await ask(GZIP)];
    await until(() => gzip() !== undefined);
    sent.push(await ask(GZIP));
    await until(() => events.length === 2);
    expect(events).toEqual(
      sent.map(({ body }) =>
        expect.objectContaining({ type: 'xmla-answered', bytes: body.length, complete: true }),
      ),
    );
    expect(sent[0]?.body.length).not.toBe(sent[1]?.body.length);
  });

  test('is neither sent nor compressed for a client that went away', async () => {
    const door = gate();
    let made = 0;
    const gzip = gzipSource(LONG, async () => {
      made += 1;
      return undefined;
    });
    const { url, events } = await serve(async (client) => {
      const gone = new Promise((resolve) => client.signal.addEventListener('abort', resolve));
      door.open();
      await gone;
      replay(client, LONG, { gzip });
    });
    const leaving = new AbortController();
    const left = fetch(url, { method: 'POST', headers: GZIP, signal: leaving.signal }).catch(
      () => 'left',
    );
    await door.opened;
    leaving.abort();
    expect(await left).toBe('left');
    await until(() => events.length > 0);
    await quiet();
    expect(events).toEqual([
      expect.objectContaining({ type: 'xmla-answered', bytes: 0, complete: false }),
    ]);
    expect(made).toBe(0);
  });
});

describe('the header X-AS-SessionID', () => {
  const header = { ...SHORT, sessionHeader: true };
  const sent = async (answer: StoredAnswer, facts: Facts) => {
    const { ask } = await serve((client) => replay(client, answer, facts));
    const { status, headers, body } = await ask();
    expect([status, body]).toEqual([200, answer.body]);
    return headers['x-as-sessionid'];
  };

  test.each(['3A7F-2026', 'a b', '"', 'é', '\u0080\u00ff', 'a\tb'])(
    'carries the id of the client (%j)',
    async (sessionId) => {
      expect(await sent(header, { sessionId })).toBe(sessionId);
    },
  );

  test.each(['a\r\nset-cookie: x', 'a\nb', '\0', 'a\x7f', '€', '😀', ' a', 'a ', '\t', ''])(
    'is left out where HTTP cannot carry the id (%j)',
    async (sessionId) => {
      expect(await sent(header, { sessionId })).toBeUndefined();
    },
  );

  test('is not sent where the engine sent none, or the client has no session', async () => {
    expect(await sent(SHORT, { sessionId: 'a' })).toBeUndefined();
    expect(await sent(header, {})).toBeUndefined();
  });
});

/** A client that reads the head of an answer and then nothing more, and one that reads all. */
async function readsNothing(url: string): Promise<IncomingMessage> {
  const asked = request(url, { method: 'POST', agent: false }).on('error', () => {});
  asked.end();
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  return answer.on('error', () => {}).pause();
}

describe('the memory of a stored answer that is sent', () => {
  // More than the system takes for a client that does not read.
  const large = { ...SHORT, body: Buffer.alloc(20_000_000, ' ') };

  test('is counted once until the last client has it, also one that went away', async () => {
    const { url, ask, account } = await serve((client) => replay(client, large));
    const sending = () => account.usage().bytes.sending;
    const slow = await Promise.all([readsNothing(url), readsNothing(url)]);
    expect((await ask()).body).toHaveLength(large.body.length);
    expect(sending()).toBe(large.body.length);
    slow[0]?.destroy();
    let length = 0;
    for await (const chunk of slow[1]!) length += (chunk as Buffer).length;
    expect(length).toBe(large.body.length);
    await until(() => sending() === 0);
  });

  test('is not held for ever for a client that takes nothing of it', async () => {
    const { url, account, events, responses } = await serve((client) => replay(client, large));
    const answer = await readsNothing(url);
    expect(responses[0]?.socket?.timeout).toBe(300_000);
    responses[0]?.socket?.emit('timeout');
    await until(() => events.length > 0);
    expect(events).toEqual([expect.objectContaining({ type: 'xmla-answered', complete: false })]);
    expect(account.usage().bytes.sending).toBe(0);
    answer.destroy();
  });

  test('is counted where the body and where its variant is sent, and not the other one', async () => {
    const gzip = gzipSource(LONG);
    const seen: number[] = [];
    const { ask, account } = await serve((client) => {
      replay(client, LONG, { gzip });
      seen.push(account.usage().bytes.sending);
    });
    await ask(GZIP);
    await until(() => gzip() !== undefined);
    await ask(GZIP);
    expect(seen).toEqual([LONG.body.length, gzip()?.tail.length]);
  });
});

test.each([
  ['before its first byte', 0],
  ['in the middle', 7],
])(
  'an answer that was to end short breaks off %s, and the log tells of it',
  async (_where, sent) => {
    const { ask, events } = await serve((client) => {
      client.open({ status: 200, statusMessage: 'OK', headers: {} }, { kind: 'miss' }, undefined);
      if (sent > 0) client.write(Buffer.alloc(sent, 'x'));
      client.end(11, Buffer.alloc(3, 'x'));
    });
    expect(await ask().catch(() => ({ whole: false }))).toMatchObject({ whole: false });
    await until(() => events.length > 1);
    expect(events.map((event) => ('complete' in event ? event.complete : event.type))).toEqual([
      'internal-error',
      false,
    ]);
  },
);

test('an answer that was ended is whole, whatever fails behind its end', async () => {
  const body = Buffer.alloc(8 * 1024 * 1024, 'x');
  const { ask, events } = await serve((client) => {
    client.open({ status: 200, statusMessage: 'OK', headers: {} }, { kind: 'miss' }, body.length);
    client.write(body);
    client.end(body.length);
    client.fail(new Error('it could not be stored'));
  });
  expect((await ask()).body.length).toBe(body.length);
  await until(() => events.length > 1);
  expect(events.map(({ type }) => type)).toEqual(['internal-error', 'xmla-answered']);
});
