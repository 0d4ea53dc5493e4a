import { once } from 'node:events';
import { createServer, type IncomingMessage, request as httpRequest, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import express from 'express';
import { createPermissions, unauthenticated } from '../../../../src/auth/authenticator.ts';
import type { GatewayEvent } from '../../../../src/common/events.ts';
import {
  type AdminQuestion,
  createActHandler,
  questionAct,
} from '../../../../src/http/admin-act.ts';
import { errorMapper } from '../../../../src/app.ts';
import { onlyMethods } from '../../../../src/http/answers.ts';
import { execute } from '../../../support/envelopes.ts';
import { checkAgainstOpenApi } from '../../../support/openapi-check.ts';
import { principalOf } from '../../../../src/common/principal.ts';

const LIMIT = 2_000;
const BYPASS = { classification: { decision: 'bypass', reason: 'volatile' } };
const QUERY = execute({ statement: 'SELECT FROM [Sales]' });

const basic = (user: string) => `Basic ${Buffer.from(`${user}:x`).toString('base64')}`;

let server: Server;
const events: GatewayEvent[] = [];
const asked: AdminQuestion[] = [];
let answer: () => Promise<object>;

beforeAll(async () => {
  const app = express();
  const options = {
    login: async ({ headers: { authorization } }: IncomingMessage) => {
      if (authorization === undefined) {
        throw unauthenticated();
      }
      return principalOf(authorization === basic('ADMIN') ? 'ADMIN' : 'bob');
    },
    permissions: createPermissions(
      { admins: ['ADMIN'], viewers: [], purgers: ['bob'] },
      'everybody',
    ),
    maxBodyBytes: LIMIT,
  };
  const tell = (question: AdminQuestion) => {
    asked.push(question);
    return answer();
  };
  const explain = createActHandler(options, questionAct(tell, { user: true }));
  app.all('/admin/explain', onlyMethods('POST'), explain);
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
  answer = async () => BYPASS;
});
afterEach(() => {
  asked.length = 0;
  events.length = 0;
});

interface Message {
  readonly method?: string;
  /** The query with its question mark. */
  readonly search?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer;
}

/** Sends a request; its answer must be one that the OpenAPI document describes. */
async function send({ method = 'POST', search = '', headers = {}, body }: Message) {
  const { port } = server.address() as AddressInfo;
  const path = `/admin/explain${search}`;
  const sent = httpRequest({ host: '127.0.0.1', port, method, path, headers, agent: false });
  sent.end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const bytes = Buffer.concat(await response.toArray());
  const { statusCode: status = 0, headers: got } = response;
  await checkAgainstOpenApi(method, path, { status, headers: got, body: bytes });
  return { status, headers: got, text: bytes.toString('utf8') };
}

async function explained({ headers, body = QUERY, ...message }: Message = {}) {
  const answered = await send({
    ...message,
    headers: {
      authorization: basic('ADMIN'),
      'content-type': 'text/xml',
      'content-length': String(body.length),
      ...headers,
    },
    body,
  });
  return { ...answered, json: JSON.parse(answered.text) as Record<string, unknown> };
}

describe('who may ask for an explanation', () => {
  test.each([
    ['a user who may purge only', { authorization: basic('bob') }, 403, 'forbidden'],
    ['another site', { 'sec-fetch-site': 'cross-site' }, 403, 'forbidden'],
    ['another origin', { origin: 'https://evil.example' }, 403, 'forbidden'],
    ['somebody in the name of another', { 'execute-as-user-id': 'x' }, 403, 'identity-refused'],
  ] as const)('is not %s', async (_who, headers, status, error) => {
    const refused = await explained({ headers });
    expect([refused.status, refused.json['error']]).toEqual([status, error]);
    expect(asked).toEqual([]);
  });

  test('is nobody without credentials', async () => {
    const { status, headers } = await send({});
    expect([status, headers['www-authenticate']]).toEqual([401, expect.stringMatching(/^Basic /)]);
    expect(asked).toEqual([]);
  });

  test.each(['GET', 'HEAD', 'PUT', 'DELETE'])('is nobody by %s', async (method) => {
    const { status, headers } = await send({ method });
    expect([status, headers.allow]).toEqual([405, 'POST, OPTIONS']);
  });
});

describe('what is explained', () => {
  test('is the request of the administrator without a project, where nothing else is said', async () => {
    const { json } = await explained();
    expect(asked).toEqual([
      {
        id: expect.any(String),
        headers: { 'content-type': 'text/xml' },
        authorization: basic('ADMIN'),
        body: QUERY,
        project: undefined,
        administrator: principalOf('ADMIN'),
        principal: principalOf('ADMIN'),
        signal: expect.any(AbortSignal),
      },
    ]);
    expect(json).toEqual({ user: 'ADMIN', ...BYPASS });
  });

  test('is the request of another user in a project', async () => {
    const search = `?user=${encodeURIComponent('zoë "x"')}&project=${encodeURIComponent('a/b 100% 销售')}`;
    const { json } = await explained({ search });
    expect(asked).toMatchObject([
      {
        project: 'a/b 100% 销售',
        principal: { name: 'zoë "x"' },
        administrator: principalOf('ADMIN'),
      },
    ]);
    expect(json).toMatchObject({ project: 'a/b 100% 销售', user: 'zoë "x"' });
  });

  test('is what the body says without its content coding', async () => {
    await explained({ body: gzipSync(QUERY), headers: { 'content-encoding': 'gzip' } });
    expect(asked).toMatchObject([{ body: QUERY }]);
  });

  test('has those headers of the call by which XMLA is understood, and no credentials', async () => {
    const counting = {
      'content-type': 'text/xml; charset=utf-8',
      soapaction: '"urn:schemas-microsoft-com:xml-analysis:Execute"',
      'user-agent': 'MSOLAP 16.0 Client',
      'x-as-sessionid': 'S1',
      'x-as-getsessiontoken': '1',
      accept: 'text/xml',
    };
    await explained({ headers: { ...counting, cookie: 'x=y', 'x-forwarded-user': 'bob' } });
    expect(asked[0]?.headers).toEqual(counting);
  });

  test.each(['application/json', '*/*', 'application/json, text/xml', 'text/html', ''])(
    'explains its own Accept: %s',
    async (accept) => {
      await explained({ headers: { accept } });
      expect(asked[0]?.headers.accept).toBe(accept);
    },
  );

  test.each([
    ['?x=1', 'x is no query parameter'],
    ['?Project=a', 'Project is no query parameter'],
    ['?EXECUTE_AS_USER_ID=a', 'EXECUTE_AS_USER_ID'],
    ['?__proto__=a', '__proto__'],
    ['?user=a&user=b', 'user is given more than once'],
    ['?project=a&project=a', 'project is given more than once'],
    ['?user=', 'user must be'],
    ['?user=a:b', 'user must be'],
    ['?user=a%0ab', 'user must be'],
    [`?user=${'a'.repeat(256)}`, 'user must be'],
    ['?user=%ff', 'not well-formed'],
    ['?project=', 'project must be'],
    ['?project=..', 'project must be'],
    ['?project=.', 'project must be'],
    ['?project=a%00', 'control character'],
    ['?project=a%2f..', 'project must be'],
    ['?project=clearCache', 'project must be'],
    ['?project=a%2FclearCache', 'clearCache'],
  ])('is nothing for %s', async (search, why) => {
    const { status, json } = await explained({ search });
    expect([status, json['error'], json['message']]).toEqual([
      400,
      'bad-request',
      expect.stringContaining(why),
    ]);
    expect(asked).toEqual([]);
  });

  test.each([
    ['too long a body', { body: Buffer.alloc(LIMIT + 1) }, 413, 'too-big'],
    ['an unknown coding', { headers: { 'content-encoding': 'br' } }, 415, 'content-coding'],
    ['a broken coding', { headers: { 'content-encoding': 'gzip' } }, 400, 'bad-request'],
  ])('is nothing for %s', async (_what, message, status, error) => {
    const refused = await explained(message);
    expect([refused.status, refused.json['error']]).toEqual([status, error]);
    expect(asked).toEqual([]);
  });
});

describe('the explanation', () => {
  const cacheable = { decision: 'cacheable', method: 'Execute', share: 'roles' } as const;
  const entry = { age_ms: 1, ttl_ms: 3, bytes: 10, engine_ms: 4 };
  const cache = {
    key: 'k',
    parts: [{ name: 'engine', digest: 'd' }],
    epochs: [{ scope: 'everything', token: 't' }],
    memory: entry,
    redis: entry,
    flight: true,
    nearest: { differs: ['statement'], age_ms: 7 },
  } as const;

  test('is JSON for readers', async () => {
    const explanation = { classification: { ...cacheable, ttl_ms: 60_000 }, cache };
    answer = async () => explanation;
    const { text, json, headers } = await explained({ search: '?project=p' });
    expect(json).toEqual({ project: 'p', user: 'ADMIN', ...explanation });
    expect(text).toMatch(/^\{\n {2}"project": "p",\n[\s\S]*\}\n$/);
    expect(headers).toMatchObject({
      'content-type': 'application/json',
      'cache-control': 'no-store',
    });
  });

  test.each([null, 'off', 'unavailable'] as const)(
    'tells what is not there: redis %s',
    async (redis) => {
      const nothing = { memory: null, redis, flight: false, nearest: null } as const;
      const empty = { ...cache, ...nothing, epochs: 'unknown' } as const;
      answer = async () => ({ classification: cacheable, cache: empty });
      const { json } = await explained();
      expect(json['cache']).toEqual(empty);
    },
  );

  test('that fails is told with an id, and to the log', async () => {
    const error = new Error('broken');
    answer = async () => {
      throw error;
    };
    const { status, json } = await explained();
    expect([status, json['error']]).toEqual([500, 'internal']);
    expect(events).toEqual([{ type: 'internal-error', id: 'id', error }]);
  });
});
