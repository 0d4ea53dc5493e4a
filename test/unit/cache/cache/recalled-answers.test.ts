import { beforeEach, describe, expect, test } from '@jest/globals';
import { createQueryCache, type QueryCache } from '../../../../src/cache/cache.ts';
import { createFlights } from '../../../../src/cache/flights.ts';
import type { MemoryTier } from '../../../../src/cache/memory-tier.ts';
import type { KnownKey } from '../../../../src/cache/query.ts';
import type { SharedEntries } from '../../../../src/cache/shared-entries.ts';
import type { StoredAnswer } from '../../../../src/cache/stored-answer.ts';
import type { Clock } from '../../../../src/common/clock.ts';
import type { Epochs } from '../../../../src/freshness/freshness.ts';
import { bodyAccount, checkpoint, handClock, type Checkpoint, type HandClock } from '../fakes.ts';
import { answerWith } from '../stored-answer/session-documents.ts';

type Recalling = Pick<QueryCache, 'recall' | 'bring' | 'textOf'>;

/** A cache whose engine is never asked, over these parts of it. */
function cacheOver(options: {
  epochs: Pick<Epochs, 'areCurrent' | 'obtain'>;
  memory: Pick<MemoryTier, 'get' | 'set' | 'textOf'>;
  entries: Pick<SharedEntries, 'find'>;
  clock: Clock;
}): Recalling {
  const never = () => {
    throw new Error('not asked for by these answers');
  };
  const { clock } = options;
  return createQueryCache({
    epochs: {
      held: never,
      renew: never,
      renewLater: never,
      owed: never,
      age: never,
      close: never,
      ...options.epochs,
    },
    memory: {
      peek: never,
      peekRecent: never,
      list: never,
      clear: never,
      hold: never,
      usage: never,
      evictions: never,
      hasRoom: never,
      warmed: never,
      ...options.memory,
    },
    entries: { peek: never, keep: never, ...options.entries },
    flights: createFlights({ clock, deadline: never }),
    sharedFlights: undefined,
    clock,
    random: never,
    purgeTakes: 0,
    maxEntry: never,
    account: bodyAccount(),
    emit: never,
  });
}

const TTL = 1_000;
const AGE = 100;
const KNOWN: KnownKey = {
  key: 'k',
  captured: { scopes: ['everything'], tokens: ['t'], keySecret: 's', leases: [] },
  ttl: TTL,
  digests: 'digests',
};

let clock: HandClock;
let memory: Map<string, StoredAnswer>;
/** Tier 2, where whoever looks can be held. */
let shared: Map<string, StoredAnswer>;
let looks: Checkpoint;
let looked: number;
/** Whether the epochs are in force; whether they are after they were read anew, where one is held. */
let [current, renewed]: [boolean, boolean] = [true, true];
let reads: Checkpoint;
let obtained: (readonly string[])[];
let kept: unknown[];
/** What those who asked tier 2 kept meanwhile (bytes). */
let besides: number[];
let answers: Recalling;
let stored: StoredAnswer;

beforeEach(() => {
  clock = handClock();
  stored = answerWith({
    body: Buffer.from('stored'),
    session: undefined,
    requestedAt: clock.wall(),
    lifetime: TTL,
  });
  clock.advance(AGE);
  [memory, shared] = [new Map(), new Map()];
  [looks, reads] = [checkpoint(), checkpoint()];
  looks.release();
  reads.release();
  [looked, obtained, kept, besides] = [0, [], [], []];
  [current, renewed] = [true, true];
  answers = cacheOver({
    epochs: {
      areCurrent: (captured) => captured === KNOWN.captured && current,
      async obtain(scopes) {
        obtained.push(scopes);
        await reads.arrive();
        current = renewed;
        return undefined;
      },
    },
    memory: {
      get: (key) => memory.get(key),
      set(key, answer, digests) {
        kept.push([key, answer, digests]);
        memory.set(key, answer);
      },
      textOf: (_key, { body }) => body,
    },
    entries: {
      async find(key, beside) {
        looked += 1;
        if (beside !== undefined) besides.push(beside);
        const found = shared.get(key);
        await looks.arrive();
        return found;
      },
    },
    clock,
  });
});

describe('an answer in memory is recalled', () => {
  const recalled = () => answers.recall(KNOWN);

  test('as old as it is, with the time that is left', () => {
    memory.set('k', stored);
    expect(recalled()).toEqual({
      answer: stored,
      source: 'memory',
      ttl: TTL - AGE,
      age: AGE,
      ending: false,
    });
    expect(recalled()?.answer).toBe(stored);
  });

  test('as new where the clock was set back', () => {
    memory.set('k', stored);
    clock.stepWall(-2 * AGE);
    expect(recalled()).toMatchObject({ age: 0 });
  });

  test.each<[string, () => void]>([
    ['when it is gone', () => memory.clear()],
    ['when it was purged, or that cannot be known at this moment', () => (current = false)],
    ['when its time is over', () => clock.advance(TTL - AGE)],
  ])('not %s', (_when, happen) => {
    memory.set('k', stored);
    expect(recalled()).toBeDefined();
    happen();
    expect(recalled()).toBeUndefined();
    expect(obtained).toEqual([]);
  });
});

describe('an answer that memory does not hold is brought from tier 2', () => {
  const BESIDE = 7;
  async function brought() {
    const bringing = answers.bring(KNOWN, BESIDE);
    return bringing && (await bringing);
  }

  test('and recalled, which memory keeps', async () => {
    shared.set('k', stored);
    const answer = await brought();
    expect(answer).toBe(stored);
    // Not yet: it may have gone out of force by then.
    expect([kept, besides]).toEqual([[], [BESIDE]]);
    expect(answers.recall(KNOWN, answer)).toEqual({
      answer: stored,
      source: 'redis',
      ending: false,
      ttl: TTL - AGE,
      age: AGE,
    });
    expect(kept).toEqual([['k', stored, 'digests']]);
  });

  test('and not recalled where memory holds another by then', async () => {
    shared.set('k', stored);
    const answer = await brought();
    const newer = answerWith({ ...stored, body: Buffer.from('newer') });
    memory.set('k', newer);
    expect(answers.recall(KNOWN, answer)).toMatchObject({ answer: newer, source: 'memory' });
    expect(kept).toEqual([]);
  });

  test.each<[string, () => void]>([
    ['when it was purged meanwhile, or that cannot be known', () => (current = false)],
    ['when its time is over by then', () => clock.advance(TTL - AGE)],
  ])('and not recalled, nor kept, %s', async (_when, happen) => {
    shared.set('k', stored);
    const answer = await brought();
    happen();
    expect(answers.recall(KNOWN, answer)).toBeUndefined();
    expect(kept).toEqual([]);
  });

  test.each<[string, () => void]>([
    ['while memory holds one', () => memory.set('k', stored)],
    [
      'while memory holds one whose time is over',
      () => memory.set('k', { ...stored, requestedAt: 0 }),
    ],
    ['when the epochs must be read first', () => (current = false)],
  ])('but not asked for %s', (_when, happen) => {
    happen();
    expect(answers.bring(KNOWN, BESIDE)).toBeUndefined();
    expect([looked, obtained]).toEqual([0, []]);
  });
});
