import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import type { SessionRecord } from '../../src/freshness/freshness-store.ts';
import { sessionRecord, type SessionCalls } from './session-calls.ts';

/** What every session store keeps, whatever it is made of. Each test has names of its own. */
export function sessionStoreContract(
  open: () => Promise<{ readonly store: SessionCalls; close(): Promise<void> }>,
): void {
  let store: SessionCalls;
  let close: () => Promise<void>;
  beforeAll(async () => {
    ({ store, close } = await open());
  });
  afterAll(() => close());

  async function begun(changed: Partial<SessionRecord> = {}) {
    const name = randomUUID();
    const record = await store.begin(name, sessionRecord(changed));
    return { name, record };
  }
  const recordOf = async (name: string) => (await store.read(name)).record;

  describe('a session in the store', () => {
    test.each([
      ['plain', {}],
      ['with a catalog', { catalog: 'Sales' }],
      ['with an empty catalog', { catalog: '' }],
      [
        'with odd texts',
        {
          principal: 'a\uD800"\n',
          catalog: '["x"]',
          profile: '',
          replica: 'é\0',
          spelling: '","',
        },
      ],
      ['that was begun dirty', { dirty: true }],
    ])('is read as it was begun: %s', async (_what, changed) => {
      const given = sessionRecord(changed);
      const name = randomUUID();
      expect(await store.begin(name, given)).toEqual(given);
      expect(await recordOf(name)).toEqual(given);
    });

    test('is unknown under any other name, and when nobody began it', async () => {
      const { name } = await begun();
      expect(await recordOf(`${name} `)).toBeUndefined();
      expect(await recordOf('')).toBeUndefined();
    });

    test('is replaced when another one is begun under its name', async () => {
      const { name } = await begun({ catalog: 'old' });
      const next = sessionRecord({ principal: 'bob' });
      expect(await store.begin(name, next)).toEqual(next);
      expect(await recordOf(name)).toEqual(next);
    });

    test('is dirty for ever once it was made dirty', async () => {
      const { name, record } = await begun();
      const receipt = await store.markDirty(name, 'next');
      expect(receipt).toMatchObject({ record: { ...record, dirty: true }, lease: 0 });
      expect(await recordOf(name)).toEqual(receipt.record);
      expect((await store.markDirty(name, 'later')).record).toEqual(receipt.record);
      const set = { catalog: 'Sales', profile: 'other', version: 'set' };
      for (const expected of [record.version, 'next', 'later']) {
        expect((await store.setCatalog(name, expected, set)).record).toEqual(receipt.record);
      }
      await store.touch(name, 5);
      expect(await recordOf(name)).toMatchObject({ dirty: true, catalog: null, forwardedAt: 5 });
    });

    test('stays dirty when it is begun again, until it is ended', async () => {
      const { name } = await begun();
      await store.markDirty(name, 'next');
      expect(await store.begin(name, sessionRecord())).toMatchObject({ dirty: true });
      await store.end(name);
      expect(await store.begin(name, sessionRecord())).toMatchObject({ dirty: false });
    });

    test('that is not there can be made dirty, named, touched and ended, and is not there then', async () => {
      const name = randomUUID();
      expect((await store.markDirty(name, 'next')).record).toBeUndefined();
      const set = { catalog: 'Sales', profile: 'other', version: 'set' };
      expect((await store.setCatalog(name, 'any', set)).record).toBeUndefined();
      await store.touch(name, 5);
      await store.end(name);
      expect(await recordOf(name)).toBeUndefined();
    });

    test('takes the catalog that is set under the version that was read', async () => {
      const { name, record } = await begun();
      const next = { catalog: 'Sales', profile: 'other', version: 'next' };
      const receipt = await store.setCatalog(name, record.version, next);
      expect(receipt).toMatchObject({ record: { ...record, ...next }, lease: 0 });
      expect(await recordOf(name)).toEqual(receipt.record);
    });

    test('is dirty when two set different catalogs, or different profiles', async () => {
      for (const second of [
        { catalog: 'HR', profile: 'other' },
        { catalog: 'Sales', profile: 'another' },
      ]) {
        const { name, record } = await begun();
        const first = { catalog: 'Sales', profile: 'other', version: 'first' };
        await store.setCatalog(name, record.version, first);
        const receipt = await store.setCatalog(name, record.version, {
          ...second,
          version: 'second',
        });
        expect(receipt.record).toEqual({ ...record, ...first, dirty: true });
        expect(await recordOf(name)).toEqual(receipt.record);
      }
    });

    test('stays as it is when two set the same', async () => {
      const { name, record } = await begun();
      const next = { catalog: 'Sales', profile: 'other' };
      await store.setCatalog(name, record.version, { ...next, version: 'first' });
      const receipt = await store.setCatalog(name, record.version, { ...next, version: 'second' });
      expect(receipt.record).toEqual({ ...record, ...next, version: 'first' });
    });

    test('tells when it was last forwarded, and has the same version then', async () => {
      const { name, record } = await begun();
      await store.touch(name, 1_700_000_123_456);
      expect(await recordOf(name)).toEqual({ ...record, forwardedAt: 1_700_000_123_456 });
    });

    test('is unknown after its end', async () => {
      const { name } = await begun();
      await store.end(name);
      expect(await recordOf(name)).toBeUndefined();
    });
  });

  test('making all dirty makes dirty what was begun before, and nothing that is begun later', async () => {
    const before = await begun();
    const again = await begun();
    expect(await store.markAllDirty()).toBe(0);
    const later = await begun();
    expect(await recordOf(before.name)).toEqual({ ...before.record, dirty: true });
    expect(await recordOf(later.name)).toEqual(later.record);
    const set = { catalog: 'Sales', profile: 'other', version: 'set' };
    expect((await store.setCatalog(before.name, before.record.version, set)).record).toMatchObject({
      dirty: true,
      catalog: null,
    });
    expect(await store.begin(again.name, sessionRecord())).toMatchObject({ dirty: true });
    await store.touch(before.name, 5);
    expect(await recordOf(before.name)).toMatchObject({ dirty: true });
  });
}

