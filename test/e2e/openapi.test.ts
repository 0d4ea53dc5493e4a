import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { describedInterface } from '../support/openapi-types.ts';
import type { Answer as DescribedAnswer, Operation } from '../support/openapi-types.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { send, type Answer } from '../support/http-client.ts';
import { answeredOperations, checkAgainstOpenApi, dereferenced } from '../support/openapi-check.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const PACKAGE = new URL('../../package.json', import.meta.url);

let engine: StubEngine;
let gateway: TestGateway;

beforeAll(async () => {
  engine = await startStubEngine(sendXml(mddatasetAnswer()));
  const hooks = { kylin: { format: 'kylin5', user: 'ADMIN', projects: ['Shop'] } };
  const settings = { engine: { url: engine.url }, hooks, warm: { mode: 'auto' } };
  gateway = await startTestGateway(settings);
});
afterAll(async () => {
  await gateway.close();
  await engine.close();
});

const { paths } = describedInterface();
const operations = Object.entries(paths).flatMap(([path, item]) =>
  (['post', 'get', 'put', 'delete'] as const).flatMap((method) => {
    const operation = item[method];
    return operation === undefined ? [] : [{ path, method: method.toUpperCase(), operation, item }];
  }),
);

type Described = (typeof operations)[number];

/** The request that the examples of an operation make. */
function requestOf({ method, path, operation, item }: Described) {
  const parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])];
  const query = parameters
    .filter((parameter) => parameter.in === 'query')
    .map(({ name, example }) => `${name}=${encodeURIComponent(String(example))}`);
  const target = path.replaceAll(/\{(\w+)\}/g, (_, name) =>
    encodeURIComponent(String(parameters.find((parameter) => parameter.name === name)?.example)),
  );
  const [type, media] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  const body =
    media?.example === undefined
      ? (media?.examples?.['execute']?.value as string | undefined)
      : JSON.stringify(media.example);
  return {
    method,
    path: query.length === 0 ? target : `${target}?${query.join('&')}`,
    body,
    headers: {
      ...(type !== undefined && { 'content-type': type }),
      ...(body !== undefined && { 'content-length': String(Buffer.byteLength(body)) }),
    },
  };
}

function ask(described: Described, user?: 'ADMIN' | 'alice'): Promise<Answer> {
  const { body, headers, ...request } = requestOf(described);
  return send(gateway.url, {
    ...request,
    ...(body !== undefined && { body }),
    headers: { ...headers, ...(user !== undefined && { authorization: basic(user) }) },
  });
}

const named = (name: string) => {
  const found = operations.find(({ operation }) => operation.operationId === name);
  if (found === undefined) throw new Error(`no operation ${name}`);
  return found;
};

/** Whether its answers name the word for those who may not. */
function mayForbid({ responses }: Operation): boolean {
  const { 403: answer } = responses;
  return (
    answer !== undefined && /`forbidden`/.test(dereferenced<DescribedAnswer>(answer).description)
  );
}

describe('every operation of the document', () => {
  test('needs a login where it says so, and tells that as it says', async () => {
    for (const described of operations) {
      const open = described.operation.security?.length === 0;
      const { status } = await ask(described);
      expect([described.operation.operationId, status]).toEqual([
        described.operation.operationId,
        open ? 200 : 401,
      ]);
    }
  });

  test('that changes something or clears the cache is refused to those who may not', async () => {
    for (const described of operations.filter(
      ({ path, operation }) => mayForbid(operation) && !/^\/mdx\/xmla(\/\{project\})?$/.test(path),
    )) {
      const { status } = await ask(described, 'alice');
      expect([described.operation.operationId, status]).toEqual([
        described.operation.operationId,
        403,
      ]);
    }
  });

  test('can be done with its examples', async () => {
    const first = ['createRole', 'removeUser', 'addUser', 'importDataset'];
    const last = ['deleteRole'];
    const order = [
      ...first,
      ...operations
        .map(({ operation }) => operation.operationId)
        .filter((name) => !first.includes(name) && !last.includes(name)),
      ...last,
    ];
    for (const name of order) {
      const { status, text } = await ask(named(name), 'ADMIN');
      const done = name === 'startWarmUp' ? 202 : 200;
      expect([name, status, text]).toEqual([name, done, expect.anything()]);
    }
    const undone = operations
      .map(({ method, path }) => `${method} ${path}`)
      // What the engine answers to other methods than POST is not the gateway's to describe.
      .filter(
        (name) =>
          !['200', '202', 'default'].some((one) => answeredOperations.has(`${name} ${one}`)),
      );
    expect(undone).toEqual([]);
  });

  test.each(['HEAD', 'OPTIONS', 'PATCH', 'DELETE', 'PUT', 'POST', 'TRACE'])(
    'has a path that answers %s as described',
    async (method) => {
      for (const path of Object.keys(paths)) {
        const described = operations.find((one) => one.path === path) as Described;
        for (const authorization of [undefined, basic('alice')]) {
          await send(gateway.url, {
            method,
            path: requestOf(described).path,
            headers: authorization === undefined ? {} : { authorization },
          });
        }
      }
    },
  );
});

