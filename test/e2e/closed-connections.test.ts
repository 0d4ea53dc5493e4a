import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Socket } from 'node:net';
import { mddatasetAnswer } from '../support/answers.ts';
import { discover, execute, type SessionSpec } from '../support/envelopes.ts';
import { askXmla, shortStatus, until } from '../support/http-client.ts';
import { startRawEngine, wholeAnswer, type RawEngine } from '../support/raw-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/**
 * An engine may close a kept connection in the moment in which the next request goes out on it, and nobody can say whether
 * it read that request. What only reads goes out once more; what begins, ends or runs in a session, or may change something,
 * never does.
 */

let engine: RawEngine;
let gateway: TestGateway;
let count = 0;

beforeAll(async () => {
  engine = await startRawEngine(answers);
  gateway = await startTestGateway({ engine: { url: engine.url, kind: 'mondrian' } });
  // The first query of all goes another way than the next ones.
  for (let index = 0; index < 3; index += 1) await kept();
});
afterAll(async () => {
  await gateway.close();
  await engine.close();
});

const answers = (socket: Socket) => void socket.write(wholeAnswer(mddatasetAnswer()));

const properties = { Catalog: 'A' };
const reading = (text: string, session?: SessionSpec) =>
  execute({
    statement: `${text} FROM [S ${(count += 1)}]`,
    properties,
    ...(session && { session }),
  });
const odd = (body: Buffer, from: string, to: string) =>
  Buffer.from(body.toString().replace(from, to));

/** Leaves connections that are kept: one of queries, and one of what is passed through. */
async function kept(): Promise<void> {
  engine.answerWith(answers);
  await askXmla(gateway.url, reading('SELECT'));
  await askXmla(gateway.url, reading('DRILLTHROUGH SELECT'));
  await new Promise(setImmediate);
}

/** Sends a request, at which the engine closes each connection that is kept. @returns its status, and how often it came */
async function sent(body: Buffer, message: Parameters<typeof askXmla>[2] = {}) {
  await kept();
  const before = new Set(engine.sockets);
  engine.seen.length = 0;
  engine.answerWith((socket) => (before.has(socket) ? void socket.destroy() : answers(socket)));
  const answer = await askXmla(gateway.url, body, message);
  await until(() => [...before].every((socket) => socket.destroyed || engine.sockets.has(socket)));
  return [answer.status, engine.seen.length];
}

describe('a request at which the engine closes its kept connection', () => {
  test.each<[string, () => Buffer]>([
    ['a query', () => reading('SELECT')],
    ['DRILLTHROUGH', () => reading('DRILLTHROUGH SELECT')],
    ['a volatile SELECT', () => reading('SELECT Now() ON 0')],
    ['EVALUATE', () => execute({ statement: "EVALUATE 'T'", properties })],
    ['a Discover', () => discover({ requestType: 'DISCOVER_SESSIONS', properties })],
  ])('goes out once more where it only reads: %s', async (_what, bodyOf) => {
    expect(await sent(bodyOf())).toEqual([200, 2]);
  });

  const inSession = { kind: 'in', id: 's' } as const;
  test.each<[string, () => Buffer, Parameters<typeof askXmla>[2]?]>([
    ['a query in a session', () => reading('SELECT', inSession)],
    [
      'a query in the session of a header',
      () => reading('SELECT'),
      { headers: { 'x-as-sessionid': 's' } },
    ],
    ['DRILLTHROUGH in a session', () => reading('DRILLTHROUGH SELECT', inSession)],
    ['the beginning of a session', () => execute({ statement: '', session: { kind: 'begin' } })],
    ['the end of a session', () => execute({ statement: '', session: { kind: 'end', id: 's' } })],
    ['CREATE SESSION MEMBER', () => execute({ statement: 'CREATE SESSION MEMBER [a].[b] AS 1' })],
    ['UPDATE CUBE', () => execute({ statement: 'UPDATE CUBE [a] SET x = 1' })],
    ['SELECT INTO', () => execute({ statement: 'SELECT * INTO [x] FROM [y]' })],
    ['two statements', () => execute({ statement: 'SELECT FROM [a]; SELECT FROM [b]' })],
    ['what is odd', () => odd(reading('SELECT'), '<Command>', '<Command x="y">')],
    ['what cannot be read', () => odd(reading('SELECT'), 'UTF-8', 'UTF-7')],
    ['another method', () => reading('SELECT'), { method: 'PUT' }],
  ])('goes out once and no more: %s', async (...[, bodyOf, message]) => {
    expect(await sent(bodyOf(), message)).toEqual([502, 1]);
  });

  test('goes out once and no more when a part of an answer has come', async () => {
    for (const text of ['SELECT', 'DRILLTHROUGH SELECT']) {
      await kept();
      engine.seen.length = 0;
      engine.answerWith((socket) => void socket.end('HTTP/1.1 200 OK\r\nConte'));
      const answer = await askXmla(gateway.url, reading(text));
      expect([shortStatus(answer), engine.seen.length]).toEqual(['gateway engine-unreachable', 1]);
    }
  });

  test('goes out twice and no more when the new connection is closed as well', async () => {
    await kept();
    engine.seen.length = 0;
    engine.answerWith((socket) => void socket.destroy());
    expect((await askXmla(gateway.url, reading('DRILLTHROUGH SELECT'))).status).toBe(502);
    expect(engine.seen).toHaveLength(2);
  });
});