/** Half a beginning: `begun` says what became of it once its second half was let go. */
export interface LateBeginning {
  readonly begun: Promise<'clean' | 'dirty' | 'not begun'>;
  letGo(): void;
}

/** What {@link LateBeginning} tells of a beginning. */
export const asBegun = (beginning: Promise<SessionRecord>): LateBeginning['begun'] =>
  beginning.then(
    ({ dirty }) => (dirty ? 'dirty' : 'clean'),
    () => 'not begun',
  );

/**
 * What every shared store does with a beginning whose second half is carried out late, when its caller may have given up.
 * @param open the calls of another process, and a beginning of the session `name` that is under way
 */
export function lateBeginningContract(
  open: () => Promise<{
    readonly other: SessionCalls;
    late(): Promise<LateBeginning>;
  }>,
): void {
  test('is clean when nothing happened', async () => {
    const { late } = await open();
    const { begun, letGo } = await late();
    letGo();
    expect(await begun).toBe('clean');
  });

  test('is dirty when it was made dirty in between, by name or with all', async () => {
    const { late, other } = await open();
    const byName = await late();
    await other.markDirty('name', 'next');
    byName.letGo();
    expect(await byName.begun).toBe('dirty');
    await other.end('name');
    const withAll = await late();
    await other.markAllDirty();
    withAll.letGo();
    expect(await withAll.begun).toBe('dirty');
  });

  test('begins nothing when it was asked for, ended or begun by others in between', async () => {
    const { late, other } = await open();
    const next = sessionRecord({ principal: 'bob' });
    for (const [meanwhile, left] of [
      [() => other.read('name'), undefined],
      [() => other.end('name'), undefined],
      [() => other.begin('name', next), next],
    ] as const) {
      const { begun, letGo } = await late();
      await meanwhile();
      letGo();
      expect(await begun).toBe('not begun');
      expect((await other.read('name')).record).toEqual(left);
    }
  });

  test('stays dirty when it was dirty before, also with two beginnings at one time', async () => {
    const { late, other } = await open();
    await other.begin('name', sessionRecord());
    await other.markDirty('name', 'next');
    const first = await late();
    const second = await late();
    first.letGo();
    second.letGo();
    expect([await first.begun, await second.begun]).toEqual(['not begun', 'dirty']);
  });
}
