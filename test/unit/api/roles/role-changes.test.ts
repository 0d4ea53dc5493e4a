import { describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { StorageUnavailable } from '../../../../src/common/errors.ts';
import type { GatewayEvent } from '../../../../src/common/events.ts';
import { basic, createGate, settle } from '../../auth/support.ts';
import { createTestApi, failureOf, LONGEST_LEASE } from '../support-api.ts';

const LEASE = 1_000;
const user = (name: string) => ({ type: 'user' as const, name });
const SALES = { name: 'Sales', contains: [user('alice')], description: '' };
const BOB = { ...SALES, contains: [user('bob')] };
const MEMBER = '/role/user/visibility/2';

/** Every change of a house with one role: the store's method, and the request. */
const CHANGES = [
  ['create', 'POST', '/role', { ...SALES, name: 'Buying' }],
  ['update', 'PUT', '/role/2', SALES],
  ['remove', 'DELETE', '/role/2', undefined],
  ['addMember', 'POST', MEMBER, BOB],
  ['removeMember', 'DELETE', MEMBER, SALES],
] as const;

/** A house with one role, where somebody shares by roles. */
async function filled(given: Parameters<typeof createTestApi>[0] = {}) {
  const slept: number[] = [];
  const api = createTestApi({
    async sleep(milliseconds) {
      slept.push(milliseconds);
    },
    ...given,
  });
  await api.storage.roles.create(SALES);
  await api.storage.roles.token(LEASE);
  return { ...api, slept };
}

const messageOf = (body: object | undefined) => ({ ...(body !== undefined && { body }) });

describe.each(CHANGES)('a %s by %s %s', (write, method, path, body) => {
  test('is written, then waits a tenth longer than the lease of all who share by roles', async () => {
    const { ask, slept, invalidated } = await filled();
    expect((await ask(method, path, messageOf(body))).status).toBe(200);
    expect(slept).toEqual([1_100]);
    // Nothing needs to be purged: the roles have another token.
    expect(invalidated).toEqual([]);
  });

  test('is answered when the wait is over, and not before', async () => {
    const order: string[] = [];
    const began = createGate();
    const end = createGate();
    const { ask, storage } = await filled({
      async sleep() {
        order.push('wait');
        began.open();
        await end.passed;
      },
    });
    const store = storage.roles as unknown as Record<string, (...values: unknown[]) => unknown>;
    const telling = (name: string) => {
      const method = store[name];
      store[name] = (...values) => {
        order.push(name);
        return method?.(...values);
      };
    };
    telling(write);
    telling('lease');
    const answer = ask(method, path, messageOf(body)).then((result) => {
      order.push('answer');
      return result;
    });
    await began.passed;
    for (let turn = 0; turn < 20; turn += 1) await settle();
    expect(order).toEqual([write, 'lease', 'wait']);
    end.open();
    expect((await answer).status).toBe(200);
  });

  test('does not wait where nobody shares by roles', async () => {
    const { ask, slept, storage } = await filled();
    storage.roles.lease = async () => 0;
    expect((await ask(method, path, messageOf(body))).status).toBe(200);
    expect(slept).toEqual([]);
  });

  test('waits for the longest lease there can be when the storage does not tell', async () => {
    const { ask, slept, storage } = await filled();
    storage.roles.lease = () =>
      Promise.reject(new StorageUnavailable('nothing-done', new Error('gone')));
    expect((await ask(method, path, messageOf(body))).status).toBe(200);
    expect(slept).toEqual([LONGEST_LEASE * 1.1]);
  });

  test.each([
    [
      'of which nobody knows the outcome',
      new StorageUnavailable('unknown', new Error('gone')),
      /^503 \[storage-unavailable\] The storage did not answer; whether the change was made is not known/,
    ],
    ['that fails in an unknown way', new Error('a mistake'), /^500 \[internal\] /],
  ])('%s waits before it says so', async (_what, error, failure) => {
    const { ask, slept, storage } = await filled();
    Object.assign(storage.roles, { [write]: () => Promise.reject(error) });
    expect(failureOf(await ask(method, path, messageOf(body)))).toMatch(failure);
    expect(slept).toEqual([1_100]);
  });

  test('of which nothing was done waits for nobody', async () => {
    const nothing = () => Promise.reject(new StorageUnavailable('nothing-done', new Error('gone')));
    const { ask, slept, storage } = await filled();
    Object.assign(storage.roles, { [write]: nothing });
    expect(failureOf(await ask(method, path, messageOf(body)))).toBe(
      '503 [storage-unavailable] The storage cannot be reached; nothing was changed.',
    );
    expect(slept).toEqual([]);
  });
});

/** What a client may take for the success of an attempt that was not answered. */
test.each([
  ['already-member', 'POST', MEMBER, SALES],
  ['not-a-member', 'DELETE', MEMBER, BOB],
  ['no-such-role', 'DELETE', '/role/3', undefined],
] as const)(
  'the refusal %s by %s %s waits as the change does',
  async (code, method, path, body) => {
    const { ask, slept } = await filled();
    expect(failureOf(await ask(method, path, messageOf(body)))).toContain(`[${code}]`);
    expect(slept).toEqual([1_100]);
  },
);

test.each([
  ['no-such-role', 'PUT', '/role/3', SALES],
  ['no-such-role', 'POST', '/role/user/visibility/3', SALES],
  ['no-such-role', 'DELETE', '/role/user/visibility/3', SALES],
  ['name-taken', 'POST', '/role', SALES],
  ['bad-request', 'POST', MEMBER, { ...BOB, name: 'Buying' }],
  ['bad-request', 'PUT', '/role/2', {}],
  ['built-in-role', 'DELETE', '/role/1', undefined],
] as const)('the refusal %s by %s %s waits for nobody', async (code, method, path, body) => {
  const { ask, slept } = await filled();
  expect(failureOf(await ask(method, path, messageOf(body)))).toContain(`[${code}]`);
  expect(slept).toEqual([]);
});

test('a change goes on when its client leaves, and is told with its outcome', async () => {
  const began = createGate();
  const end = createGate();
  const told = Promise.withResolvers<GatewayEvent>();
  const { app, storage } = await filled({
    async sleep() {
      began.open();
      await end.passed;
    },
    onEvent: told.resolve,
  });
  const server = app.listen(0, '127.0.0.1');
  try {
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const headers = { authorization: basic('ADMIN', 'x') };
    const left = once(server, 'connection').then(([socket]) => once(socket as Socket, 'close'));
    const request = httpRequest({ port, path: '/api/role/2', method: 'DELETE', headers });
    request.on('error', () => {}).end();
    await began.passed;
    request.destroy();
    await left;
    end.open();
    expect(await told.promise).toMatchObject({ operation: 'deleteRole', status: 200 });
    expect(await storage.roles.read(2)).toBeUndefined();
  } finally {
    server.close();
    server.closeAllConnections();
  }
});
