import { afterEach, describe, expect, test } from '@jest/globals';
import { gunzipSync } from 'node:zlib';
import { makeVariant, type StoredAnswer } from '../../../../src/cache/stored-answer.ts';
import { until } from '../../../support/http-client.ts';
import { gate } from '../../../support/stub-engine.ts';
import {
  closeServers,
  GZIP,
  gzipSource,
  inSession,
  LONG,
  replay,
  serve,
  SHORT,
  WITH_SESSION,
} from './replay-server.ts';

afterEach(closeServers);

describe('a stored answer that is asked for in gzip', () => {
  test('is sent as it is until it has been compressed, which happens once', async () => {
    const door = gate();
    let made = 0;
    const gzip = gzipSource(LONG, async (...given) => {
      made += 1;
      await door.opened;
      return makeVariant(...given);
    });
    const { ask } = await serve((client) => replay(client, LONG, { gzip }));
    for (let turn = 0; turn < 3; turn += 1) {
      const { headers, body } = await ask(GZIP);
      expect([headers['content-encoding'], headers.vary]).toEqual([undefined, 'accept-encoding']);
      expect(body).toEqual(LONG.body);
    }
    door.open();
    await until(() => gzip() !== undefined);
    for (let turn = 0; turn < 2; turn += 1) {
      const { headers, body } = await ask(GZIP);
      expect(headers).toMatchObject({
        'content-encoding': 'gzip',
        'content-length': String(body.length),
        'content-type': 'text/xml',
        vary: 'accept-encoding',
      });
      expect(body.length).toBeLessThan(LONG.body.length / 2);
      expect(gunzipSync(body)).toEqual(LONG.body);
    }
    expect(made).toBe(1);
  });

  test('shows every client his own session', async () => {
    const gzip = gzipSource(WITH_SESSION);
    const ids = ['first', 'second', 'thi&rd'];
    const { ask } = await serve((client) => {
      replay(client, WITH_SESSION, { sessionId: ids.shift() ?? 'none is left', gzip });
    });
    expect((await ask(GZIP)).body).toEqual(inSession('first'));
    await until(() => gzip() !== undefined);
    for (const written of ['second', 'thi&amp;rd']) {
      const { headers, body } = await ask(GZIP);
      expect(headers['content-encoding']).toBe('gzip');
      expect(gunzipSync(body)).toEqual(inSession(written));
    }
  });

  test('and shows a session is never sent to a client without one', async () => {
    const variant = await makeVariant(WITH_SESSION.body, WITH_SESSION.session?.at ?? 0);
    const gzip = () => variant;
    expect(variant).toBeDefined();
    const { ask } = await serve((client) => replay(client, WITH_SESSION, { gzip }));
    const { status, headers } = await ask(GZIP);
    expect([status, headers['content-encoding']]).toEqual([500, undefined]);
  });

  test('and lies there as it is too goes out so, with the id of each session, and as gzip to those who take it', async () => {
    const { body: plain, session } = WITH_SESSION;
    const body = await makeVariant(plain, session?.at ?? 0);
    if (body === undefined) throw new Error('it did not pay');
    const ids = ['abc', 'x&y', 'def'];
    const { ask } = await serve((client) =>
      replay(client, { ...WITH_SESSION, body }, { sessionId: ids.shift() ?? '', plain }),
    );
    const first = await ask();
    expect([first.body, first.headers['content-encoding']]).toEqual([inSession('abc'), undefined]);
    expect((await ask()).body).toEqual(inSession('x&amp;y'));
    expect(gunzipSync((await ask(GZIP)).body)).toEqual(inSession('def'));
  });

  test.each([{}, { 'accept-encoding': 'gzip;q=0' }, { 'accept-encoding': 'br, gzip;q=x' }])(
    'and only then: %j',
    async (headers: Record<string, string>) => {
      const variant = await makeVariant(LONG.body, 0);
      const gzip = () => variant;
      const { ask } = await serve((client) => replay(client, LONG, { gzip }));
      const answer = await ask(headers);
      expect(answer.headers['content-encoding']).toBeUndefined();
      expect(answer.body).toEqual(LONG.body);
    },
  );

  test.each<[string, StoredAnswer, Record<string, string>, boolean]>([
    ['the client does not ask for it', LONG, {}, true],
    ['the answer is short', SHORT, GZIP, true],
    ['nobody would find it again', LONG, GZIP, false],
  ])('is not compressed where %s', async (_what, answer, headers, keeps) => {
    let made = 0;
    const gzip = gzipSource(answer, async () => {
      made += 1;
      return undefined;
    });
    const { ask } = await serve((client) => replay(client, answer, keeps ? { gzip } : {}));
    const { body, headers: said } = await ask(headers);
    expect([body, made]).toEqual([answer.body, 0]);
    expect(said.vary).toBe(answer === SHORT ? undefined : 'accept-encoding');
  });

  test('is sent whole when it cannot be compressed', async () => {
    const gzip = gzipSource(LONG, () => Promise.reject(new Error('out of memory')));
    const { ask, events } = await serve((client) => replay(client, LONG, { gzip }));
    for (let turn = 0; turn < 2; turn += 1) {
      expect(await ask(GZIP)).toMatchObject({ status: 200, body: LONG.body, whole: true });
    }
    await until(() => events.length === 2);
    expect(events.map(({ type }) => type)).toEqual(['xmla-answered', 'xmla-answered']);
  });
});
