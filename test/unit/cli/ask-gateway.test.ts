import { describe, expect, test } from '@jest/globals';
import { askGateway, explain } from '../../../src/cli/ask-gateway.ts';
import { connectGateway, type GatewayClient } from '../../../src/cli/gateway-client.ts';
import { type Given, UsageError } from '../../../src/cli/arguments.ts';
import { status } from '../../../src/cli/status.ts';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { Readable } from 'node:stream';

const given = (options: Partial<Given>) => ({ kind: 'status', ...options }) as Given;
const terminal = (prompts: string[] = []) => ({
  input: Readable.from([]),
  prompts: { write: (text: string) => prompts.push(text) },
  stopped: new AbortController().signal,
});

/** A gateway that answers each path with a value. */
const fakeClient = (answers: Record<string, unknown>, code = 200) =>
  ({
    url: 'http://gateway',
    user: 'ADMIN',
    ask: async (path: string) => {
      const answer = answers[path.replace(/\?.*/, '')];
      const text = typeof answer === 'string' ? answer : JSON.stringify(answer);
      return { status: code, headers: {}, text, json: answer };
    },
  }) as unknown as GatewayClient;

describe('the address of a gateway', () => {
  test.each([
    ['gateway:7080', 'must be an http:// or https:// URL'],
    ['ftp://gateway', 'must be an http:// or https:// URL'],
    ['', 'must be an http:// or https:// URL'],
    ['http://ADMIN:topsecret@gateway', 'must hold no login, which others could see: use --user'],
    ['http://ADMIN@gateway', 'must hold no login, which others could see: use --user'],
    ['http://gateway/?token=topsecret', 'must have neither query nor fragment'],
    ['http://gateway/#x', 'must have neither query nor fragment'],
  ])('%s is refused without being shown', async (url, why) => {
    const connecting = connectGateway(given({ url }), 1_000, { ...terminal(), env: {} });
    await expect(connecting).rejects.toThrow(new Error(`--url ${why}`));
  });

  test.each([
    [undefined, {}, 'http://127.0.0.1:7080'],
    [undefined, { MDX_GATEWAY_URL: '' }, 'http://127.0.0.1:7080'],
    [undefined, { MDX_GATEWAY_URL: 'https://gateway.example/' }, 'https://gateway.example'],
    ['http://gateway/olap//', { MDX_GATEWAY_URL: 'https://x' }, 'http://gateway/olap'],
  ])('is the option %s, else that of the environment %j', async (url, env, expected) => {
    const options = url === undefined ? {} : { url };
    const client = await connectGateway(given(options), 1_000, { ...terminal(), env });
    client.close();
    expect(client.url).toBe(expected);
  });
});

test.each([
  ['a:b', 'secret', '--user must be a name without colon and control characters'],
  ['a\nb', 'secret', '--user must be a name without colon and control characters'],
  ['alice', 'a\tb', 'the password must not hold control characters, such as NUL or a tab'],
])('a login that no gateway reads is refused: %j', async (user, password, why) => {
  const parts = { ...terminal(), env: { MDX_GATEWAY_PASSWORD: password } };
  await expect(connectGateway(given({ user }), 1_000, parts)).rejects.toThrow(new Error(why));
});

describe('before a password is asked for', () => {
  const asking = async (options: Partial<Given>) => {
    const prompts: string[] = [];
    const kind = options.kind as 'explain';
    const input = Object.assign(Readable.from([]), { isTTY: true });
    const parts = { ...terminal(prompts), input, env: {}, output: { write: () => true } };
    const exit = await askGateway(kind, given({ user: 'ADMIN', ...options }), parts);
    return { exit, prompts };
  };

  test('a file that is not there is told', async () => {
    const { exit, prompts } = await asking({ kind: 'explain', name: '/none/query.xml' });
    expect([exit, prompts]).toEqual([1, [expect.stringContaining('/none/query.xml')]]);
  });

  test.each<Partial<Given>>([
    { kind: 'explain', name: '-', header: ['Host: x'] },
    { kind: 'purge', name: '..' },
  ])('a wrong command line is told: %j', async (options) => {
    await expect(asking(options)).rejects.toThrow(UsageError);
  });
});

test('the time for an answer begins when the gateway is asked', async () => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const client = await connectGateway(given({ url }), 50, { ...terminal(), env: {} });
  const before = AbortSignal.timeout(50);
  await once(before, 'abort');
  const since = performance.now();
  await expect(client.ask('/')).rejects.toMatchObject({ word: 'timeout' });
  expect(performance.now() - since).toBeGreaterThan(40);
  client.close();
  silent.close();
});

