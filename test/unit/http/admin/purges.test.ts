import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import express from 'express';
import {
  createPermissions,
  type Login,
  unauthenticated,
} from '../../../../src/auth/authenticator.ts';
import type { GatewayEvent } from '../../../../src/common/events.ts';
import { errorMapper } from '../../../../src/app.ts';
import { onlyMethods } from '../../../../src/http/answers.ts';
import { createAdmin, createAdminHandler } from '../../../../src/http/admin.ts';
import type { PurgeLog, PurgeRecord } from '../../../../src/cache/purge/purge-log.ts';
import { handClock } from '../../features/statistics/answered.ts';
import { checkAgainstOpenApi } from '../../../support/openapi-check.ts';
import { principalOf } from '../../../../src/common/principal.ts';

const RECORD: PurgeRecord = {
  id: 'oUq0MShjHbDl5nUI2bYzwQ',
  at: Date.UTC(2026, 0, 2, 3, 4, 5, 678),
  principal: 'bob',
  cause: 'clear-cache',
  scope: { project: 'Käse "a/b"' },
  result: 'engine-failed',
  replicas: 3,
  waited: 1100,
  known: true,
  engine_calls: 2,
};

const basic = (user: string) => `Basic ${Buffer.from(`${user}:x`).toString('base64')}`;

let server: Server;
const events: GatewayEvent[] = [];
const limits: number[] = [];
let latest: PurgeLog['latest'];

