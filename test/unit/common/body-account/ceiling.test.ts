import { afterEach, expect, jest, test } from '@jest/globals';
import * as fc from 'fast-check';
import type { RequestReservation, Reservation } from '../../../../src/common/body-account.ts';
import { createMemoryTier } from '../../../../src/cache/memory-tier.ts';
import { sizes } from '../../../support/sizes.ts';
import { bodyAccount, handClock, quiet, storedAnswer } from '../../cache/fakes.ts';

const LIMIT = 800;
const USERS = ['alice', 'bob', 'carol'] as const;
/** What one user gets, outside the part for small requests and in it. */
const MOST_OF_ONE = 562.5 + 37.5;

/** One request. */
interface Reader {
  readonly user: string;
  /** Whether its client sends nothing more in the end. */
  readonly silent: boolean;
  readonly share: RequestReservation;
  readonly gone: AbortController;
  left: number;
  size: number;
  state: 'reads' | 'waits' | 'over';
}

const MAX_BODY = 400;
const MAX_MEMORY = 6_000;

function house() {
  const account = bodyAccount(LIMIT, 1_000);
  const clock = handClock();
  const memory = createMemoryTier({ maxBytes: MAX_MEMORY, clock, account });
  const readers: Reader[] = [];
  const fills: { share: Reservation; size: number }[] = [];
  const holds: (() => void)[] = [];
  let stored = 0;

  function end(one: Reader): void {
    one.state = 'over';
    one.size = 0;
    one.gone.abort(new Error('gone'));
    one.share.release();
  }

  function read(one: Reader, bytes: number): void {
    const piece = Math.min(bytes, one.left);
    one.left -= piece;
    const wait = one.share.grow(piece, one.gone.signal);
    if (wait === undefined) return void (one.size += piece);
    one.state = 'waits';
    wait.then(
      () => {
        one.size += piece;
        if (one.state === 'waits') one.state = 'reads';
      },
      () => {
        if (one.state === 'waits') end(one);
      },
    );
  }

  return {
    account,
    memory,
    readers,
    fills,
    holds,
    read,
    come(left: number, who: number) {
      const user = USERS[who % USERS.length] ?? 'nobody';
      // Some are large, some are small, and some have not said what they are.
      const share = account.request(user, () => 30_000, [100_000, left, 0][who % 5]);
      const gone = new AbortController();
      const silent = who % 7 === 0;
      readers.push({ user, silent, share, gone, left, size: 0, state: 'reads' });
    },
    end,
    /** They read all that is left, or are done. */
    goOn(those: readonly Reader[]) {
      for (const one of those) {
        if (one.left === 0) end(one);
        else read(one, MAX_BODY);
        this.check();
      }
    },
    grow(bytes: number) {
      const one = { share: account.open('fill'), size: bytes };
      if (one.share.grow(bytes)) fills.push(one);
    },
    /** Its answer goes to tier 1, and to a slow client. */
    land({ share, size }: { share: Reservation; size: number }) {
      const body = Buffer.alloc(size);
      share.release();
      const letGo = memory.hold(body);
      const answer = storedAnswer({ body, requestedAt: clock.wall() });
      memory.set(`entry ${(stored += 1) % 5}`, answer, 'digests');
      holds.push(letGo);
    },
    check() {
      const { bytes } = account.usage();
      for (const user of USERS) {
        const own = readers.filter((one) => one.user === user);
        const held = own.reduce((sum, one) => sum + one.size, 0);
        expect(held).toBeLessThanOrEqual(MOST_OF_ONE + MAX_BODY);
      }
      const kept = memory
        .peekRecent(1_000)
        .reduce((sum, { answer }) => sum + answer.body.length, 0);
      const all = kept + bytes.request + bytes.fill + bytes.value + bytes.sending;
      expect(all).toBeLessThanOrEqual(MAX_MEMORY + LIMIT + MAX_BODY);
      expect(Math.min(...Object.values(bytes))).toBeGreaterThanOrEqual(0);
    },
  };
}

const action = fc.record({
  do: fc.constantFrom(
    'come',
    'read',
    'read',
    'end',
    'gone',
    'fill',
    'fill',
    'land',
    'sent',
    'purge',
    'time',
  ),
  bytes: fc.integer({ min: 1, max: MAX_BODY }),
  who: fc.nat({ max: 1_000 }),
  // Several things may happen before anything else runs.
  pause: fc.boolean(),
});

afterEach(() => {
  jest.useRealTimers();
});

test('whatever comes and goes, memory stays below its ceiling, each request has its turn or is refused in time, and nothing is left', async () => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] });
  await fc.assert(
    fc.asyncProperty(fc.array(action, { minLength: 60, maxLength: 120 }), async (actions) => {
      const all = house();
      const those = (state: Reader['state']) => all.readers.filter((one) => one.state === state);
      for (const { do: what, bytes, who, pause } of actions) {
        const reading = those('reads');
        const reader = reading[who % reading.length];
        if (what === 'come') all.come(bytes, who);
        else if (what === 'read' && reader !== undefined) all.read(reader, Math.ceil(bytes / 2));
        else if (what === 'end' && reader?.left === 0) all.end(reader);
        else if (what === 'gone') {
          const any = [...reading, ...those('waits')];
          const one = any[who % any.length];
          if (one !== undefined) all.end(one);
        } else if (what === 'fill') all.grow(bytes);
        else if (what === 'land') all.fills.splice(0, 1).forEach(all.land);
        else if (what === 'sent') all.holds.splice(who % (all.holds.length + 1), 1)[0]?.();
        else if (what === 'purge') all.memory.clear();
        else if (what === 'time') jest.advanceTimersByTime(bytes * 20);
        all.check();
        if (pause) await quiet();
      }
      // Some clients are silent. Of the others nobody waits for longer than half a minute.
      for (let rounds = 0; those('waits').length > 0; rounds += 1) {
        expect(rounds).toBeLessThan(10);
        const waited = those('waits');
        jest.advanceTimersByTime(30_000);
        await quiet();
        expect(waited.filter(({ state }) => state === 'waits')).toEqual([]);
        all.goOn(those('reads').filter(({ silent }) => !silent));
      }
      // Slow clients of answers stay; the requests go on, and each comes to its end, whatever the clock says.
      for (const one of those('reads')) all.come(MAX_BODY, all.readers.indexOf(one));
      for (let rounds = 0; those('reads').length + those('waits').length > 0; rounds += 1) {
        expect(rounds).toBeLessThan(500);
        all.goOn(those('reads'));
        await quiet();
      }
      for (const { share } of all.fills) share.release();
      for (const letGo of all.holds) letGo();
      expect(all.account.usage()).toMatchObject({
        bytes: { request: 0, fill: 0, value: 0, sending: 0 },
        waiting: 0,
      });
    }),
    { numRuns: sizes.propertyRuns },
  );
});
