import { describe, expect, test } from '@jest/globals';
import {
  type AskLeave,
  createLoginThrottle,
  leaveOf,
} from '../../../../src/auth/login-throttle.ts';
import { loginsAtPrimary } from '../../../../src/workers/shared.ts';
import { linkPair, type LinkPair } from '../../../support/link-pair.ts';
import { createTestClock } from '../../auth/support.ts';
import { quiet } from '../../cache/fakes.ts';
import { testPrimary } from '../../../support/primary.ts';
import { systemClock } from '../../../../src/common/clock.ts';

const HERE = '192.0.2.1';
/** Longer than any test, and as long as who gets no answer waits (ms). */
const [LONG, BRIEF] = [60_000, 20];

/** One primary process and so many workers. */
function crew(workers = 2) {
  const clock = createTestClock();
  const attach = testPrimary({ ...systemClock, ...clock, wall: clock.now });
  const links = Array.from({ length: workers }, () => {
    const pair = linkPair(LONG);
    attach(pair.primary);
    return pair;
  });
  const logins = links.map(({ worker }) =>
    loginsAtPrimary(worker, leaveOf(createLoginThrottle({ clock }))),
  );
  /** Asks the workers in turn. */
  const admit = (turn: number, name = 'A', address = HERE): ReturnType<AskLeave> => {
    const asked = logins[turn % workers];
    if (asked === undefined) throw new Error('there is no such worker');
    return asked(name, address);
  };
  return { clock, links, admit };
}

/** Those that were let through. */
function charged(all: readonly Awaited<ReturnType<AskLeave>>[]) {
  return all.filter((leave) => typeof leave === 'function');
}

/** How many of so many tries are let through. */
async function letThrough(tries: number, admit: (turn: number) => ReturnType<AskLeave>) {
  const all: Awaited<ReturnType<AskLeave>>[] = [];
  for (let turn = 0; turn < tries; turn += 1) all.push(await admit(turn));
  return charged(all);
}

describe('who guesses at several workers', () => {
  test('has no more tries than at one', async () => {
    const { admit, clock } = crew(4);
    expect(await letThrough(40, (turn) => admit(turn))).toHaveLength(10);
    expect(await admit(0)).toBe(6);
    clock.advance(6_000);
    expect(await letThrough(8, (turn) => admit(turn))).toHaveLength(1);
  });

  test('has no more tries when all are sent at once', async () => {
    const { admit } = crew(4);
    const all = await Promise.all(Array.from({ length: 200 }, (_, turn) => admit(turn)));
    expect(charged(all)).toHaveLength(10);
  });

  test('has no more tries with many names from one address', async () => {
    const { admit } = crew(2);
    let failed = 0;
    for (let turn = 0; turn < 250; turn += 1) {
      const leave = await admit(turn, `user ${turn}`);
      if (typeof leave === 'number') continue;
      failed += 1;
      expect(await leave('failed')).toBe(failed < 100 ? 0 : 1);
    }
    expect(failed).toBe(100);
  });

  test('gains none by a reload', async () => {
    const { admit, links, clock } = crew(1);
    await letThrough(20, (turn) => admit(turn));
    const [{ worker }] = links as [LinkPair];
    const reloaded = loginsAtPrimary(worker, leaveOf(createLoginThrottle({ clock })));
    expect(await letThrough(10, () => reloaded('A', HERE))).toHaveLength(0);
  });
});

describe('a login that is right at one worker', () => {
  test('clears the failures at all of them', async () => {
    const { admit } = crew(2);
    const [first] = await letThrough(10, (turn) => admit(turn));
    void first?.('succeeded');
    await quiet();
    expect(await letThrough(20, (turn) => admit(turn))).toHaveLength(10);
  });

  test('that could not be checked is given back once', async () => {
    const { admit } = crew(2);
    const [first] = await letThrough(10, (turn) => admit(turn));
    void first?.('abandoned');
    await quiet();
    expect(await letThrough(10, (turn) => admit(turn))).toHaveLength(1);
  });

  test('that was refused gives nothing back', async () => {
    const { admit } = crew(2);
    await letThrough(10, (turn) => admit(turn));
    expect(await admit(1)).toBe(6);
    expect(await letThrough(4, (turn) => admit(turn))).toHaveLength(0);
  });
});

describe('while the primary process does not answer', () => {
  test('a worker lets no more through than one process would, and hurries nobody', async () => {
    const { admit, links, clock } = crew(2);
    for (const pair of links) {
      pair.toPrimary.lose();
      pair.within = BRIEF;
    }
    const all = await Promise.all(Array.from({ length: 60 }, (_, turn) => admit(turn)));
    // Ten at each.
    expect(charged(all)).toHaveLength(20);
    clock.advance(6_000);
    const later = await Promise.all(Array.from({ length: 20 }, (_, turn) => admit(turn)));
    expect(charged(later)).toHaveLength(2);
  });

  test('it is told nothing of what it did not count, when it answers again', async () => {
    const { admit, links } = crew(1);
    const [pair] = links as [LinkPair];
    await letThrough(10, (turn) => admit(turn));
    pair.toPrimary.lose();
    pair.within = BRIEF;
    const [own] = charged([await admit(0)]);
    pair.toPrimary.release();
    pair.within = LONG;
    void own?.('abandoned');
    void own?.('succeeded');
    await quiet();
    expect(await letThrough(3, (turn) => admit(turn))).toHaveLength(0);
  });

  test.each([
    ['a late answer', undefined],
    ['nonsense', { admit: () => 'yes' }],
    ['no number', { admit: () => -1 }],
    ['a failure', { admit: () => Promise.reject(new Error('no')) }],
  ])('or answers with %s, guessing is never free', async (_what, service) => {
    const { admit, links } = crew(1);
    const [pair] = links as [LinkPair];
    if (service === undefined) {
      pair.toWorker.hold();
      pair.within = BRIEF;
    } else pair.primary.serve('logins', service);
    const all = await Promise.all(Array.from({ length: 60 }, (_, turn) => admit(turn)));
    pair.toWorker.release();
    expect(charged(all)).toHaveLength(10);
  });

  test('because it is gone, the worker decides at once', async () => {
    const { admit, links } = crew(1);
    links[0]?.worker.close();
    expect(await letThrough(30, (turn) => admit(turn))).toHaveLength(10);
  });
});
