import { expect, test } from '@jest/globals';
import { createWorkerStores } from '../../../../src/workers/shared.ts';
import { linkPair } from '../../../support/link-pair.ts';
import { handClock } from '../../cache/fakes.ts';
import { testPrimary } from '../../../support/primary.ts';

/** Longer than any test (ms). */
const LONG = 60_000;

test('what a worker that has ended did for all, another one goes on with at once', async () => {
  const attach = testPrimary(handClock());
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
