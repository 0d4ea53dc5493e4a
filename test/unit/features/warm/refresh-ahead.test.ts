import { beforeEach, describe, expect, test } from '@jest/globals';
import type { GatewayEvent } from '../../../../src/common/events.ts';
import { GatewayError } from '../../../../src/common/errors.ts';
import { principalOf } from '../../../../src/common/principal.ts';
import { createMemoryFleet, type FleetStore } from '../../../../src/freshness/fleet.ts';
import type { AskedWay, EndingEntry } from '../../../../src/features/warm/fill.ts';
import { createRefreshAhead } from '../../../../src/features/warm/refresh-ahead.ts';
import type { EndingHit } from '../../../../src/line/ports.ts';
import { bodyAccount, handClock, quiet } from '../../cache/fakes.ts';

const STORED: AskedWay = { result: 'stored', ms: 300 };
const [AT_ONCE, WAITING] = [4, 64];

let clock: ReturnType<typeof handClock>;
let store: (holder: string) => FleetStore;
/** What the lanes were asked, and what they answer. */
let asked: string[];
let answer: (entry: EndingEntry, cut: AbortSignal) => Promise<AskedWay>;
let patienceMs: number;
let lanes: number;

beforeEach(() => {
  clock = handClock();
  store = createMemoryFleet(clock);
  asked = [];
  answer = async () => STORED;
  [patienceMs, lanes] = [60_000, 0];
});

function member(id: string) {
  const events: GatewayEvent[] = [];
  const account = bodyAccount();
  const ahead = createRefreshAhead({
    clock,
    fleet: store(id),
    emit: (event) => void events.push(event),
    newId: () => 'id',
    list: async () => ({ candidates: [], beginnings: [] }),
    line: () => ({
      account,
      patience: () => patienceMs,
      open({ cut }) {
        lanes += 1;
        return {
          ask: async () => [],
          renew(entry: EndingEntry) {
            asked.push(`${id} ${entry.key}`);
            return answer(entry, cut);
          },
          close: async () => void (lanes -= 1),
        };
      },
    }),
  });
  ahead.configure(true);
  const told = () =>
    events.flatMap((one) => (one.type === 'refreshed' ? [one.reason ?? one.result] : []));
  return { ...ahead, told, account };
}

function hit(key: string, counts = () => true): EndingHit {
  const principal = principalOf('alice');
  return {
    key,
    login: { principal, counts, countsForHits: () => true },
    authorization: 'Basic x',
    asked: { subject: 'Execute', forwarded: {} } as never,
    body: Buffer.from('body'),
    destination: { addressee: { project: undefined, query: [] } },
    session: undefined,
    requestedAt: 1,
  };
}

/** Holds all that is asked until told what came of it. */
function held() {
  const { promise, resolve } = Promise.withResolvers<AskedWay>();
  answer = (_entry, cut) => {
    const gone = new Promise<never>((_resolve, reject) => {
      cut.addEventListener('abort', () => reject(cut.reason as Error), { once: true });
    });
    return Promise.race([promise, gone]);
  };
  return resolve;
}

