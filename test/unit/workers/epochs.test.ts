import { describe, expect, test } from '@jest/globals';
import { createEpochs } from '../../../src/query-cache/purge/epochs.ts';
import type { Scope } from '../../../src/query-cache/purge/scopes.ts';
import { workerHouse, type WorkerParts } from '../../support/worker-house.ts';
import { handClock, quiet } from '../query-cache/fakes.ts';

const SCOPES: readonly Scope[] = ['everything', 'project:foodmart'];
const [RENEWED] = [['project:foodmart', 'unassigned']] as const;

async function until(done: () => boolean): Promise<void> {
  while (!done()) await quiet();
}

describe('epochs in the primary process', () => {
  test('are the same for all workers, as is the secret of the keys', async () => {
    const house = workerHouse();
    const [one, other] = [house.join().epochs, house.join().epochs];
    const reading = await one.read(SCOPES);
    expect(new Set(reading.tokens).size).toBe(2);
    expect(await other.read(SCOPES)).toEqual(reading);
    await other.renew(RENEWED);
    const [everything, project] = (await one.read(SCOPES)).tokens;
    expect(everything).toBe(reading.tokens[0]);
    expect(project).not.toBe(reading.tokens[1]);
  });

  test('come with the secret that is configured, if there is one', async () => {
    const { epochs } = workerHouse().join({ keySecret: 'configured' });
    expect((await epochs.read([])).keySecret).toBe('configured');
  });

  test('are of one incarnation as long as the primary process runs, and of another afterwards', async () => {
    const house = workerHouse();
    const [one, other] = [house.join().epochs, house.join().epochs];
    const incarnation = await one.incarnation();
    await one.renew(RENEWED);
    expect(await other.incarnation()).toBe(incarnation);
    expect(await workerHouse().join().epochs.incarnation()).not.toBe(incarnation);
  });

  test('are renewed with the longest lease of all who read in the last ten leases, one’s own too', async () => {
    const house = workerHouse();
    const [one, long, brief] = [1_000, 2_000, 100].map((lease) => house.join({ lease }).epochs);
    await long?.read(SCOPES);
    await brief?.read(SCOPES);
    expect(await one?.renew(RENEWED)).toBe(2_000);
    expect(await brief?.renew(RENEWED)).toBe(2_000);
    house.clock.advance(20_000);
    expect(await one?.renew(RENEWED)).toBe(1_000);
    house.clock.advance(10_000);
    expect(await brief?.renew(RENEWED)).toBe(100);
  });

  test('are renewed with the lease of a worker that is gone, which may only stall', async () => {
    const house = workerHouse();
    const [one, gone] = [house.join(), house.join({ lease: 1_700 })];
    await gone.epochs.read(SCOPES);
    gone.leave();
    expect(await one.epochs.renew(RENEWED)).toBe(1_700);
  });

  test('are renewed with the longest lease while workers of another primary process may still answer', async () => {
    const house = workerHouse({ orphanLease: 2_000 });
    const { epochs } = house.join({ lease: 100 });
    house.clock.advance(1_999);
    expect(await epochs.renew(RENEWED)).toBe(2_000);
    house.clock.advance(1);
    expect(await epochs.renew(RENEWED)).toBe(100);
  });

  test('are not renewed for sure when the lease that comes back is none', async () => {
    const { pair, epochs } = workerHouse().join({ lease: 1_000 });
    for (const lease of [999, 2_001, null, '1000']) {
      pair.primary.serve('epochs', { renew: () => lease });
      await expect(epochs.renew(RENEWED)).rejects.toThrow(
        /lease that nobody can have|is not a number/,
      );
    }
  });

  test('are not read for sure when there are too few, or something else', async () => {
    const { pair, epochs } = workerHouse().join();
    for (const said of [{ tokens: ['a'], keySecret: '' }, { tokens: ['a', 1], keySecret: '' }, 7]) {
      pair.primary.serve('epochs', { read: () => said });
      await expect(epochs.read(SCOPES)).rejects.toThrow(/another number of epochs|is not /);
    }
  });

  test.each([['everything'], [['nothing']], [[1]]])(
    'are not made for what is no scope: %j',
    async (scopes) => {
      const { pair } = workerHouse().join();
      const by = { holder: 'a', lease: 1_000 };
      await expect(pair.worker.call('epochs', 'read', [by, scopes], 60_000)).rejects.toThrow(
        'what came over the link is not',
      );
    },
  );
});

describe('an announcement', () => {
  test('reaches all workers, and who made it is told how many handled it', async () => {
    const house = workerHouse();
    const workers = [house.join(), house.join(), house.join()];
    const heard = workers.map(({ epochs }) => {
      const scopes: (readonly Scope[])[] = [];
      epochs.onAnnouncement((each) => scopes.push(each));
      return scopes;
    });
    const [one, other] = workers as [WorkerParts, WorkerParts];
    expect(one.epochs.acknowledged('purge')).toBe(1);
    await one.epochs.announce({ purge: 'purge', scopes: RENEWED });
    await until(() => one.epochs.acknowledged('purge') === 3);
    expect(heard).toEqual([[RENEWED], [RENEWED], [RENEWED]]);
    expect(other.epochs.acknowledged('purge')).toBe(1);
  });

  test('reaches no store that is closed, nor a worker that is gone', async () => {
    const house = workerHouse();
    const [one, closed, gone] = [house.join(), house.join(), house.join()];
    const heard: unknown[] = [];
    for (const { epochs } of [closed, gone]) epochs.onAnnouncement((scopes) => heard.push(scopes));
    one.epochs.onAnnouncement(() => {});
    await closed.epochs.close();
    gone.leave();
    await one.epochs.announce({ purge: 'purge', scopes: RENEWED });
    await quiet();
    expect([heard, one.epochs.acknowledged('purge')]).toEqual([[], 1]);
  });

  test('that nobody can read does no harm', async () => {
    const house = workerHouse();
    const [one, other] = [house.join(), house.join()];
    const heard: unknown[] = [];
    other.epochs.onAnnouncement((scopes) => heard.push(scopes));
    for (const said of [null, { purge: 'a b', scopes: [] }, { purge: 'p', scopes: ['x'] }]) {
      one.pair.worker.tell('forget', said);
    }
    one.pair.worker.tell('forgotten', { purge: 7 });
    await one.epochs.announce({ purge: 'purge', scopes: RENEWED });
    await until(() => heard.length > 0);
    expect(heard).toEqual([RENEWED]);
  });
});

describe('when a purge is acknowledged, no worker uses an old epoch', () => {
  function crew() {
    const house = workerHouse();
    const clock = handClock();
    const join = () => {
      const parts = house.join();
      return { ...parts, known: createEpochs({ store: parts.epochs, clock, lease: 1_000 }) };
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
