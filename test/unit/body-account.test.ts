import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import {
  createBodyAccount,
  type BodyAccount,
  type RequestShare,
  type Share,
} from '../../src/body-account.ts';
import { createBodiesInUse } from '../../src/query-cache/bodies-in-use.ts';
import { createMemoryTier } from '../../src/query-cache/memory-tier.ts';
import { sizes } from '../support/sizes.ts';
import { bodyAccount, handClock, quiet, storedAnswer } from './query-cache/fakes.ts';

const LIMIT = 1000;
const NEVER = new AbortController().signal;

/** Takes room, and keeps the books of what became of it. */
function taking(account: BodyAccount, bytes: number, share = account.request(), signal = NEVER) {
  const made = { share, state: 'has it', refusal: undefined as unknown };
  const wait = share.grow(bytes, signal);
  if (wait === undefined) return made;
  made.state = 'waits';
  wait.then(
    () => (made.state = 'has it'),
    (error: unknown) => Object.assign(made, { state: 'refused', refusal: error }),
  );
  return made;
}

const states = (all: readonly { state: string }[]) => all.map(({ state }) => state);

describe('the memory of bodies under way', () => {
  test('has no room for more answers than three quarters of it, and always a quarter for requests', () => {
    const account = bodyAccount(LIMIT);
    const [fill, value] = [account.open('fill'), account.open('value')];
    expect([fill.grow(500), value.grow(250), fill.grow(1), value.grow(1)]).toEqual([
      true,
      true,
      false,
      false,
    ]);
    expect(taking(account, 250).state).toBe('has it');
    // What is in memory already is counted whatever the limit says.
    account.countSending(5_000);
    expect(account.usage().bytes).toEqual({ request: 250, fill: 500, value: 250, sending: 5_000 });
    fill.release();
    expect(fill.grow(1)).toBe(false);
  });

  test('lets a small request in when bodies of slow clients take more than all of it', () => {
    const account = bodyAccount(LIMIT);
    account.countSending(5_000);
    expect(states([taking(account, 100), taking(account, 100)])).toEqual(['has it', 'has it']);
  });

  test('gives room in the order in which it was asked for', async () => {
    const account = bodyAccount(LIMIT);
    const all = [900, 900, 900, 20, 20].map((bytes) => taking(account, bytes));
    // One may go beyond the limit, so that somebody always gets on.
    expect(states(all)).toEqual(['has it', 'has it', 'waits', 'waits', 'waits']);
    expect(account.usage().waiting).toBe(3);
    all[0]?.share.release();
    await quiet();
    expect(states(all)).toEqual(['has it', 'has it', 'has it', 'waits', 'waits']);
    all[1]?.share.release();
    await quiet();
    expect(states(all)).toEqual(Array(5).fill('has it'));
  });

  test('lets no small request overtake a large one that waits', async () => {
    const account = bodyAccount(LIMIT);
    account.countSending(5_000);
    const all = [100, 100, 400].map((bytes) => taking(account, bytes));
    all[2]?.share.shrinkTo(10);
    const [large, small] = [taking(account, 200), taking(account, 20)];
    expect(states([...all, large, small])).toEqual([
      ...['has it', 'has it', 'has it'],
      ...['waits', 'waits'],
    ]);
    all[0]?.share.release();
    all[1]?.share.release();
    await quiet();
    expect(states([large, small])).toEqual(['has it', 'has it']);
  });

  test('has no room for more of an answer while a request waits, which comes in when answers were let go', async () => {
    const account = bodyAccount(LIMIT);
    const fill = account.open('fill');
    expect(fill.grow(700)).toBe(true);
    const all = [400, 400].map((bytes) => taking(account, bytes));
    expect(states(all)).toEqual(['has it', 'waits']);
    expect(fill.grow(1)).toBe(false);
    fill.release();
    await quiet();
    expect(states(all)).toEqual(['has it', 'has it']);
  });

  test('refuses a request when too many wait, and says when to come again', async () => {
    const account = bodyAccount(LIMIT, 2);
    const all = [900, 900, 1, 1, 1].map((bytes) => taking(account, bytes));
    await quiet();
    expect(states(all)).toEqual(['has it', 'has it', 'waits', 'waits', 'refused']);
    expect(all[4]?.refusal).toMatchObject({
      reason: 'overloaded',
      status: 503,
      headers: { 'retry-after': '5', connection: 'close' },
    });
  });

  test('forgets a request whose client goes away while it waits', async () => {
    const account = bodyAccount(LIMIT);
    const gone = new AbortController();
    const all = [900, 900, 900, 10].map((bytes, which) =>
      taking(account, bytes, undefined, which === 2 ? gone.signal : NEVER),
    );
    gone.abort(new Error('gone'));
    all[0]?.share.release();
    await quiet();
    expect(states(all)).toEqual(['has it', 'has it', 'refused', 'has it']);
    expect(all[2]?.refusal).toEqual(new Error('gone'));
    for (const { share } of all) share.release();
    expect(account.usage()).toEqual({
      bytes: { request: 0, fill: 0, value: 0, sending: 0 },
      limit: LIMIT,
      waiting: 0,
    });
  });

  test('follows a limit that a reload changes', () => {
    let in_flight = 100;
    const account = createBodyAccount(() => ({ in_flight, queue: 10 }));
    const fill = account.open('fill');
    expect(fill.grow(100)).toBe(false);
    in_flight = 1_000;
    expect(fill.grow(100)).toBe(true);
    expect(account.usage().limit).toBe(1_000);
  });
});