describe('an entry that ends soon', () => {
  test('is asked for once at a time, by one gateway for all', async () => {
    const [one, other] = [member('a'), member('b')];
    const release = held();
    for (const each of [one, one, other, other]) each.ending(hit('k'));
    await quiet();
    expect([asked, other.told()]).toEqual([['a k'], ['no-turn']]);
    release(STORED);
    await quiet();
    expect([one.told(), lanes]).toEqual([['stored'], 0]);
    clock.advance(5_000);
    // Its memory has the old one yet.
    other.ending(hit('k'));
    await quiet();
    expect(asked).toEqual(['a k', 'b k']);
  });

  test('is asked for by another gateway when the one that had the turn has died', async () => {
    await store('dead').hold('refresh:k', 10_000);
    const one = member('a');
    one.ending(hit('k'));
    await quiet();
    expect([asked, one.told()]).toEqual([[], ['no-turn']]);
    clock.advance(10_000);
    one.ending(hit('k'));
    await quiet();
    expect(one.told()).toEqual(['no-turn', 'stored']);
  });

  test.each([
    ['failed', 'engine-unreachable'],
    ['not-stored', 'fault'],
  ] as const)(
    'is left alone for a while by every gateway where that %s',
    async (result, reason) => {
      const [one, other] = [member('a'), member('b')];
      answer = async () => ({ result, reason, ms: 1_000 });
      for (let times = 0; times < 3; times += 1) {
        one.ending(hit('k'));
        await quiet();
        other.ending(hit('k'));
        await quiet();
        clock.advance(4_000);
      }
      expect(asked).toEqual(['a k']);
      clock.advance(3_000);
      one.ending(hit('k'));
      await quiet();
      expect([asked.length, one.told()]).toEqual([2, [reason, reason]]);
    },
  );

  test('is left out while too many wait, which is counted, and gives its memory back', async () => {
    const one = member('a');
    const release = held();
    for (let i = 0; i < AT_ONCE + WAITING + 2; i += 1) one.ending(hit(`k ${i}`));
    await quiet();
    expect([asked.length, one.told()]).toEqual([AT_ONCE, ['overloaded', 'overloaded']]);
    expect(one.account.usage().bytes.fill).toBe((AT_ONCE + WAITING) * 4);
    release(STORED);
    await quiet();
    await quiet();
    await quiet();
    expect(asked).toHaveLength(AT_ONCE + WAITING);
    expect(one.account.usage().bytes.fill).toBe(0);
  });

  test('is given up when it waits longer than a request may, and not once it is at the engine', async () => {
    const one = member('a');
    patienceMs = 1;
    const release = held();
    const wait = answer;
    answer = (entry, cut) => {
      if (entry.key === 'begun') entry.begins();
      return wait(entry, cut);
    };
    one.ending(hit('waits'));
    one.ending(hit('begun'));
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(one.told()).toEqual(['overtaken']);
    release(STORED);
    await quiet();
    expect(one.told()).toEqual(['overtaken', 'stored']);
  });
});

describe('a login', () => {
  test('that is only believed asks for nothing', async () => {
    const one = member('a');
    one.ending(hit('k', () => false));
    await quiet();
    expect([asked, one.told()]).toEqual([[], []]);
  });

  test('that counts no more when its turn comes asks for nothing', async () => {
    const one = member('a');
    const release = held();
    let counts = true;
    for (let i = 0; i < AT_ONCE; i += 1) one.ending(hit(`k ${i}`));
    one.ending(hit('last', () => counts));
    counts = false;
    release(STORED);
    await quiet();
    expect(one.told()).toEqual(['stored', 'stored', 'stored', 'stored', 'login']);
    expect(asked).toHaveLength(AT_ONCE);
  });
});

test('nothing is asked for while it is off, and a gateway that ends gives all up', async () => {
  const one = member('a');
  one.configure(false);
  one.ending(hit('k'));
  await quiet();
  expect([asked, one.told()]).toEqual([[], []]);
  one.configure(true);
  held();
  for (let i = 0; i < AT_ONCE + 1; i += 1) one.ending(hit(`k ${i}`));
  await quiet();
  await one.close();
  expect([one.told(), lanes]).toEqual([Array(AT_ONCE + 1).fill('overtaken'), 0]);
});

test('a mistake of this program is told, and ends nothing else', async () => {
  const one = member('a');
  answer = () => Promise.reject(new TypeError('a mistake'));
  one.ending(hit('k'));
  await quiet();
  answer = () => Promise.reject(new GatewayError('engine-unreachable', 'away'));
  one.ending(hit('other'));
  await quiet();
  expect([one.told(), lanes]).toEqual([['engine-unreachable'], 0]);
});
