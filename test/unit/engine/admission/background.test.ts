import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { createAdmission, type Admission } from '../../../../src/engine/admission.ts';
import { sizes } from '../../../support/sizes.ts';

/** Longer than these tests take (ms). */
const PATIENCE = 300_000;
const LIMITS = { concurrency: 2, per_user: 2, queue: 3 };
const never = new AbortController().signal;
const quiet = () => new Promise((resolve) => setImmediate(resolve));

/** What no user waits for, and what became of it. */
interface Background {
  state: 'waiting' | 'inside' | 'given up' | 'gone';
  /** Users have joined it, so that it is not given up. */
  joined: boolean;
  leave(): void;
}

/** What was given up in the turn in which it was let in stays given up. */
function visit(admission: Admission, joined = false, signal = never): Background {
  const made: Background = { state: 'waiting', joined, leave() {} };
  const overtaken = () => {
    if (!made.joined) made.state = 'given up';
    return !made.joined;
  };
  admission.admitBackground(overtaken, signal).then(
    (leave) => {
      if (made.state === 'waiting') made.state = 'inside';
      made.leave = () => {
        if (made.state === 'inside') made.state = 'gone';
        leave();
      };
    },
    () => (made.state = 'gone'),
  );
  return made;
}

async function visits(admission: Admission, count: number): Promise<Background[]> {
  const made = Array.from({ length: count }, () => visit(admission));
  await quiet();
  return made;
}
const states = (made: readonly Background[]) => made.map(({ state }) => state);

describe('what no user waits for', () => {
  test('gets a place while none is wanted, and waits while a user does', async () => {
    const admission = createAdmission({ ...LIMITS, per_user: 1 });
    const leave = await admission.admit('a', never, PATIENCE);
    const second = admission.admit('a', never, PATIENCE);
    const made = await visits(admission, 1);
    expect([...states(made), admission.usage()]).toEqual(['waiting', { atEngine: 1, waiting: 1 }]);
    leave();
    (await second)();
    await quiet();
    expect([...states(made), admission.usage()]).toEqual(['inside', { atEngine: 1, waiting: 0 }]);
  });

  test('gets all places that are free when no user waits any more', async () => {
    const admission = createAdmission({ ...LIMITS, concurrency: 3, per_user: 1 });
    await admission.admit('a', never, PATIENCE);
    const giveUp = new AbortController();
    const second = admission.admit('a', giveUp.signal, PATIENCE);
    const made = await visits(admission, 2);
    expect(states(made)).toEqual(['waiting', 'waiting']);
    giveUp.abort(new Error('given up'));
    await expect(second).rejects.toThrow('given up');
    await quiet();
    expect([...states(made), admission.usage()]).toEqual([
      'inside',
      'inside',
      { atEngine: 3, waiting: 0 },
    ]);
  });

  test('gives its place up in the turn in which a user comes, and leaves once', async () => {
    const admission = createAdmission(LIMITS);
    const made = await visits(admission, 3);
    expect(states(made)).toEqual(['inside', 'inside', 'waiting']);
    const leave = admission.enter('a');
    expect(states(made)).toEqual(['given up', 'inside', 'waiting']);
    made[0]?.leave();
    expect(admission.usage()).toEqual({ atEngine: 2, waiting: 0 });
    leave?.();
    await quiet();
    expect(states(made)).toEqual(['given up', 'inside', 'inside']);
  });

  test('is given up as a whole when a user has to wait for other requests of the same user', async () => {
    const admission = createAdmission({ concurrency: 4, per_user: 1, queue: 3 });
    await admission.admit('a', never, PATIENCE);
    const made = await visits(admission, 2);
    void admission.admit('a', never, PATIENCE);
    expect(states(made)).toEqual(['given up', 'given up']);
    expect(admission.usage()).toEqual({ atEngine: 1, waiting: 1 });
  });

  test('keeps its place as a user would where users have joined it', async () => {
    const admission = createAdmission({ concurrency: 1, per_user: 1, queue: 3 });
    const [made] = await visits(admission, 1);
    if (made === undefined) throw new Error('there is one');
    made.joined = true;
    expect(admission.enter('a')).toBeUndefined();
    const waits = admission.admit('a', never, PATIENCE);
    made.joined = false;
    expect(admission.enter('b')).toBeUndefined();
    made.leave();
    (await waits)();
    expect(admission.usage()).toEqual({ atEngine: 0, waiting: 0 });
  });

  test('goes on when the user who waited gives up', async () => {
    const admission = createAdmission({ concurrency: 2, per_user: 1, queue: 3 });
    await admission.admit('a', never, PATIENCE);
    const gone = new AbortController();
    const waits = admission.admit('a', gone.signal, PATIENCE);
    const [made] = await visits(admission, 1);
    gone.abort(new Error('gone'));
    await expect(waits).rejects.toThrow('gone');
    await quiet();
    expect(made?.state).toBe('inside');
  });

  test('waits no longer than its signal says', async () => {
    const admission = createAdmission({ concurrency: 1, per_user: 1, queue: 0 });
    const leave = admission.enter('a');
    const gone = new AbortController();
    const made = visit(admission, false, gone.signal);
    gone.abort();
    await quiet();
    leave?.();
    await quiet();
    expect([made.state, admission.usage()]).toEqual(['gone', { atEngine: 0, waiting: 0 }]);
  });

  test('never keeps a user waiting, in whatever order all come and go', async () => {
    const action = fc.record({
      do: fc.constantFrom('background', 'user', 'user', 'leave', 'join', 'end'),
      who: fc.nat({ max: 1_000 }),
      pause: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 60 }), async (actions) => {
        const admission = createAdmission({ concurrency: 3, per_user: 2, queue: 50 });
        const users: { leave: (() => void) | undefined }[] = [];
        const made: Background[] = [];
        const inside = () => users.filter(({ leave }) => leave !== undefined);
        const open = (joined: boolean) =>
          made.filter((one) => one.state === 'inside' && one.joined === joined);
        for (const { do: what, who, pause } of actions) {
          const one = inside()[who % inside().length];
          if (what === 'background') made.push(visit(admission));
          else if (what === 'user') {
            const user: (typeof users)[number] = { leave: undefined };
            users.push(user);
            void admission
              .admit(`user ${who % 4}`, never, PATIENCE)
              .then((leave) => (user.leave = leave));
          } else if (what === 'leave' && one?.leave !== undefined) {
            one.leave();
            users.splice(users.indexOf(one), 1);
          } else if (what === 'join') open(false).forEach((each) => (each.joined = true));
          else if (what === 'end') made[who % made.length]?.leave();
          const { atEngine, waiting } = admission.usage();
          expect([atEngine <= 3, waiting > 0 && open(false).length > 0]).toEqual([true, false]);
          if (pause) await quiet();
        }
        for (let left = 200; left > 0; left -= 1) {
          await quiet();
          inside().forEach((user) => {
            user.leave?.();
            users.splice(users.indexOf(user), 1);
          });
          made.forEach((one) => one.leave());
        }
        expect(admission.usage()).toEqual({ atEngine: 0, waiting: 0 });
      }),
      { numRuns: sizes.propertyRuns },
    );
  });
});
