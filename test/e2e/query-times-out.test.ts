import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { faultAnswer, mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus, until } from '../support/http-client.ts';
import { gate, sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const query = (what: string) => execute({ statement: `SELECT ${what} FROM [S]` });
const isNever = ({ body }: { readonly body: Buffer }) => body.includes('never');
const asUser = (user: string) => ({ headers: { authorization: basic(user) } });

let engine: StubEngine;
const door = gate();
const fault = gate();
/** Beside the time that passes by itself (ms). */
let passed = 0;
const started: TestGateway[] = [];

beforeAll(async () => {
  engine = await startStubEngine(async (response, request) => {
    if (isNever(request)) return;
    if (request.body.includes('held')) await door.opened;
    if (request.body.includes('wrong')) {
      await fault.opened;
      return sendXml(faultAnswer())(response, request);
    }
    await sendXml(mddatasetAnswer())(response, request);
  });
});
beforeEach(() => {
  engine.seen.length = 0;
});
afterAll(async () => {
  for (const gateway of started) await gateway.close();
  await engine.close();
});

async function start(settings: Record<string, object>): Promise<TestGateway> {
  const { engine: more, ...others } = settings;
  const all = { cache: { share: 'everyone' }, ...others, engine: { url: engine.url, ...more } };
  const clock = { now: () => performance.now() + passed, wall: () => Date.now() + passed };
  const gateway = await startTestGateway(all, { clock });
  started.push(gateway);
  return gateway;
}

async function told<T>(url: string, path: string): Promise<T> {
  return JSON.parse((await send(url, { path, ...asUser('ADMIN') })).text) as T;
}

describe('a query that never ends', () => {
  test('is asked once for all who ask it, told at once to who comes then, and first by cost', async () => {
    const { url, events } = await start({ engine: { timeout: '1s' } });
    for (let n = 0; n < 5; n += 1) await askXmla(url, query(`quick${n}`));
    const users = ['ADMIN', 'alice', 'bob'];
    const all = [...users, ...users].map((user) => askXmla(url, query('never'), asUser(user)));
    // What passes the cache is another one, whatever it asks.
    const passing = askXmla(url, query('Now(), never'));
    const during = await askXmla(url, query('other'));
    expect(new Set((await Promise.all(all)).map(shortStatus))).toEqual(
      new Set(['gateway engine-timeout']),
    );
    expect(shortStatus(await passing)).toBe('gateway engine-timeout');
    const later = await askXmla(url, query('never'));
    expect([later.status, shortStatus(later)]).toEqual([504, 'gateway query-times-out']);
    expect(later.text).toMatch(/has not answered this query in time since \d{4}-/);
    expect(Number(later.headers['retry-after'])).toBeLessThanOrEqual(20);
    expect(shortStatus(during)).toBe('miss stored');
    expect(engine.seen.filter(isNever)).toHaveLength(2);

    const { digests } = await told<{ digests: Record<string, number | string>[] }>(
      url,
      '/admin/statistics?sort=cost',
    );
    const [first = {}] = digests;
    expect(first).toMatchObject({ asks: 7, hits: 0, engine_ms: 0, failed_asks: 1 });
    expect(first['failed_ms']).toBeGreaterThanOrEqual(1_000);
    expect(first['uncached_ms']).toBe(first['failed_ms']);
    const ended = events.find(
      (event) =>
        event.type === 'xmla-answered' && event.engine?.last !== undefined && event.status === 504,
    );
    expect(ended).toMatchObject({ outcome: { detail: 'engine-timeout' }, digest: first['digest'] });
    const { findings } = await told<{ findings: { kind: string; text: string }[] }>(
      url,
      '/admin/overview',
    );
    expect(findings.find(({ kind }) => kind === 'query-times-out')?.text).toContain(
      `${first['digest']} (no project)`,
    );
    const metrics = await send(url, { path: '/metrics', ...asUser('ADMIN') });
    const [, seconds] =
      /^mdx_gateway_engine_seconds_total\{project=""\} ([\d.]+)$/m.exec(metrics.text) ?? [];
    expect(Number(seconds)).toBeGreaterThanOrEqual(2);
    expect(metrics.text).toMatch(/reason="query-times-out",project=""\} 1$/m);
  });
});

describe('before the engine', () => {
  test('a request waits for limits.wait in all, also for one whose engine may take longer', async () => {
    const { url } = await start({ limits: { wait: '1s', concurrency: 1 } });
    const first = askXmla(url, query('held'));
    await until(() => engine.seen.length === 1);
    const [cached, passed] = await Promise.all([
      askXmla(url, query('other')),
      askXmla(url, query('Now()')),
    ]);
    for (const answer of [cached, passed]) {
      expect([answer.status, shortStatus(answer)]).toEqual([503, 'gateway overloaded']);
      expect(answer.headers['retry-after']).toBe('5');
      expect(answer.text).toContain('No place at the engine came free in time; try again.');
    }
    door.open();
    expect(shortStatus(await first)).toBe('miss stored');
    expect(engine.seen).toHaveLength(1);
  });

  test('who has waited with others for an answer that cannot be shared may still wait for a turn', async () => {
    const { url } = await start({ limits: { wait: '1m' } });
    const all = Array.from({ length: 12 }, () => askXmla(url, query('wrong')));
    await until(() => engine.seen.length === 1);
    const metrics = () => send(url, { path: '/metrics', ...asUser('ADMIN') });
    while (!/flight_waiters 11$/m.test((await metrics()).text));
    passed += 90_000;
    fault.open();
    expect((await Promise.all(all)).map(({ status }) => status)).toEqual(all.map(() => 200));
  });
});
