import { describe, expect, test } from '@jest/globals';
import { StorageUnavailable } from '../../../../src/common/errors.ts';
import { createGate, settle } from '../../auth/support.ts';
import { createTestApi, dataOf, failureOf } from '../support-api.ts';

const user = (name: string) => ({ type: 'user', name });
const SALES = { name: 'Sales', contains: [user('alice')], description: '' };
const DOCUMENT = JSON.stringify({ project: 'Mart', dataset_name: 'd', type: 'MDX' });
const BEFORE = [{ project: 'Mart' }, 'ADMIN', 'before'];
const AFTER = [{ project: 'Mart' }, 'ADMIN', 'after'];

/** Every change of a dataset in a house with one: the store's method, the request, what it makes stale. */
const CHANGES = [
  ['create', 'POST', '/dataset?createType=import', DOCUMENT.replace('"d"', '"e"'), [AFTER]],
  ['update', 'PUT', '/dataset', DOCUMENT, [BEFORE, AFTER]],
] as const;

/** The same for a change of which nobody knows whether it was made. */
const asUnknown = (calls: readonly (readonly unknown[])[]) =>
  calls.map((call) => call.map((part) => (part === 'after' ? 'unknown' : part)));

/** A house with one role and one dataset. */
async function filled(given: Parameters<typeof createTestApi>[0] = {}) {
  const api = createTestApi(given);
  await api.storage.roles.create({ ...SALES, contains: [{ type: 'user', name: 'alice' }] });
  const identity = { project: 'Mart', name: 'd', type: 'MDX' };
  await api.storage.datasets.create({ ...identity, document: Buffer.from(DOCUMENT) });
  return api;
}

const messageOf = (body: object | string | undefined) => ({ ...(body !== undefined && { body }) });

describe.each(CHANGES)('a %s by %s %s', (write, method, path, body, expected) => {
  test('drops what it made stale', async () => {
    const { ask, invalidated } = await filled();
    expect((await ask(method, path, messageOf(body))).status).toBe(200);
    expect(invalidated).toEqual(expected);
  });

  test('is written before that is dropped, and not answered until nobody answers from it', async () => {
    const order: string[] = [];
    const began = createGate();
    const end = createGate();
    const { ask, storage } = await filled({
      async invalidate(_stale, _principal, state) {
        order.push(state);
        if (state === 'before') return true;
        began.open();
        await end.passed;
        return true;
      },
    });
    const store = storage.datasets as unknown as Record<string, (...values: unknown[]) => unknown>;
    const writing = store[write];
    store[write] = (...values) => {
      order.push('write');
      return writing?.(...values);
    };
    const answer = ask(method, path, messageOf(body)).then((result) => {
      order.push('answer');
      return result;
    });
    await began.passed;
    for (let turn = 0; turn < 20; turn += 1) await settle();
    const announced = expected.length === 1 ? [] : ['before'];
    expect(order).toEqual([...announced, 'write', 'after']);
    end.open();
    expect((await answer).status).toBe(200);
  });

  test('says what is saved and not yet cleared', async () => {
    const { ask } = await filled({ invalidate: async () => false });
    const answer = await ask(method, path, messageOf(body));
    expect(failureOf(answer)).toBe(`503 [not-cleared] saved; cache of Mart not yet cleared`);
    expect(answer.headers['retry-after']).toBe('5');
  });

  test('of which nobody knows the outcome drops it all the same', async () => {
    const unknown = () => Promise.reject(new StorageUnavailable('unknown', new Error('gone')));
    const { ask, invalidated, storage, events } = await filled();
    Object.assign(storage.datasets, { [write]: unknown });
    const answer = await ask(method, path, messageOf(body));
    expect(failureOf(answer)).toBe(
      '503 [storage-unavailable] The storage did not answer; whether the change was made is not known.',
    );
    expect(answer.headers['retry-after']).toBe('5');
    expect(invalidated).toEqual(asUnknown(expected));
    expect(events).toMatchObject([{ status: 503, error: { message: 'gone' } }]);
  });

  test('that fails in an unknown way drops it all the same', async () => {
    const failing = () => Promise.reject(new Error('a mistake'));
    const { ask, invalidated, storage } = await filled();
    Object.assign(storage.datasets, { [write]: failing });
    expect(failureOf(await ask(method, path, messageOf(body)))).toMatch(/^500 \[internal\] /);
    expect(invalidated).toEqual(asUnknown(expected));
  });

  test('of which nothing was done drops nothing', async () => {
    const nothing = () => Promise.reject(new StorageUnavailable('nothing-done', new Error('gone')));
    const { ask, invalidated, storage } = await filled();
    Object.assign(storage.datasets, { [write]: nothing });
    expect(failureOf(await ask(method, path, messageOf(body)))).toBe(
      '503 [storage-unavailable] The storage cannot be reached; nothing was changed.',
    );
    expect(invalidated).toEqual(expected.filter(([, , state]) => state === 'before'));
  });
});

test('reads drop nothing', async () => {
  const { ask, invalidated } = await filled();
  expect(dataOf(await ask('GET', '/role/2'))).toEqual(SALES);
  await ask('GET', '/roles?pageNum=0&pageSize=9&containsDesc=true');
  await ask('GET', '/dataset?project=Mart&datasetType=MDX&datasetName=d');
  await ask('GET', '/datasets/MDX/Mart');
  expect(invalidated).toEqual([]);
});

test('reads say that the storage cannot be reached', async () => {
  const down = () => Promise.reject(new StorageUnavailable('nothing-done', new Error('gone')));
  const { ask, storage } = await filled();
  for (const store of [storage.roles, storage.datasets]) {
    Object.assign(store, { read: down, list: down });
  }
  for (const path of [
    '/role/2',
    '/roles?pageNum=0&pageSize=9&containsDesc=true',
    '/dataset?project=Mart&datasetType=MDX&datasetName=d',
    '/datasets/MDX/Mart',
  ]) {
    expect(failureOf(await ask('GET', path))).toMatch(/^503 \[storage-unavailable\] /);
  }
});