test.each([
  '/none',
  '/api',
  '/api/none',
  '/api/%zz',
  '/mdx/xmla/a/b',
  '/mdx/xmla/..',
  '/docs/none',
])('%s, which is no path of the document, is answered as it says', async (path) => {
  for (const user of [undefined, 'alice'] as const) {
    const headers = user === undefined ? {} : { authorization: basic(user) };
    const { status } = await send(gateway.url, { path, headers });
    expect(status).toBeGreaterThanOrEqual(400);
  }
});

describe('an answer', () => {
  const good = async () => {
    const { status, headers, body } = await ask(named('listRoles'), 'ADMIN');
    return { status, headers, body };
  };
  const check = (answer: Awaited<ReturnType<typeof good>>, target = '/api/roles?x=1') =>
    checkAgainstOpenApi('GET', target, answer);

  test('that is described is let through', async () => {
    await expect(check(await good())).resolves.toBeUndefined();
  });

  test.each([
    ['a status', { status: 201 }, 'status 201'],
    ['a media type', { headers: { 'content-type': 'text/html' } }, 'media type text/html'],
    ['a status of another operation', { status: 409 }, 'status 409'],
    ['a body that is no JSON', { body: Buffer.from('{') }, 'JSON'],
    ['a body of another shape', { body: Buffer.from('{"status":0}') }, 'required'],
    [
      'a field that nobody described',
      {
        body: Buffer.from(
          '{"status":0,"data":{"pageNum":0,"pageSize":1,"list":[{"id":1,"name":"n","x":1}],"total":1}}',
        ),
      },
      'unevaluatedProperties',
    ],
    [
      'a word that cannot occur there',
      {
        status: 503,
        headers: { 'content-type': 'application/json', 'retry-after': '5' },
        body: Buffer.from(
          '{"status":1,"data":"failure","errorMesg":"[NOT-CLEARED] x","code":"not-cleared"}',
        ),
      },
      'code',
    ],
    ['a missing header', { status: 401 }, 'WWW-Authenticate is missing'],
  ])('with %s that is not described is caught', async (_, change, told) => {
    await expect(check({ ...(await good()), ...change })).rejects.toThrow(told);
  });

  test('with a strange Cache-Status is caught', async () => {
    const answer = await send(gateway.url, {
      method: 'POST',
      body: execute({ statement: 'SELECT FROM [Sales]' }),
      headers: { authorization: basic('alice'), 'content-type': 'text/xml' },
    });
    const { status, headers, body } = answer;
    for (const [said, told] of [
      ['mdx-gateway; detail=too-big', 'too-big'],
      ['mdx-gateway; fwd=stale', 'fwd=stale'],
      ['other; hit', 'other'],
    ]) {
      const changed = { status, headers: { ...headers, 'cache-status': said }, body };
      await expect(checkAgainstOpenApi('POST', '/mdx/xmla', changed)).rejects.toThrow(told);
    }
  });
});

describe('/openapi.json and /docs', () => {
  const read = (path: string, headers: Record<string, string> = {}, url = gateway.url) =>
    send(url, { path, headers: { authorization: basic('alice'), ...headers } });
  const PAGES = Object.keys(paths).filter((path) => /^\/(docs|openapi\.json)/.test(path));

  test('serve the document with the version of the program', async () => {
    const { version } = JSON.parse(readFileSync(PACKAGE, 'utf8')) as { version: string };
    const served: unknown = JSON.parse((await read('/openapi.json')).text);
    expect(served).toEqual(JSON.parse(JSON.stringify(describedInterface(version))));
  });

  test.each(PAGES)('send %s again only when it has changed', async (path) => {
    const first = await read(path);
    expect([first.status, first.headers['cache-control']]).toEqual([200, 'no-cache']);
    const etag = String(first.headers['etag']);
    const again = await read(path, { 'if-none-match': etag });
    expect([again.status, again.text, again.headers['etag']]).toEqual([304, '', etag]);
    expect((await read(path, { 'if-none-match': '"other"' })).status).toBe(200);
  });

  test.each([...PAGES, '/docs/'])(
    'let a browser take nothing of %s from elsewhere',
    async (path) => {
      const { headers, text } = await read(path);
      expect(headers['content-security-policy']).toMatch(/^default-src 'none';/);
      expect(headers['content-security-policy']).not.toMatch(/https?:|\*|script-src [^;]*unsafe/);
      expect(headers['x-content-type-options']).toBe('nosniff');
      expect(headers['x-frame-options']).toBe('DENY');
      expect(headers['referrer-policy']).toBe('no-referrer');
      if (String(headers['content-type']).startsWith('text/html')) {
        expect(text).not.toMatch(/https?:/);
        for (const [, address = ''] of text.matchAll(/(?:src|href)="([^"]*)"/g)) {
          if (!address.startsWith('data:')) expect((await read(address)).status).toBe(200);
        }
      }
    },
  );

  test('serve nothing else of the package that the page is made of', async () => {
    for (const path of [
      'swagger-ui-bundle.js.map',
      'index.html',
      'package.json',
      '../openapi.json',
    ]) {
      expect((await read(`/docs/${path}`)).status).toBe(404);
    }
  });

  test('need no login where the configuration opens them', async () => {
    const open = await startTestGateway({
      engine: { url: engine.url },
      listen: { open: ['docs'] },
    });
    try {
      for (const path of PAGES) {
        expect((await send(open.url, { path })).status).toBe(200);
      }
      expect((await send(open.url, { path: '/metrics' })).status).toBe(401);
    } finally {
      await open.close();
    }
  });
});
