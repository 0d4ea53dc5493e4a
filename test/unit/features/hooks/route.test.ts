import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import express from 'express';
import { errorMapper } from '../../../../src/app.ts';
import type { PurgeOutcome } from '../../../../src/cache/purge/purge.ts';
import { systemClock } from '../../../../src/common/clock.ts';
import type { GatewayEvent } from '../../../../src/common/events.ts';
import { createMemoryFleet, createOnce } from '../../../../src/freshness/fleet.ts';
import { createHookRoute } from '../../../../src/features/hooks/route.ts';
import { callDbtHook, dbtRun, SECRET, signatureOf } from '../../../support/hooks.ts';
import { portOf, type Answer } from '../../../support/http-client.ts';
import { principalOf } from '../../../../src/common/principal.ts';

const receipt = {
  id: 'id',
  scope: { project: 'Shop' },
  epochs_renewed: [],
  known: true,
  waited: 0,
  replicas: 1,
  engine_calls: 0,
};
const DONE: PurgeOutcome = { ok: true, receipt };
const PENDING: PurgeOutcome = { ok: false, failed: 'redis', engines: [] };
const ENGINE: PurgeOutcome = { ok: false, failed: 'engine', receipt, engines: [] };

let server: Server;
let url: string;
let events: GatewayEvent[];
let purges: PromiseWithResolvers<PurgeOutcome>[];
let under: Promise<unknown>[];
/** For whom it was asked whether a signature may be looked at. */
let asked: string[];
/** Milliseconds that pass between two looks at the clock. */
let step: number;

beforeEach(async () => {
  [events, purges, under, step, asked] = [[], [], [], 0, []];
  let now = 0;
  const clock = { ...systemClock, now: () => (now += step) };
  const fleet = createMemoryFleet({ now: () => 0 })('');
  const emit = (event: GatewayEvent) => void events.push(event);
  const newId = () => 'an-id';
  const hook = { format: 'dbt', user: undefined, secret: SECRET } as const;
  const projects = new Map([
    ['Shop', 'Shop'],
    ['Stock', 'Stock'],
  ]);
  const hooks = createHookRoute({
    hooks: new Map([['dbt', { ...hook, projects }]]),
    login: () => principalOf('alice'),
    async askLeave(name) {
      asked.push(name);
      return async () => 0;
    },
    addressOf: () => '',
    taken: createOnce(fleet, { now: () => 0 }, 1_000),
    purge() {
      const purge = Promise.withResolvers<PurgeOutcome>();
      purges.push(purge);
      return purge.promise;
    },
    during(work) {
      under.push(work);
      return work;
    },
    clock,
    newId,
    emit,
  });
  server = createServer(express().use('/hooks', hooks).use(errorMapper(newId, emit)));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(() => void server.close());

const told = ({ status, text }: Answer) => [
  status,
  (JSON.parse(text) as { status?: string; error?: string }).status,
];
/** Calls the hook; its purges of two projects end so. */
async function called(body: string, ...ends: readonly PurgeOutcome[]): Promise<Answer> {
  const before = purges.length;
  const answer = callDbtHook(url, 'dbt', body);
  while (ends.length > 0 && purges.length < before + 2) await new Promise(setImmediate);
  for (const [at, end] of ends.entries()) purges[before + at]?.resolve(end);
  return answer;
}

test.each([
  ['both', [DONE, DONE], [200, 'cleared']],
  ['one of them only', [DONE, PENDING], [200, 'accepted']],
  ['none of them', [PENDING, PENDING], [200, 'accepted']],
  ['one, but an engine keeps its cache', [DONE, ENGINE], [502, 'engine-not-cleared']],
  ['none, and an engine keeps its cache', [PENDING, ENGINE], [502, 'engine-not-cleared']],
])('says cleared only when the purge of each project holds: %s', async (_which, ends, expected) => {
  expect(told(await called(dbtRun(), ...ends))).toEqual(expected);
});

test('a purge that takes longer than the caller waits goes on after the answer', async () => {
  step = 2_500;
  const body = dbtRun();
  expect(told(await called(body))).toEqual([200, 'accepted']);
  let over = false;
  expect(under).toHaveLength(1);
  const [work] = under;
  void work?.then(() => (over = true));
  await new Promise(setImmediate);
  expect(over).toBe(false);
  for (const purge of purges) purge.resolve(DONE);
  await work;
  step = 0;
  expect((await called(body)).status).toBe(403);
});

test('a purge that fails after the answer lets the message come again', async () => {
  step = 2_500;
  const body = dbtRun();
  expect(told(await called(body))).toEqual([200, 'accepted']);
  for (const purge of purges) purge.resolve(ENGINE);
  await Promise.allSettled(under);
  step = 0;
  expect(told(await called(body, DONE, DONE))).toEqual([200, 'cleared']);
});

test('a failure of the gateway itself is told as one, once, and the message may come again', async () => {
  const body = dbtRun();
  const answer = callDbtHook(url, 'dbt', body);
  while (purges.length < 2) await new Promise(setImmediate);
  for (const purge of purges) purge.reject(new Error('a fault'));
  expect((await answer).status).toBe(500);
  expect(events.map(({ type }) => type).toSorted()).toEqual(['hook-called', 'internal-error']);
  expect(events).toContainEqual(expect.objectContaining({ type: 'hook-called', result: 'failed' }));
  expect(told(await called(body, DONE, DONE))).toEqual([200, 'cleared']);
});

test('callers that have not shown who they are hold few bodies, are counted before they send one, and keep no other waiting', async () => {
  const head = `POST /hooks/dbt HTTP/1.1\r\nHost: a\r\nAuthorization: ${signatureOf('')}\r\n`;
  const sockets = Array.from({ length: 64 }, () => {
    const socket = connect(portOf(url), '127.0.0.1').on('error', () => {});
    socket.write(`${head}Content-Length: 200\r\n\r\n{`);
    return socket;
  });
  while (asked.length < 64) await new Promise(setImmediate);
  expect(told(await called(dbtRun(), DONE, DONE))).toEqual([200, 'cleared']);
  const closed = () => sockets.filter((one) => one.closed).length;
  while (closed() < 1 || events.length < 2) await new Promise(setImmediate);
  expect(closed()).toBe(1);
  for (const socket of sockets) socket.destroy();
  while (events.length < 65) await new Promise(setImmediate);
});
