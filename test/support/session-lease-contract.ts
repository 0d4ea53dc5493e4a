import { afterEach, describe, expect, test } from '@jest/globals';
import { sessionRecord, type SessionCalls } from './session-calls.ts';

const SET = { catalog: 'Sales', profile: 'other', version: 'set' };

/**
 * What session stores keep that several processes share: who holds what was read, and for how long a change must wait.
 * @param open a store of one more process, with this lease (ms); all share what they keep until `close`
 */
export function sessionLeaseContract(
  open: (lease: number) => Promise<SessionCalls>,
  close: () => Promise<void>,
): void {
  const openAll = (...leases: readonly number[]) => Promise.all(leases.map(open));

  describe('the lease that a change waits for', () => {
    afterEach(close);

    test('is none for a session that its process alone has served, however often', async () => {
      const [one, other] = (await openAll(1_000, 1_000)) as [SessionCalls, SessionCalls];
      await other.read('another');
      await one.begin('name', sessionRecord());
      await one.read('name');
      const record = (await one.read('name')).record;
      expect(await one.setCatalog('name', record?.version ?? '', SET)).toMatchObject({
        lease: 0,
        record: { dirty: false },
      });
      expect((await one.markDirty('name', 'next')).lease).toBe(0);
    });

    test('is the longest of all others that hold it as clean, the one that began it too', async () => {
      const [one, other, third] = await openAll(1_000, 2_000, 500);
      await one?.begin('name', sessionRecord());
      await third?.read('name');
      expect((await other?.markDirty('name', 'next'))?.lease).toBe(1_000);
      await one?.begin('again', sessionRecord());
      await other?.read('again');
      expect((await third?.setCatalog('again', 'wrong version', SET))?.lease).toBe(2_000);
      expect((await other?.markDirty('again', 'next'))?.lease).toBe(1_000);
    });

    test('counts who holds what a catalog was set to', async () => {
      const [one, other] = (await openAll(1_000, 1_000)) as [SessionCalls, SessionCalls];
      const { version } = await one.begin('name', sessionRecord());
      await other.setCatalog('name', version, SET);
      expect((await one.markDirty('name', 'next')).lease).toBe(1_000);
    });

    test('is told as long as it lasts to who reads what a catalog was set to', async () => {
      const [one, other, third] = (await openAll(60_000, 60_000, 60_000)) as [
        SessionCalls,
        SessionCalls,
        SessionCalls,
      ];
      const { version } = await one.begin('name', sessionRecord());
      expect((await third.read('name')).settles).toBeUndefined();
      await other.setCatalog('name', version, SET);
      const { settles } = await third.read('name');
      // A tenth longer than the lease of those who may still use what was before.
      expect(settles).toBeGreaterThan(60_000);
      expect(settles).toBeLessThanOrEqual(66_000);
      await other.markDirty('name', 'next');
      expect((await third.read('name')).settles).toBeGreaterThan(60_000);
      await one.end('name');
      await one.begin('name', sessionRecord());
      expect((await third.read('name')).settles).toBeUndefined();
    });

    test('does not count who found it dirty already', async () => {
      const [one, other] = (await openAll(1_000, 1_000)) as [SessionCalls, SessionCalls];
      await one.begin('name', sessionRecord());
      await one.markDirty('name', 'next');
      await other.read('name');
      expect((await one.markDirty('name', 'next')).lease).toBe(0);
    });

    test('still counts who held a session that was begun anew or ended', async () => {
      const [one, other] = (await openAll(1_000, 1_000)) as [SessionCalls, SessionCalls];
      await one.begin('name', sessionRecord());
      await other.read('name');
      await one.begin('name', sessionRecord());
      expect((await one.markDirty('name', 'next')).lease).toBe(1_000);
      await one.end('name');
      expect((await one.markDirty('name', 'next')).lease).toBe(1_000);
      await one.begin('name', sessionRecord());
      expect((await one.markDirty('name', 'next')).lease).toBe(1_000);
    });

    test('is told to who begins a session whose name others hold from before', async () => {
      const [one, other] = (await openAll(1_000, 900)) as [SessionCalls, SessionCalls];
      expect(await one.beginAs('name', sessionRecord())).toMatchObject({ lease: 0 });
      await other.read('name');
      await one.end('name');
      expect(await one.beginAs('name', sessionRecord())).toMatchObject({ lease: 900 });
      expect(await other.beginAs('new', sessionRecord())).toMatchObject({ lease: 0 });
    });

    test('is that of any other process for a session that is not known', async () => {
      const [one, other] = (await openAll(1_000, 900)) as [SessionCalls, SessionCalls];
      await other.read('anything');
      expect((await one.markDirty('unknown', 'next')).lease).toBe(900);
      expect((await one.setCatalog('unknown', 'any', SET)).lease).toBe(900);
      expect((await other.markDirty('unknown', 'next')).lease).toBe(1_000);
    });

    test('is that of any other process when all are made dirty', async () => {
      const [one, other] = (await openAll(700, 900)) as [SessionCalls, SessionCalls];
      expect(await one.markAllDirty()).toBe(0);
      await other.read('anything');
      expect(await one.markAllDirty()).toBe(900);
      expect(await other.markAllDirty()).toBe(700);
    });
  });
}