/** One request of the property below. */
interface Reader {
  readonly share: RequestShare;
  readonly gone: AbortController;
  left: number;
  size: number;
  state: 'reads' | 'waits' | 'over';
}

const MAX_BODY = 400;
const MAX_MEMORY = 6_000;

function house() {
  const account = bodyAccount(LIMIT, 1_000);
  const inUse = createBodiesInUse(account);
  const clock = handClock();
  const memory = createMemoryTier({ maxBytes: MAX_MEMORY, clock, inUse });
  const readers: Reader[] = [];
  const fills: { share: Share; size: number }[] = [];
  const holds: (() => void)[] = [];
  let stored = 0;

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
      () => (one.state = 'over'),
    );
  }

  return {
    account,
    memory,
    readers,
    fills,
    holds,
    read,
    come(left: number) {
      const gone = new AbortController();
      readers.push({ share: account.request(), gone, left, size: 0, state: 'reads' });
    },
    end(one: Reader) {
      one.state = 'over';
      one.size = 0;
      one.gone.abort(new Error('gone'));
      one.share.release();
    },
    grow(bytes: number) {
      const one = { share: account.open('fill'), size: bytes };
      if (one.share.grow(bytes)) fills.push(one);
    },
    /** Its answer goes to tier 1, and to a slow client. */
    land({ share, size }: { share: Share; size: number }) {
      const body = Buffer.alloc(size);
      share.release();
      const letGo = inUse.hold(body);
      const answer = storedAnswer({ body, requestedAt: clock.wall() });
      memory.set(`entry ${(stored += 1) % 5}`, answer, 'digests');
      holds.push(letGo);
    },
    check() {
      const { bytes } = account.usage();
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
  ),
  bytes: fc.integer({ min: 1, max: MAX_BODY }),
  who: fc.nat({ max: 1_000 }),
  // Several things may happen before anything else runs.
  pause: fc.boolean(),
});

test('whatever comes and goes, memory stays below its ceiling, each request has its turn, and nothing is left', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(action, { maxLength: 120 }), async (actions) => {
      const all = house();
      const those = (state: Reader['state']) => all.readers.filter((one) => one.state === state);
      for (const { do: what, bytes, who, pause } of actions) {
        const reading = those('reads');
        const reader = reading[who % reading.length];
        if (what === 'come') all.come(bytes);
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
        all.check();
        if (pause) await quiet();
      }
      // Slow clients of answers stay; the requests go on, and each comes to its end.
      for (let rounds = 0; those('reads').length + those('waits').length > 0; rounds += 1) {
        expect(rounds).toBeLessThan(500);
        for (const one of those('reads')) {
          if (one.left === 0) all.end(one);
          else all.read(one, MAX_BODY);
          all.check();
        }
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
