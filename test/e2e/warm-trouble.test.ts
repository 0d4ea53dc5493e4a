import { afterEach, describe, expect, test } from '@jest/globals';
import type { EngineKind } from '../../src/common/engine-kinds.ts';
import { faultAnswer, mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, until } from '../support/http-client.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import { askStamped, beginSession, inSession } from '../support/stamped-client.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { endedRuns, figuresOf, nextRun, purge, readWarmUp } from '../support/warm-up.ts';

const SHOP = { Catalog: 'Shop' };

let engine: SessionEngine | StubEngine | undefined;
let gateway: TestGateway;
afterEach(async () => {
  await gateway?.close();
  await engine?.close();
});

const settings = (url: string, kind: EngineKind, others: object = {}) => ({
  engine: { url, kind, login: 'none' },
  cache: { share: 'everyone' },
  warm: { mode: 'auto', settle: '0', concurrency: 1 },
  ...others,
});

async function start(kind: EngineKind, others: object = {}): Promise<SessionEngine> {
  const started = await startSessionEngine({ kind });
  engine = started;
  gateway = await startTestGateway(settings(started.url, kind, others));
  return started;
}

/** Asks each twice in the session, so that it counts. */
async function askTwice(session: string, ...cubes: string[]): Promise<void> {
  for (const cube of [...cubes, ...cubes]) {
    const statement = `SELECT FROM [${cube}]`;
    const body = execute({ statement, properties: SHOP, session: inSession(session) });
    await askStamped(gateway.url, body);
  }
}

test('queries that the engine answers with Faults do not keep the others from being asked', async () => {
  const stub = await startStubEngine(async (response, { body }) =>
    sendXml(String(body).includes('Broken') ? faultAnswer() : mddatasetAnswer())(
      response,
      {} as never,
    ),
  );
  engine = stub;
  gateway = await startTestGateway(settings(stub.url, 'generic'));
  const ask = (cube: string) =>
    askXmla(gateway.url, execute({ statement: `SELECT FROM [${cube}]`, properties: SHOP }));
  for (let times = 0; times < 5; times += 1) {
    for (let at = 0; at < 12; at += 1) await ask(`Broken ${at}`);
  }
  for (const cube of ['Sales', 'Sales']) await ask(cube);
  const run = await nextRun(gateway, () => purge(gateway));
  expect(figuresOf(run)).toMatchObject({ planned: 1, stored: 1, not_stored: {}, cut: null });
});

describe('the request that names the first catalog of its session', () => {
  test('is given up when the run ends, and when a user needs the place', async () => {
    const held = await start('emondrian', { limits: { concurrency: 1 } });
    // The first of them moves the session, and does not count.
    await askTwice(await beginSession(gateway.url), 'Sales', 'Sales');
    const holdIt = () =>
      held.hold(({ session, properties }) => session.kind === 'in' && properties.length > 0);
    const first = holdIt();
    const overtaken = await nextRun(gateway, async () => {
      await purge(gateway);
      await first.arrived;
      const user = await askXmla(gateway.url, execute({ statement: 'SELECT FROM [Users]' }));
      expect(user.status).toBe(200);
    });
    expect(figuresOf(overtaken)).toMatchObject({ stored: 1, cut: null });
    const second = holdIt();
    const run = await nextRun(gateway, async () => {
      await purge(gateway);
      await second.arrived;
      const off = { warm: { mode: 'off' }, limits: { concurrency: 1 } };
      await gateway.reload(settings(held.url, 'emondrian', off));
    });
    expect(run.cut).toBe('off');
    first.release();
    second.release();
  });
});

test('goes on in another session where the one it has does not count any more', async () => {
  const held = await start('emondrian');
  const session = await beginSession(gateway.url, { properties: SHOP });
  await askTwice(session, 'A', 'B', 'C');
  const first = held.hold(({ statement }) => statement === 'SELECT FROM [A]');
  const run = await nextRun(gateway, async () => {
    await purge(gateway);
    await first.arrived;
    // All sessions are taken for dirty after what may speak of any.
    await askXmla(gateway.url, execute({ statement: '', session: inSession('x') }), {
      headers: { 'content-type': 'text/xml; charset=ibm037' },
    });
    first.release();
  });
  expect(figuresOf(run)).toMatchObject({
    stored: 2,
    not_stored: { 'session-changed': 1 },
    skipped: {},
  });
});

test('the engine is told the sizes and limits that the client named, and none of its ids', async () => {
  const { asked } = await start('ssas');
  const id = '11111111-2222-4333-8444-555555555555';
  const named = { SspropInitPacketsize: '4096', Timeout: '3600', DbpropMsmdActivityID: id };
  const statement = 'SELECT FROM [A]';
  const body = execute({ statement, properties: { ...SHOP, ...named } });
  for (let times = 0; times < 2; times += 1) await askXmla(gateway.url, body);
  await nextRun(gateway, () => purge(gateway));
  const last = asked.findLast((one) => one.statement === statement);
  expect(asked.filter((one) => one.statement === statement)).toHaveLength(2);
  expect(Object.fromEntries(last?.properties ?? [])).toEqual({
    ...SHOP,
    ...named,
    DbpropMsmdActivityID: id.replaceAll(/\d/g, '0'),
  });
});

test('what may hold a password in its address is not kept', async () => {
  await start('mondrian');
  for (const search of ['?locale=de', '?pwd=hush', '?locale=de', '?pwd=hush']) {
    const path = `/mdx/xmla${search}`;
    await askXmla(gateway.url, execute({ statement: 'SELECT FROM [A]' }), { path });
  }
  const note = (await readWarmUp(gateway)).candidates;
  expect(note).toHaveLength(1);
});

test('sessions are begun as they were begun last', async () => {
  const stub = await start('mondrian');
  await beginSession(gateway.url, { properties: { Catalog: 'Old' } });
  await askTwice(await beginSession(gateway.url, { properties: SHOP }), 'A');
  const before = stub.asked.length;
  const run = await nextRun(gateway, () => purge(gateway));
  const begun = stub.asked.slice(before).filter(({ session }) => session.kind === 'begin');
  expect(run.stored).toBe(1);
  expect(begun.map((one) => JSON.stringify(one).includes('Old'))).toEqual([false]);
  await until(() => endedRuns(gateway.events).length === 1);
});
