import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { createBodyAccount, type BodyAccount } from '../../../src/common/body-account.ts';
import { bodyAccount, quiet } from '../cache/fakes.ts';

/** Of it 100 are kept for small requests, and one user gets 1125 of the rest. */
const LIMIT = 1_600;
const NEVER = new AbortController().signal;
/** What is not small. */
const LARGE = 100_000;
const NOTHING = { request: 0, fill: 0, value: 0, sending: 0 };

interface Taken {
  readonly user?: string;
  readonly announced?: number;
  readonly signal?: AbortSignal;
  readonly patience?: () => number;
}

/** Takes room, and keeps the books of what became of it. */
function taking(
  account: BodyAccount,
  bytes: number,
  { user = 'alice', announced = LARGE, signal = NEVER, patience = () => 30_000 }: Taken = {},
) {
  const share = account.request(user, patience, announced);
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

// Holds the clock by which requests wait.
beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] });
});
afterEach(() => {
  jest.useRealTimers();
});

describe('the memory of bodies under way', () => {
  test('has no room for more answers than three quarters of it, and always a quarter for requests', () => {
    const account = bodyAccount(LIMIT);
    const [fill, value] = [account.open('fill'), account.open('value')];
    expect([fill.grow(800), value.grow(400), fill.grow(1), value.grow(1)]).toEqual([
      true,
      true,
      false,
      false,
    ]);
    const requests = [
      taking(account, 225),
      taking(account, 75, { user: 'bob' }),
      taking(account, 75, { announced: 0 }),
      taking(account, 25, { user: 'bob', announced: 0 }),
    ];
    expect(states(requests)).toEqual(Array(4).fill('has it'));
    expect(Object.values(account.usage().bytes).reduce((sum, one) => sum + one)).toBe(LIMIT);
    // What is in memory already is counted whatever the limit says.
    account.countSending(5_000);
    expect(account.usage().bytes).toEqual({ request: 400, fill: 800, value: 400, sending: 5_000 });
    fill.release();
    expect(fill.grow(1)).toBe(false);
  });

  test('lets a request in when bodies of slow clients take more than all of it', () => {
    const account = bodyAccount(LIMIT);
    account.countSending(5_000);
    expect(states([taking(account, 100), taking(account, 100)])).toEqual(['has it', 'has it']);
  });

  test('gives the requests of one user room in the order in which they asked for it', async () => {
    const account = bodyAccount(LIMIT);
    const all = [1_100, 1_100, 1_100, 20, 20].map((bytes) => taking(account, bytes));
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

  test('lets no request overtake a larger one of its user that waits', async () => {
    const account = bodyAccount(LIMIT);
    const bob = taking(account, 1_200, { user: 'bob' });
    const all = [200, 200, 20].map((bytes) => taking(account, bytes));
    expect(states([bob, ...all])).toEqual(['has it', 'has it', 'waits', 'waits']);
    bob.share.release();
    await quiet();
    expect(states(all)).toEqual(['has it', 'has it', 'has it']);
  });

  test('has no room for more of an answer while a request is beyond the limit, and the next comes in when answers were let go', async () => {
    const account = bodyAccount(LIMIT);
    const fill = account.open('fill');
    expect(fill.grow(1_100)).toBe(true);
    const all = [500, 500].map((bytes) => taking(account, bytes));
    expect(states(all)).toEqual(['has it', 'waits']);
    expect(fill.grow(1)).toBe(false);
    fill.release();
    await quiet();
    expect(states(all)).toEqual(['has it', 'has it']);
  });

  test('lets the next go beyond the limit when the one that did is over, though nothing else came free', async () => {
    const account = bodyAccount(LIMIT);
    const bob = taking(account, 1_000, { user: 'bob' });
    account.countSending(5_000);
    const all = [500, 500].map((bytes) => taking(account, bytes));
    expect(states([bob, ...all])).toEqual(['has it', 'has it', 'waits']);
    all[0]?.share.release();
    await quiet();
    expect(states(all)).toEqual(['has it', 'has it']);
  });

  test('refuses a request when too many wait, and says when to come again', async () => {
    const account = bodyAccount(LIMIT, 2);
    const all = [1_100, 1_100, 1, 1, 1].map((bytes) => taking(account, bytes));
    await quiet();
    expect(states(all)).toEqual(['has it', 'has it', 'waits', 'waits', 'refused']);
    expect(all[4]?.refusal).toMatchObject({
      reason: 'overloaded',
      status: 503,
      headers: { 'retry-after': '5', connection: 'close' },
    });
  });

  test('refuses a request that has waited as long as it may in all, and has what it held for others', async () => {
    const account = bodyAccount(LIMIT);
    const [first, beyond] = [taking(account, 1_100), taking(account, 1_100)];
    let left = 30_000;
    const late = taking(account, 5, { patience: () => left });
    jest.advanceTimersByTime(20_000);
    beyond.share.shrinkTo(10);
    await quiet();
    expect(states([late])).toEqual(['has it']);
    // Now it holds a part, and waits a second time; of its patience there are ten seconds left.
    const last = taking(account, 1_100);
    left -= 20_000;
    const failure = late.share.grow(10, NEVER)?.catch((error: unknown) => error);
    jest.advanceTimersByTime(9_999);
    expect(account.usage().waiting).toBe(1);
    jest.advanceTimersByTime(1);
    expect(await failure).toMatchObject({ reason: 'overloaded', headers: { 'retry-after': '5' } });
    for (const { share } of [first, beyond, late, last]) share.release();
    expect(account.usage()).toMatchObject({ bytes: NOTHING, waiting: 0 });
    expect(jest.getTimerCount()).toBe(0);
  });

  test('forgets a request whose client goes away while it waits', async () => {
    const account = bodyAccount(LIMIT);
    const gone = new AbortController();
    const all = [1_100, 1_100, 1_100, 10].map((bytes, which) =>
      taking(account, bytes, { signal: which === 2 ? gone.signal : NEVER }),
    );
    gone.abort(new Error('gone'));
    all[0]?.share.release();
    await quiet();
    expect(states(all)).toEqual(['has it', 'has it', 'refused', 'has it']);
    expect(all[2]?.refusal).toEqual(new Error('gone'));
    for (const { share } of all) share.release();
    expect(account.usage()).toEqual({ bytes: NOTHING, limit: LIMIT, waiting: 0 });
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

describe('the memory of several users', () => {
  test('is not for one of them alone, whose waiting holds up nobody else', () => {
    const account = bodyAccount(LIMIT);
    const [first, beyond] = [taking(account, 1_100), taking(account, 100)];
    const waits = Array.from({ length: 5 }, () => taking(account, 100));
    const others = [1, 2, 3].map(() => taking(account, 100, { user: 'bob' }));
    expect(states([first, beyond, ...waits, ...others])).toEqual([
      ...['has it', 'has it'],
      ...Array<string>(5).fill('waits'),
      ...Array<string>(3).fill('has it'),
    ]);
  });

  test('is given to them in turn', async () => {
    const account = bodyAccount(LIMIT);
    account.countSending(5_000);
    const holds = taking(account, 1_000, { user: 'carol' });
    const all = ['alice', 'alice', 'alice', 'bob', 'bob'].map((user) =>
      taking(account, 1_000, { user }),
    );
    const order: number[] = [];
    let next: (typeof all)[number] | undefined = holds;
    while (next !== undefined) {
      next.share.release();
      await quiet();
      next = all.find(({ state }, which) => state === 'has it' && !order.includes(which));
      if (next !== undefined) order.push(all.indexOf(next));
    }
    expect(order).toEqual([0, 3, 1, 4, 2]);
  });

  test('leaves a quarter of the queue to those who have not three quarters of it', async () => {
    const account = bodyAccount(LIMIT, 4);
    account.countSending(5_000);
    const all = Array.from({ length: 5 }, () => taking(account, 500));
    const others = [1, 2].map(() => taking(account, 500, { user: 'bob' }));
    await quiet();
    expect(states([...all, ...others])).toEqual([
      ...['has it', 'waits', 'waits', 'waits', 'refused'],
      ...['waits', 'refused'],
    ]);
    expect(String(all[4]?.refusal)).toMatch(/Too many of your requests wait for memory/);
    expect(String(others[1]?.refusal)).toMatch(/Too many requests wait for memory/);
  });

  test('is asked back from those only who have what another waits for', () => {
    const account = bodyAccount(LIMIT);
    const bob = taking(account, 100, { user: 'bob' });
    const alice = [1_100, 100, 100].map((bytes) => taking(account, bytes));
    expect(states(alice)).toEqual(['has it', 'has it', 'waits']);
    expect([...alice.slice(0, 2), bob].map(({ share }) => share.isInTheWay())).toEqual([
      true,
      true,
      false,
    ]);
    // Bob's own request waits for what anybody may give back.
    const carol = taking(account, 1_000, { user: 'carol' });
    expect([carol.state, bob.share.isInTheWay()]).toEqual(['waits', true]);
  });
});

describe('the part for small requests', () => {
  test('lets them past large ones that wait, also of the same user, and past one user’s small ones', () => {
    const account = bodyAccount(LIMIT);
    account.countSending(5_000);
    const large = [500, 500].map((bytes) => taking(account, bytes));
    const small = [50, 25, 25].map((bytes) => taking(account, bytes, { announced: bytes }));
    const other = taking(account, 25, { user: 'bob', announced: 0 });
    expect(states([...large, ...small, other])).toEqual([
      ...['has it', 'waits'],
      ...['has it', 'has it', 'waits'],
      'has it',
    ]);
    // It is bounded.
    expect(taking(account, 1, { user: 'carol', announced: 1 }).state).toBe('waits');
  });

  test('is not for what announces more or becomes more', () => {
    const account = bodyAccount(160 * 64 * 1024);
    account.countSending(2 ** 40);
    void taking(account, 2 ** 30);
    const sizes = [64 * 1024, 64 * 1024 + 1];
    expect(
      states(sizes.map((announced) => taking(account, 10, { user: 'bob', announced }))),
    ).toEqual(['has it', 'waits']);
    const grows = taking(account, 64 * 1024, { announced: 0 });
    expect(grows.state).toBe('has it');
    expect(grows.share.grow(1, NEVER)).toBeInstanceOf(Promise);
    expect(account.usage().waiting).toBe(2);
    const before = account.usage().bytes.request;
    grows.share.shrinkTo(1_000);
    expect(account.usage().bytes.request).toBe(before - 64 * 1024 + 1_000);
  });
});