describe('status in words', () => {
  const redis = {
    state: 'down',
    why: 'connect ECONNREFUSED 10.0.0.7:6379',
    mode: 'standalone',
    purges_owed: 2,
    conditions: [],
  };
  const engines = [
    { url: 'http://a', state: 'up' },
    { url: 'http://b', state: 'down', why: 'it takes no connections' },
  ];

  test('tells what is down and why, what is pending, and the latest purge', async () => {
    const { exit, lines } = await status(
      fakeClient({
        '/health/ready': { engines, redis, storage: { driver: 'postgres', state: 'down' } },
        '/metrics': [
          'mdx_gateway_xmla_requests_total{outcome="hit",reason="memory",project="A"} 5',
          'mdx_gateway_xmla_requests_total{reason="redis",outcome="hit",project="B"} 1',
          'mdx_gateway_xmla_requests_total{outcome="miss",reason="",project="outcome=\\"hit\\""} 2',
          'mdx_gateway_memory_entries 3',
          'mdx_gateway_memory_bytes 1572864',
          'mdx_gateway_memory_limit_bytes 268435456',
          'mdx_gateway_build_info{version="1.2.3"} 1',
        ].join('\n'),
        '/admin/purges': {
          purges: [{ scope: { project: 'A' }, principal: 'loader', at: '2026', result: 'owed' }],
        },
      }),
    );
    expect([exit, lines]).toEqual([
      0,
      [
        'http://gateway: ready',
        'engine http://a: up',
        'engine http://b: down: it takes no connections',
        'Redis: down: connect ECONNREFUSED 10.0.0.7:6379',
        'storage postgres: down',
        'purges pending: 2; the gateway repeats them',
        'version: 1.2.3',
        'memory: 3 entries, 1.5 of 256.0 MiB',
        'answers since its start: 6 hits (75.0 % of queries), 2 misses, 0 past the cache, 0 by the gateway itself',
        'latest purge: A by loader at 2026: owed',
      ],
    ]);
  });

  test('tells what is not set at Redis as a purge needs it', async () => {
    const conditions = ['maxmemory is not set', 'it evicts nothing'];
    const up = { ...redis, state: 'up', purges_owed: 0, conditions };
    const storage = { driver: 'sqlite', state: 'up' };
    const answers = { '/health/ready': { engines: [], redis: up, storage }, '/metrics': '' };
    const { lines } = await status(fakeClient({ ...answers, '/admin/purges': { purges: [] } }));
    expect(lines.slice(1, 4)).toEqual([
      'Redis: up (standalone)',
      'Redis: maxmemory is not set',
      'Redis: it evicts nothing',
    ]);
  });
});

describe('an explanation in words', () => {
  const inWords = async (explanation: object) => {
    const client = fakeClient({ '/admin/explain': { user: 'alice', ...explanation } });
    const input = Readable.from([Buffer.from('<x/>')]);
    return (await explain(given({ name: '-' }), { ...terminal(), input })(client)).lines;
  };

  test('tells why a request is refused', async () => {
    const classification = { decision: 'refused', reason: 'unknown-session' };
    expect(await inWords({ classification })).toEqual([
      'refused: the gateway answers it with a Fault',
      'request: unknown by alice; project: none; catalogs: none',
      'reason: unknown-session: The session is not known here, or another user began it; the client begins anew.',
    ]);
  });

  test('tells what Redis holds, what is under way, and that a purge was what made it miss', async () => {
    const classification = {
      decision: 'cacheable',
      subject: 'Execute',
      catalogs: ['A', 'B'],
      share: 'roles',
      ttl_ms: 90_000,
    };
    const entry = { age_ms: 1_500, ttl_ms: -1, bytes: 7, engine_ms: 250 };
    const told = { epochs: 'unknown', memory: null, redis: entry };
    const cache = { ...told, flight: true, not_stored: 'too-large' };
    const nearest = { differs: ['epochs', 'accept'], age_ms: 0 };
    expect(await inWords({ project: 'P', classification, cache: { ...cache, nearest } })).toEqual([
      'cacheable: it is looked up in the cache',
      'request: Execute by alice; project: P; catalogs: A, B',
      'shared: by roles, kept for 1.5 min',
      'memory: no entry',
      'Redis: an entry of 1.50 s ago, past its ttl for 1.0 ms; 7 B, for which the engine took 250 ms',
      'under way: the engine is being asked for it',
      'epochs: unknown, because Redis cannot be reached',
      'not stored the last time: too-large: The answer is larger than cache.max_entry.',
      'nearest: an entry of 0.0 ms ago, which differs in epochs: it was purged; accept',
    ]);
  });

  test('tells nothing of why it was not stored where an older gateway does not say', async () => {
    const classification = { decision: 'cacheable', share: 'user', ttl_ms: 1_000 };
    const cache = { epochs: [], memory: null, redis: 'off', flight: false, nearest: null };
    expect((await inWords({ classification, cache })).join()).not.toContain('not stored');
  });

  test('a header that does not count, or cannot be sent, is refused', () => {
    const asking = (header: string) => () =>
      explain(given({ name: '-', header: [header] }), terminal());
    const allowed = 'explain: --header must be "Name: value" of one of Content-Type, SOAPAction';
    const unfit = ['Authorization: Basic x', 'Host: x', 'Accept', 'Accept: a\nb', 'Accept: Ω'];
    for (const header of unfit) expect(asking(header)).toThrow(allowed);
    expect(asking('user-agent: Größe 1 ')).not.toThrow();
  });
});