beforeAll(async () => {
  const app = express();
  const login: Login = async ({ headers: { authorization } }) => {
    if (authorization === undefined) throw unauthenticated();
    const [name = ''] = Buffer.from(authorization.slice(6), 'base64').toString().split(':');
    return principalOf(name);
  };
  const admin = createAdmin({
    ofFeatures: [],
    clock: handClock(),
    emit() {},
    permissions: createPermissions(
      { admins: ['ADMIN'], viewers: ['eve'], purgers: ['bob'] },
      'everybody',
    ),
    purgeLog: {
      latest(most) {
        limits.push(most);
        return latest(most);
      },
    },
  });
  for (const path of admin.paths) {
    app.all(path, onlyMethods('GET', 'HEAD'), createAdminHandler({ login, admin, path }));
  }
  app.use(
    errorMapper(
      () => 'id',
      (event) => events.push(event),
    ),
  );
  server = createServer(app).listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterAll(async () => {
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
});
beforeEach(() => {
  latest = async () => ({ complete: true, purges: [RECORD] });
});
afterEach(() => {
  events.length = 0;
  limits.length = 0;
});

/** Sends a request; its answer must be one that the OpenAPI document describes. */
async function ask(
  search = '',
  { method = 'GET', headers = { authorization: basic('ADMIN') } as Record<string, string> } = {},
) {
  const { port } = server.address() as AddressInfo;
  const path = `/admin/purges${search}`;
  const sent = httpRequest({ host: '127.0.0.1', port, method, path, headers, agent: false });
  sent.end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const body = Buffer.concat(await response.toArray());
  const { statusCode: status = 0, headers: got } = response;
  await checkAgainstOpenApi(method, path, { status, headers: got, body });
  const text = body.toString('utf8');
  const json = text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
  return { status, headers: got, text, json };
}

describe('the latest purges', () => {
  test('are told as the log has them, with their times in ISO 8601', async () => {
    const everything = { ...RECORD, scope: 'everything', result: 'cleared' } as const;
    latest = async () => ({ complete: true, purges: [everything, RECORD] });
    const { status, headers, text, json } = await ask();
    expect(status).toBe(200);
    expect(json).toEqual({
      complete: true,
      purges: [
        { ...everything, at: '2026-01-02T03:04:05.678Z' },
        { ...RECORD, at: '2026-01-02T03:04:05.678Z' },
      ],
    });
    expect(text).toMatch(/^\{\n {2}"complete": true,\n[\s\S]*\}\n$/);
    expect(headers).toMatchObject({
      'content-type': 'application/json',
      'cache-control': 'no-store',
      'content-length': String(Buffer.byteLength(text)),
    });
  });

  test('say when those of other gateways could not be read', async () => {
    latest = async () => ({ complete: false, purges: [] });
    expect((await ask()).json).toEqual({ complete: false, purges: [] });
  });

  test.each([
    ['', 100],
    ['?', 100],
    ['?limit=1', 1],
    ['?limit=1000', 1000],
    ['?limit=%31%30', 10],
  ])('with the query %j are at most %d', async (search, limit) => {
    expect((await ask(search)).status).toBe(200);
    expect(limits).toEqual([limit]);
  });

  test.each([
    ['?limit=0', 'limit must be a whole number from 1 to 1000'],
    ['?limit=1001', 'from 1 to 1000'],
    ['?limit=', 'from 1 to 1000'],
    ['?limit', 'from 1 to 1000'],
    ['?limit=-1', 'from 1 to 1000'],
    ['?limit=+1', 'from 1 to 1000'],
    ['?limit=1.0', 'from 1 to 1000'],
    ['?limit=1e2', 'from 1 to 1000'],
    ['?limit=010', 'from 1 to 1000'],
    ['?limit=99999999999999999999', 'from 1 to 1000'],
    ['?limit=1&limit=1', 'limit is given more than once'],
    ['?Limit=1', 'Limit is no query parameter here; allowed is limit'],
    ['?limit=1&x=2&y=3', 'x, y is no query parameter'],
    ['?__proto__=1', '__proto__ is no query parameter'],
    ['?EXECUTE_AS_USER_ID=bob', 'EXECUTE_AS_USER_ID'],
    ['?limit=%ff', 'not well-formed'],
  ])('are not told for the query %s, with a clear error', async (search, why) => {
    const { status, json } = await ask(search);
    expect([status, json['error'], json['message']]).toEqual([
      400,
      'bad-request',
      expect.stringContaining(why),
    ]);
    expect(limits).toEqual([]);
  });

  test('are not told when the log fails, which is an error of the gateway', async () => {
    latest = () => Promise.reject(new Error('broken'));
    const { status, json } = await ask();
    expect([status, json['error']]).toEqual([500, 'internal']);
    expect(events).toMatchObject([{ type: 'internal-error', error: { message: 'broken' } }]);
  });
});

describe('who is told of purges', () => {
  test.each(['ADMIN', 'eve', 'bob'])('is %s, who may administer, view or purge', async (user) => {
    const { status } = await ask('', { headers: { authorization: basic(user) } });
    expect(status).toBe(200);
  });

  test.each([
    ['a user without a right', { authorization: basic('alice') }, 'forbidden'],
    [
      'somebody in the name of another',
      { authorization: basic('ADMIN'), 'execute-as-user-id': 'x' },
      'identity-refused',
    ],
  ])('is not %s', async (_who, headers, error) => {
    const { status, json } = await ask('', { headers });
    expect([status, json['error']]).toEqual([403, error]);
    expect(limits).toEqual([]);
  });

  test('is nobody without credentials', async () => {
    const { status, headers } = await ask('', { headers: {} });
    expect([status, headers['www-authenticate']]).toEqual([401, expect.stringMatching(/^Basic /)]);
    expect(limits).toEqual([]);
  });

  test.each([
    ['POST', 405],
    ['PUT', 405],
    ['DELETE', 405],
    ['OPTIONS', 204],
  ])('is nobody by %s', async (method, expected) => {
    const { status, headers } = await ask('', { method });
    expect([status, headers.allow]).toEqual([expected, 'GET, HEAD, OPTIONS']);
    expect(limits).toEqual([]);
  });

  test('is not told by HEAD more than how long it would be', async () => {
    const { text } = await ask();
    const { status, headers, text: nothing } = await ask('', { method: 'HEAD' });
    expect([status, nothing, headers['content-length']]).toEqual([
      200,
      '',
      String(Buffer.byteLength(text)),
    ]);
  });
});
