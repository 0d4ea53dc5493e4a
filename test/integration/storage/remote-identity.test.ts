import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { makeAuthority, type Authority } from '../../support/certificates.ts';
import { portOf, sendRaw } from '../../support/http-client.ts';
import { sendXml, startStubEngine, type StubEngine } from '../../support/stub-engine.ts';
import { basic } from '../../support/test-gateway.ts';
import {
  ask,
  DOCUMENT,
  failureOf,
  openRemoteHouse,
  READS,
  type RemoteHouse,
} from './remote-house.ts';

const SERVICE = { login: 'service', service: { name: 'gateway', password: 'pä:ss' } } as const;
const SERVICE_HEADER = `Basic ${Buffer.from('gateway:pä:ss').toString('base64')}`;

let remote: StubEngine;
let forwarding: RemoteHouse;
let serving: RemoteHouse;

beforeAll(async () => {
  remote = await startStubEngine(() => {});
  const base = new URL('/base', remote.url).href;
  forwarding = await openRemoteHouse(base);
  serving = await openRemoteHouse(base, SERVICE);
});
afterAll(async () => {
  await forwarding.close();
  await serving.close();
  await remote.close();
});
beforeEach(() => remote.answerWith(sendXml('{}')));
afterEach(() => {
  remote.seen.length = 0;
  serving.invalidated.length = 0;
});

const REQUESTS = [
  ['a read', 'GET', READS[0], undefined],
  ['a change of a role', 'POST', '/role', '{"name":"a"}'],
  ['a change of a dataset', 'PUT', '/dataset', DOCUMENT],
] as const;

