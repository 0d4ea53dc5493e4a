import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { Invalidate } from '../../../src/common/events.ts';
import { mddatasetAnswer } from '../../support/answers.ts';
import { execute } from '../../support/envelopes.ts';
import { askXmla, send, shortStatus } from '../../support/http-client.ts';
import { gate, sendXml, startStubEngine } from '../../support/stub-engine.ts';
import { basic, startTestGateway } from '../../support/test-gateway.ts';
import {
  ask,
  CHANGES,
  DOCUMENT,
  failureOf,
  openRemoteHouse,
  type RemoteHouse,
} from './remote-house.ts';
import { shared } from '../../support/opened.ts';

const remote = shared(() => startStubEngine(() => {}));
let house: RemoteHouse | undefined;
/** What happened, in order. */
const story: string[] = [];

beforeEach(() => {
  story.length = 0;
  remote.seen.length = 0;
  answerBy(200);
});
afterEach(async () => {
  await house?.close();
  house = undefined;
});

function answerBy(status: number): void {
  remote.answerWith((response, request) => {
    story.push('write');
    return sendXml('{"status":0}', { status })(response, request);
  });
}

async function open(invalidate: Invalidate = async () => true): Promise<RemoteHouse> {
  house = await openRemoteHouse(remote.url, {}, (...call) => {
    story.push(call[2]);
    return invalidate(...call);
  });
  return house;
}

const IMPORT = ['POST', '/dataset?createType=import'] as const;
const UPDATE = ['PUT', '/dataset'] as const;

describe.each([
  ['import', ...IMPORT, []],
  ['update', ...UPDATE, ['before']],
] as const)('an %s', (_name, method, path, before) => {
  test('is not answered until nobody answers from what it made stale', async () => {
    const began = gate();
    const end = gate();
    const over = await open(async (_stale, _principal, state) => {
      if (state !== 'before') {
        began.open();
        await end.opened;
      }
      return true;
    });
    const answer = ask(over, method, path, DOCUMENT).then((result) => {
      story.push('answer');
      return result;
    });
    await began.opened;
    for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    expect(story).toEqual([...before, 'write', 'after']);
    end.open();
    expect([(await answer).status, (await answer).text]).toEqual([200, '{"status":0}']);
    expect(over.invalidated.map(([stale, principal]) => [stale, principal])).toEqual(
      [...before, 'after'].map(() => [{ project: 'Mart' }, 'ADMIN']),
    );
  });

  test('that is saved says so when the cache could not be cleared', async () => {
    const over = await open(async () => false);
    const answer = await ask(over, method, path, DOCUMENT);
    expect(failureOf(answer)).toBe('503 [not-cleared] saved; cache of Mart not yet cleared');
    expect(answer.headers['retry-after']).toBe('5');
  });

  test.each([200, 201, 204, 206])('that the server answers by %i was made', async (status) => {
    answerBy(status);
    expect((await ask(await open(), method, path, DOCUMENT)).status).toBe(status);
    expect(story).toEqual([...before, 'write', 'after']);
  });

  test.each([402, 406, 407, 408, 410, 412, 418, 422, 425, 429, 499, 500, 502, 503, 504, 599])(
    'that the server answers by %i may have been made, or be made yet',
    async (status) => {
      answerBy(status);
      expect((await ask(await open(), method, path, DOCUMENT)).status).toBe(status);
      expect(story).toEqual([...before, 'write', 'unknown']);
    },
  );

  test.each([300, 301, 302, 303, 304, 307, 308])(
    'that the server redirects by %i is 503 without the address, and may have been made',
    async (status) => {
      remote.answerWith((response) => {
        story.push('write');
        response.writeHead(status, { location: 'http://10.0.0.7/api' }).end('http://10.0.0.7/api');
      });
      const answer = await ask(await open(), method, path, DOCUMENT);
      expect(failureOf(answer)).toBe(
        '503 [storage-unavailable] The storage answers with a redirect; its operator must correct storage.url. ' +
          'Whether the change was made is not known.',
      );
      expect(answer.headers).not.toHaveProperty('location');
      expect(story).toEqual([...before, 'write', 'unknown']);
    },
  );

  test('that the server refuses as a conflict may have been made by an attempt before', async () => {
    answerBy(409);
    expect((await ask(await open(), method, path, DOCUMENT)).status).toBe(409);
    expect(story).toEqual([...before, 'write', 'after']);
    await house?.close();
    const failing = await open(async () => false);
    expect(failureOf(await ask(failing, method, path, DOCUMENT))).toMatch(/^503 \[not-cleared\] /);
  });

  test.each([400, 401, 403, 404, 405, 413, 415])(
    'that the server refuses by %i was not made',
    async (status) => {
      answerBy(status);
      expect((await ask(await open(), method, path, DOCUMENT)).status).toBe(status);
      expect(story).toEqual([...before, 'write']);
    },
  );

  test.each([
    ['no JSON', '{"project":"Mart"'],
    ['without a project', '{"dataset_name":"d","type":"MDX"}'],
    ['with two projects', '{"project":"a","project":"b","dataset_name":"d","type":"MDX"}'],
    ['nothing', undefined],
  ])(
    'of a document that cannot be read (%s) makes everything stale if it is taken',
    async (_what, body) => {
      const over = await open();
      expect((await ask(over, method, path, body)).status).toBe(200);
      expect(over.invalidated).toEqual([['everything', 'ADMIN', 'after']]);
      expect(remote.seen[0]?.body.toString()).toBe(body ?? '');
      answerBy(400);
      await ask(over, method, path, body);
      expect(over.invalidated).toHaveLength(1);
    },
  );

  test('of a long document makes its project stale', async () => {
    const long = `{"x":"${'x'.repeat(200_000)}","type":"MDX","dataset_name":"d","project":"Long"}`;
    const over = await open();
    await ask(over, method, path, long);
    expect(new Set(over.invalidated.map(([stale]) => JSON.stringify(stale)))).toEqual(
      new Set(['{"project":"Long"}']),
    );
    expect(remote.seen[0]?.body.toString()).toBe(long);
  });
});

test('a change of roles makes nothing stale: nobody shares by roles that are elsewhere', async () => {
  const over = await open();
  for (const [method, path, body, ofDataset] of CHANGES) {
    if (!ofDataset) await ask(over, method, path, body);
  }
  expect(story).toEqual(['write', 'write', 'write', 'write', 'write']);
});

test('a query is asked of the engine again after an import at the remote server', async () => {
  const engine = await startStubEngine(sendXml(mddatasetAnswer()));
  const gateway = await startTestGateway({
    // The engine is told the project, so that its answers are of that project alone.
    engine: { url: `${engine.url}/{project}` },
    storage: { driver: 'http', url: remote.url },
  });
  try {
    const query = execute({ statement: 'SELECT FROM [Sales]' });
    const asked = async (project: string) =>
      shortStatus(await askXmla(gateway.url, query, { path: `/mdx/xmla/${project}` }));
    expect([await asked('Mart'), await asked('Other')]).toEqual(['miss stored', 'miss stored']);
    expect([await asked('Mart'), await asked('Other')]).toEqual(['hit', 'hit']);
    const imported = await send(gateway.url, {
      method: 'POST',
      path: `/api${IMPORT[1]}`,
      body: DOCUMENT,
      headers: { authorization: basic('ADMIN'), 'content-type': 'application/json' },
    });
    expect([imported.status, imported.text]).toEqual([200, '{"status":0}']);
    expect([await asked('Mart'), await asked('Other')]).toEqual(['miss stored', 'hit']);
  } finally {
    await gateway.close();
    await engine.close();
  }
});
