import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { createPermissions } from '../../../src/auth/authenticator.ts';
import type { EngineClear, PurgeOrder, PurgeOutcome } from '../../../src/cache/purge/purge.ts';
import type { Stale } from '../../../src/common/events.ts';
import { createClearCacheHandler } from '../../../src/http/clear-cache.ts';
import { send } from '../../support/http-client.ts';
import { checkAgainstOpenApi } from '../../support/openapi-check.ts';
import { withoutRequestId } from '../../support/request-id.ts';
import { principalOf } from '../../../src/common/principal.ts';

const RECEIPT: Extract<PurgeOutcome, { ok: true }>['receipt'] = {
  id: 'oUq0MShjHbDl5nUI2bYzwQ',
  scope: { project: 'learn' },
  epochs_renewed: ['project:learn', 'unassigned'],
  replicas: 3,
  waited: 1100,
  known: true,
  engine_calls: 2,
};
const EMPTIED: EngineClear = { replica: 'http://olap-1/mdx/xmla', ok: true };
const FAILED: EngineClear = {
  replica: 'http://olap-2/mdx/xmla',
  ok: false,
  why: 'It answered with status 500.',
};

const PATH = '/mdx/xmla/learn/clearCache';
const ADMIN = `Basic ${Buffer.from('ADMIN:x').toString('base64')}`;

let server: Server;
let outcome: PurgeOutcome | Error;
const orders: (readonly [Stale, PurgeOrder])[] = [];

beforeAll(async () => {
  const handle = createClearCacheHandler({
    login: async () => principalOf('ADMIN'),
    permissions: createPermissions({ admins: ['ADMIN'], viewers: [], purgers: [] }, 'nobody'),
    purge: async (...order) => {
      orders.push(order);
      if (outcome instanceof Error) throw outcome;
      return outcome;
    },
    newId: () => 'id',
    emit: () => {},
  });
  server = createServer((request, response) => {
    const isAll = request.url === '/mdx/xmla/clearCache';
    void handle(request, response, isAll ? undefined : 'learn');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
afterEach(() => {
  orders.length = 0;
});

/** Calls it in both forms; both answers must be such as the OpenAPI document describes. */
async function call(given: PurgeOutcome | Error, path = PATH) {
  outcome = given;
  const address = server.address();
  const base = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  const ask = async (accept: string) => {
    const answer = await send(base, { path, headers: { authorization: ADMIN, accept } });
    await checkAgainstOpenApi('GET', path, answer);
    return answer;
  };
  const text = await ask('text/plain');
  const json = await ask('application/json');
  return { text, json, fields: JSON.parse(json.text) as Record<string, unknown> };
}

/** All of an answer that a script could look at. */
const all = ({ text, headers }: { text: string; headers: object }) =>
  JSON.stringify([text, headers]);

describe('a purge', () => {
  test('that was done is told by the words of the interface, or by its receipt', async () => {
    const { text, json, fields } = await call({ ok: true, receipt: RECEIPT });
    expect([text.status, text.text]).toEqual([200, 'learn Cache has been cleared.']);
    expect([json.status, fields]).toEqual([200, { status: 'cleared', ...RECEIPT }]);
  });

  test('is ordered with the login of the caller, in the spelling that every server reads', async () => {
    outcome = { ok: true, receipt: RECEIPT };
    const address = server.address();
    const base = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
    const authorization = `basic   ${ADMIN.slice(6)}`;
    await send(base, { path: PATH, headers: { authorization } });
    expect(orders).toEqual([
      [{ project: 'learn' }, { principal: 'ADMIN', cause: 'clear-cache', authorization: ADMIN }],
    ]);
  });
});

describe('a purge that an engine did not follow', () => {
  const given: PurgeOutcome = {
    ok: false,
    failed: 'engine',
    receipt: RECEIPT,
    engines: [EMPTIED, FAILED],
  };

  test('is a 502 that names what was done, what was not, and why', async () => {
    const { text, json, fields } = await call(given);
    expect([text.status, json.status]).toEqual([502, 502]);
    for (const answer of [text, json]) expect(answer.headers['retry-after']).toBe('5');
    expect(withoutRequestId(text.text, text.headers)).toBe(
      'The entries of the project are dropped, on every gateway. But an engine did not clear its own cache: it may ' +
        'still answer from that, and its answers are kept as new ones. Not emptied: the cache of ' +
        'http://olap-2/mdx/xmla. It answered with status 500. Emptied: the cache of http://olap-1/mdx/xmla. Call again ' +
        'when that is mended.\n',
    );
    expect(fields).toEqual({
      error: 'engine-not-cleared',
      message: text.text.trim(),
      status: 'engine-not-cleared',
      ...RECEIPT,
      engines: [EMPTIED, FAILED],
    });
  });

  test('of everything says that everything was dropped', async () => {
    const { text } = await call(given, '/mdx/xmla/clearCache');
    expect(text.text).toMatch(/^All entries are dropped, on every gateway\./);
  });

  test('never says the words that a script looks for', async () => {
    const { text, json } = await call(given);
    for (const answer of [text, json]) expect(all(answer)).not.toMatch(/has been cleared/i);
  });
});

describe('a purge that Redis did not confirm', () => {
  test('is a 503 that says what was done, what was not, and what follows', async () => {
    const { text, json, fields } = await call({ ok: false, failed: 'redis', engines: [] });
    expect([text.status, json.status]).toEqual([503, 503]);
    for (const answer of [text, json]) expect(answer.headers['retry-after']).toBe('5');
    for (const words of ['Redis did not confirm', 'is empty', 'may still answer', 'stays owed']) {
      expect(text.text).toContain(words);
    }
    expect(fields).toEqual({
      error: 'purge-failed',
      message: text.text.trim(),
      status: 'purge-failed',
      engines: [],
    });
  });

  test.each<[string, readonly EngineClear[]]>([
    ['no engine was called', []],
    ['all engines cleared their caches', [EMPTIED]],
    ['some did not', [EMPTIED, FAILED]],
    [
      'the word stands in what they said and are called',
      [{ replica: 'http://cleared/mdx/xmla', ok: false, why: 'It said "CLEARED.".' }],
    ],
  ])('never says "cleared", as text and as JSON, when %s', async (_when, engines) => {
    const { text, json } = await call({ ok: false, failed: 'redis', engines });
    for (const answer of [text, json]) expect(all(answer)).not.toMatch(/cleared/i);
    for (const { replica, ok } of engines.filter((one) => !/cleared/.test(one.replica))) {
      expect(text.text).toContain(`${ok ? 'Emptied' : 'Not emptied'}: the cache of ${replica}.`);
    }
  });
});

test('a purge that fails in another way is an internal error', async () => {
  const { text } = await call(new Error('broken'));
  expect([text.status, withoutRequestId(text.text, text.headers)]).toEqual([
    500,
    'The gateway failed; its log tells more.\n',
  ]);
});