describe.each(REQUESTS)('%s', (_what, method, path, body) => {
  test('takes the login of the client along with login: forward', async () => {
    await ask(forwarding, method, path, body, { connection: 'close, authorization' });
    expect(remote.seen.map(({ headers }) => headers.authorization)).toEqual([basic('ADMIN')]);
  });

  test('takes the login of the gateway with login: service, and never that of the client', async () => {
    await ask(serving, method, path, body);
    const [{ rawHeaders }] = remote.seen as [(typeof remote.seen)[0]];
    expect(rawHeaders.filter((text) => text.startsWith('Basic'))).toEqual([SERVICE_HEADER]);
  });

  test.each([
    ['cookie', 'MDXAUTH=admin'],
    ['gatewayauth', 'admin'],
    ['GATEWAYAUTH', 'admin'],
    ['x-forwarded-user', 'admin'],
    ['x_forwarded_user', 'admin'],
    ['x-forwarded-groups', 'admins'],
    ['x-remote-user', 'admin'],
    ['proxy-authorization', 'Basic eDp5'],
    ['te', 'trailers'],
    ['upgrade', 'h2c'],
    ['keep-alive', 'timeout=1'],
    ['expect', '100-continue'],
    ['x-http-method-override', 'DELETE'],
    ['x_http_method_override', 'DELETE'],
    ['x-http-method', 'DELETE'],
    ['x-method-override', 'DELETE'],
    ['x-original-url', '/api/role/1'],
    ['x-rewrite-url', '/api/role/1'],
    ['x-forwarded-method', 'DELETE'],
    ['x-original-method', 'DELETE'],
    ['x-method', 'DELETE'],
    ['x-forwarded-uri', '/api/role/1'],
    ['x-original-uri', '/api/role/1'],
    ['x-http-path-override', '/api/role/1'],
    ['x-forwarded-prefix', '/admin'],
    ['x-proxy-user', 'admin'],
    ['x-user', 'admin'],
    ['x-webauth-user', 'admin'],
    ['x-authenticated-user', 'admin'],
    ['x-forwarded-for', '10.0.0.1'],
    ['if-none-match', '"x"'],
    ['range', 'bytes=0-1'],
    ['x-nobody-thought-of', 'anything'],
    ['accept-language', 'of this connection'],
  ])('does not take the header %s along', async (name, value) => {
    const named = name === 'accept-language' ? { connection: 'close, accept-language' } : {};
    await ask(forwarding, method, path, body, { 'user-agent': 'curl/8', ...named, [name]: value });
    const [{ headers, rawHeaders }] = remote.seen as [(typeof remote.seen)[0]];
    expect(rawHeaders).not.toContain(value);
    expect(headers[name.toLowerCase()]).toBeUndefined();
    expect(headers['user-agent']).toBe('curl/8');
  });

  test('takes what says how to read and to answer along, and nothing but the login beside', async () => {
    const said = {
      accept: 'application/json',
      'accept-language': 'de',
      'accept-encoding': 'br',
      'user-agent': 'curl/8',
    };
    await ask(serving, method, path, body, { ...said, 'x-other': 'stays' });
    const [{ headers }] = remote.seen as [(typeof remote.seen)[0]];
    expect(headers).toEqual({
      ...said,
      host: new URL(remote.url).host,
      connection: 'close',
      authorization: SERVICE_HEADER,
      ...(body !== undefined && {
        'content-type': 'application/json;charset=utf8',
        'content-length': String(body.length),
      }),
    });
  });

  test.each([
    ['header', { EXECUTE_AS_USER_ID: 'ADMIN' }, ''],
    ['header with other letters', { 'Execute-As-User_Id': 'ADMIN' }, ''],
    ['parameter', {}, 'EXECUTE_AS_USER_ID=ADMIN'],
    ['parameter with other letters', {}, 'a&execute_as_user%5fid='],
  ])(
    'for the rights of another user by a %s is refused, and nothing is sent',
    async (_what, headers, parameter) => {
      const separator = path.includes('?') ? '&' : '?';
      const answer = await ask(serving, method, `${path}${separator}${parameter}`, body, headers);
      expect(failureOf(answer)).toMatch(/^403 \[identity-refused\] EXECUTE_AS_USER_ID /);
      expect(remote.seen).toEqual([]);
    },
  );

  test('does not tell the server where the page of the client is', async () => {
    // By the server's own name it would look like another site.
    const { host } = new URL(forwarding.url);
    const headers = { origin: `http://${host}`, referer: `http://${host}/docs`, host };
    const answer = await ask(forwarding, method, path, body, headers);
    expect(answer.status).toBe(200);
    const [seen] = remote.seen as [(typeof remote.seen)[0]];
    expect([seen.headers.origin, seen.headers.referer]).toEqual([undefined, undefined]);
    expect(seen.headers.host).toBe(new URL(remote.url).host);
  });

  test.each(['username=admin', 'Password=x', 'user%69d=1', '_method=DELETE', 'rolename=a', 'b'])(
    'does not take %s in the query along',
    async (parameter) => {
      const separator = path.includes('?') ? '&' : '?';
      await ask(forwarding, method, `${path}${separator}${parameter}`, body);
      expect(remote.seen.map(({ url }) => url)).toEqual([`/base/api${path}`]);
    },
  );

  test('brings no cookie and nothing of the connection back', async () => {
    remote.answerWith(
      sendXml('{}', {
        headers: {
          'set-cookie': 'MDXAUTH=secret',
          'keep-alive': 'timeout=1',
          'proxy-authenticate': 'Basic',
          connection: 'close, x-secret',
          'x-secret': 'of this connection',
          'cache-control': 'public, max-age=60',
          'x-other': 'passes',
        },
      }),
    );
    const { headers } = await ask(forwarding, method, path, body);
    expect(headers).not.toHaveProperty('set-cookie');
    expect(headers).not.toHaveProperty('proxy-authenticate');
    expect(headers).not.toHaveProperty('x-secret');
    expect(headers['keep-alive']).not.toBe('timeout=1');
    expect(headers['x-other']).toBe('passes');
    expect(headers['cache-control']).toBe('no-store');
  });

  test.each([401, 407])(
    'that the server refuses to the gateway (%i) is its operator’s matter',
    async (status) => {
      remote.answerWith(
        sendXml('gateway may not enter', { status, headers: { 'www-authenticate': 'Basic' } }),
      );
      const answer = await ask(serving, method, path, body);
      expect(failureOf(answer)).toBe(
        '503 [storage-unavailable] The storage refused the login of the gateway; its operator must correct storage.service.',
      );
      expect(answer.headers).not.toHaveProperty('www-authenticate');
      expect(serving.invalidated.filter(([, , state]) => state !== 'before')).toEqual([]);
    },
  );

  test('that the server refuses to the client is the client’s matter', async () => {
    const headers = { 'www-authenticate': 'Basic realm="remote"' };
    remote.answerWith(sendXml('no', { status: 401, headers }));
    const answer = await ask(forwarding, method, path, body);
    expect([answer.status, answer.text]).toEqual([401, 'no']);
    expect(answer.headers['www-authenticate']).toBe('Basic realm="remote"');
  });
});

test('the body of a read is not taken along', async () => {
  const answer = await ask(serving, 'GET', READS[0], 'GET /api/role/1 HTTP/1.1\r\n\r\n');
  expect(answer.status).toBe(200);
  expect(remote.seen.map(({ body, headers }) => [body.length, headers['content-length']])).toEqual([
    [0, undefined],
  ]);
});

