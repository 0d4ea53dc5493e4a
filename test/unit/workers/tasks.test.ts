import { expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { createPrimary, createWorkerStores } from '../../../src/workers/shared.ts';
import { linkPair } from '../../support/link-pair.ts';
import { handClock } from '../cache/fakes.ts';

/** Longer than any test (ms). */
const LONG = 60_000;

test('what a worker that has ended did for all, another one goes on with at once', async () => {
  const attach = createPrimary({
    clock: handClock(),
    newToken: randomUUID,
    orphanLease: 0,
    engineStates: async () => undefined,
    inForce: () => undefined,
    configuration: () => '',
    states: { engines: () => [], reloaded: () => true },
  });
  const join = (gateway: string) => {
    const { primary, worker } = linkPair(LONG);
    const leave = attach(primary);
    const { fleet } = createWorkerStores({
      link: worker,
      gateway,
      lease: () => 0,
      longestLease: 0,
    });
    return { fleet, leave };
  };
  const [one, other] = [join('one'), join('other')];
  expect(await one.fleet.hold('watch:Sales', LONG)).toBe(true);
  expect(await one.fleet.hold('hook:etl', LONG, true)).toBe(true);
  expect(await other.fleet.hold('watch:Sales', LONG)).toBe(false);
  one.leave();
  expect(await other.fleet.hold('watch:Sales', LONG)).toBe(true);
  expect(await other.fleet.hold('hook:etl', LONG, true)).toBe(false);
});
