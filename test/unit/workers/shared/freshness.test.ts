import { describe, expect, test } from '@jest/globals';
import type { CacheScope } from '../../../../src/freshness/freshness-store.ts';
import { createEpochs } from '../../../../src/freshness/freshness.ts';
import { workerHouse, type WorkerParts } from '../../../support/worker-house.ts';
import { handClock, quiet } from '../../cache/fakes.ts';

const SCOPES: readonly CacheScope[] = ['everything', 'project:foodmart'];
const [RENEWED] = [['project:foodmart', 'unassigned']] as const;

async function until(done: () => boolean): Promise<void> {
  while (!done()) await quiet();
}

describe('epochs in the primary process', () => {
  test('are the same for all workers, as is the secret of the keys', async () => {
    const house = workerHouse();
    const [one, other] = [house.join().store, house.join().store];
    const reading = await one.read(SCOPES);
    expect(new Set(reading.tokens).size).toBe(2);
    expect(await other.read(SCOPES)).toEqual(reading);
    await other.renew(RENEWED);
    const [everything, project] = (await one.read(SCOPES)).tokens;
    expect(everything).toBe(reading.tokens[0]);
    expect(project).not.toBe(reading.tokens[1]);
  });

  test('are of one incarnation as long as the primary process runs, and of another afterwards', async () => {
    const house = workerHouse();
    const [one, other] = [house.join().store, house.join().store];
    const incarnation = await one.incarnation();
    await one.renew(RENEWED);
    expect(await other.incarnation()).toBe(incarnation);
    expect(await workerHouse().join().store.incarnation()).not.toBe(incarnation);
  });

  test('are renewed with the longest lease of all who read in the last ten leases, one’s own too', async () => {
    const house = workerHouse();
    const [one, long, brief] = [1_000, 2_000, 100].map((lease) => house.join({ lease }).store);
    await long?.read(SCOPES);
    await brief?.read(SCOPES);
    expect((await one?.renew(RENEWED))?.lease).toBe(2_000);
    expect((await brief?.renew(RENEWED))?.lease).toBe(2_000);
    house.clock.advance(20_000);
    expect((await one?.renew(RENEWED))?.lease).toBe(1_000);
    house.clock.advance(10_000);
    expect((await brief?.renew(RENEWED))?.lease).toBe(100);
  });

  test('are renewed with the lease of a worker that is gone, which may only stall', async () => {
    const house = workerHouse();
    const [one, gone] = [house.join(), house.join({ lease: 1_700 })];
    await gone.store.read(SCOPES);
    gone.leave();
    expect((await one.store.renew(RENEWED)).lease).toBe(1_700);
  });

  test('are renewed with the longest lease while workers of another primary process may still answer', async () => {
    const house = workerHouse({ orphanLease: 2_000 });
    const { store } = house.join({ lease: 100 });
    house.clock.advance(1_999);
    expect((await store.renew(RENEWED)).lease).toBe(2_000);
    house.clock.advance(1);
    expect((await store.renew(RENEWED)).lease).toBe(100);
  });

  test('are not renewed for sure when the lease that comes back is none', async () => {
    const { pair, store } = workerHouse().join({ lease: 1_000 });
    for (const lease of [999, 2_001, null]) {
      pair.primary.serve('freshness 3', { renew: () => ({ lease, others: 0, incarnation: '' }) });
      await expect(store.renew(RENEWED)).rejects.toThrow('no lease can have');
    }
  });

  test('are not known to a worker of another version than its primary process', async () => {
    const { pair } = workerHouse().join();
    await expect(pair.worker.call('freshness 1', 'read', [], 60_000)).rejects.toThrow(
      'there is no freshness 1.read here',
    );
  });
});

/** Lets a worker hear of purges. */
function listening({ store }: WorkerParts) {
  const scopes: (readonly CacheScope[])[] = [];
  const forgotten: string[] = [];
  store.listen({
    renewed: (each) => void scopes.push(each),
    forgotten: (purge, gateway) => void forgotten.push(`${purge} ${gateway.length}`),
  });
  return { scopes, forgotten };
}

describe('an announcement', () => {
  test('reaches all workers, and the one that made it is told of each other that handled it', async () => {
    const house = workerHouse();
    const workers = [house.join(), house.join(), house.join()];
    const heard = workers.map(listening);
    const [one, other] = heard;
    await workers[0]?.store.announce({ purge: 'purge', scopes: RENEWED });
    await until(() => one?.forgotten.length === 2);
    expect(heard.map(({ scopes }) => scopes)).toEqual([[RENEWED], [RENEWED], [RENEWED]]);
    expect(one?.forgotten).toEqual(['purge 36', 'purge 36']);
    expect(other?.forgotten).toEqual([]);
  });

  test('does not reach a worker that is gone', async () => {
    const house = workerHouse();
    const [one, gone] = [house.join(), house.join()];
    const [own, other] = [one, gone].map(listening);
    gone.leave();
    await one.store.announce({ purge: 'purge', scopes: RENEWED });
    await until(() => own?.scopes.length === 1);
    await quiet();
    expect(other?.scopes).toEqual([]);
    expect(own?.forgotten).toEqual([]);
  });
});

describe('when a purge is acknowledged, no worker uses an old epoch', () => {
  function crew() {
    const house = workerHouse();
    const clock = handClock();
    const join = () => {
      const parts = house.join();
      return { ...parts, known: createEpochs({ store: parts.store, clock, lease: () => 1_000 }) };
    };
    return { clock, one: join(), other: join() };
  }

  test('although it hears of nothing', async () => {
    const { clock, one, other } = crew();
    const before = await other.known.obtain(SCOPES);
    if (before === undefined) throw new Error('no epochs');
    // It stalls: nothing reaches it, and it asks for nothing.
    other.pair.toWorker.hold();
    const renewal = await one.known.renew(RENEWED, 'purge');
    expect(renewal.lease).toBe(1_000);
    expect(other.known.areCurrent(before)).toBe(true);
    clock.advance(renewal.lease * 1.1);
    expect(await renewal.stands()).toBe(true);
    expect(other.known.areCurrent(before)).toBe(false);
    other.pair.toWorker.release();
    const after = await other.known.obtain(SCOPES);
    expect(after?.tokens[1]).not.toBe(before.tokens[1]);
  });

  test('although the reply to what it had asked before arrives afterwards', async () => {
    const { clock, one, other } = crew();
    other.pair.toWorker.hold();
    const obtained = other.known.obtain(SCOPES);
    await until(() => other.pair.toWorker.held.length === 1);
    const renewal = await one.known.renew(RENEWED, 'purge');
    clock.advance(renewal.lease * 1.1);
    other.pair.toWorker.release();
    const captured = await obtained;
    expect(captured).toEqual(await one.known.obtain(SCOPES));
  });

  test('and who heard of it forgets at once', async () => {
    const { one, other } = crew();
    const before = await other.known.obtain(SCOPES);
    if (before === undefined) throw new Error('no epochs');
    const renewal = await one.known.renew(RENEWED, 'purge');
    await until(() => renewal.replicas() === 2);
    expect(other.known.areCurrent(before)).toBe(false);
  });

  test('nor is it acknowledged when the primary process was replaced meanwhile', async () => {
    const { one } = crew();
    const renewal = await one.known.renew(RENEWED, 'purge');
    one.pair.worker.close();
    await expect(renewal.stands()).rejects.toThrow('is closed');
  });
});