describe('a path', () => {
  test.each([
    '/role/..',
    '/role/.',
    '/role/%2e%2e',
    '/role/%2E.',
    '/role/.%2e/',
    '/role/..;x=1',
    '/role/..%3b',
    '/role/..%2f..%2fadmin',
    '/role/..%5c..%5cadmin',
    '/role/1%2f..',
    '/role/1%2f%2e%2e%2fadmin',
    '/role/user/visibility/..',
    '/datasets/MDX/..',
    '/datasets/MDX/%2e%2e',
    '/datasets/MDX/a%2f..%3bb%2fc',
  ])('that would climb at the server is refused: %s', async (path) => {
    // Clients clean paths up, so that these go out raw.
    const method = path.includes('visibility') ? 'DELETE' : 'GET';
    const raw = await sendRaw(
      portOf(serving.url),
      `${method} /api${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: ${basic('ADMIN')}\r\n\r\n`,
    );
    const text = raw.bytes.toString();
    expect(text).toMatch(/^HTTP\/1\.1 400 /);
    expect(text).toMatch(/"\[BAD-REQUEST\] (roleId|project): /);
    expect(remote.seen).toEqual([]);
  });

  test.each([
    ['/role/1', '/role/1'],
    ['/role/1/', '/role/1/'],
    ['/role/%31', '/role/%31'],
    ['/role/...', '/role/...'],
    ['/role/a%2fb%5Cc', '/role/a%2fb%5Cc'],
    ['/datasets/MDX/%252e%252e', '/datasets/MDX/%252e%252e'],
    ['/datasets/MDX/a..b%2e', '/datasets/MDX/a..b%2e'],
    ['/datasets/MDX/%C3%BC%00%0a', '/datasets/MDX/%C3%BC%00%0a'],
    ['/datasets/MDX/a|b"{}\'^`', '/datasets/MDX/a|b"{}\'^`'],
    ['/roles?', '/roles'],
    ['/roles?RoleName=b?c=../..&%zz=%2e', '/roles?RoleName=b?c=../..'],
    ['/roles?//evil.example/', '/roles'],
    ['/roles?page%4eum=%20+&pageNum=1', '/roles?page%4eum=%20+&pageNum=1'],
    ['/roles?&&RoleName&pageSize=', '/roles?RoleName&pageSize='],
    ['/roles?RoleName=a;_method=DELETE', '/roles?RoleName=a%3B_method=DELETE'],
    ['/roles?createType=import&project=p', '/roles'],
    ['/role/1?pageNum=1', '/role/1'],
  ])('that stays where it is is sent as it came: %s', async (path, expected) => {
    const raw = await sendRaw(
      portOf(serving.url),
      `GET /api${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: ${basic('ADMIN')}\r\n\r\n`,
    );
    expect(raw.bytes.toString()).toMatch(/^HTTP\/1\.1 200 /);
    expect(remote.seen.map(({ url }) => url)).toEqual([`/base/api${expected}`]);
  });

  test.each(['/role/1#', '/roles?containsDesc=true#x', '/dataset#?project=p'])(
    'with a fragment is refused: %s',
    async (path) => {
      const raw = await sendRaw(
        portOf(serving.url),
        `GET /api${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: ${basic('ADMIN')}\r\n\r\n`,
      );
      expect(raw.bytes.toString()).toMatch(/^HTTP\/1\.1 400 [^]*\[BAD-REQUEST\] .*fragment/);
      expect(remote.seen).toEqual([]);
    },
  );

  test('in absolute form goes to the server of the configuration', async () => {
    await sendRaw(
      portOf(serving.url),
      `GET http://evil.example/api/roles?x&pageNum=1 HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\nauthorization: ${basic('ADMIN')}\r\n\r\n`,
    );
    expect(remote.seen.map(({ url, headers }) => [url, headers.host])).toEqual([
      ['/base/api/roles?pageNum=1', new URL(remote.url).host],
    ]);
  });
});

describe('over TLS', () => {
  let authority: Authority;
  let stranger: Authority;
  beforeAll(() => {
    authority = makeAuthority();
    stranger = makeAuthority();
  });
  afterAll(() => {
    authority.remove();
    stranger.remove();
  });

  test('the server is checked, and shown the certificate of the gateway', async () => {
    const own = authority.issue('remote');
    const gateways = authority.issue('gateway');
    const askers: unknown[] = [];
    const server = createServer(
      {
        cert: own.pem,
        key: readFileSync(own.key),
        ca: authority.pem,
        requestCert: true,
        rejectUnauthorized: false,
      },
      (request, response) => {
        const { authorized } = request.socket as TLSSocket;
        askers.push([authorized, (request.socket as TLSSocket).getPeerCertificate().subject?.CN]);
        request.resume();
        response.end('{}');
      },
    );
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const known = await openRemoteHouse(url, {
      ca: authority.certificate,
      certificate: gateways.certificate,
      key: gateways.key,
    });
    const unknown = await openRemoteHouse(url, { ca: stranger.certificate });
    try {
      expect((await ask(known, 'GET', READS[0])).status).toBe(200);
      expect((await ask(known, 'PUT', '/dataset', DOCUMENT)).status).toBe(200);
      expect(askers).toEqual([
        [true, 'gateway'],
        [true, 'gateway'],
      ]);
      const refused = await ask(unknown, 'PUT', '/dataset', DOCUMENT);
      expect(failureOf(refused)).toMatch(/^503 \[storage-unavailable\] .* nothing was changed/);
      expect(askers).toHaveLength(2);
    } finally {
      await known.close();
      await unknown.close();
      server.closeAllConnections();
      server.close();
    }
  });
});
