import { beforeEach, describe, expect, test } from '@jest/globals';
import type { KnownKey } from '../../../src/query-cache/query.ts';
import type { StoredAnswer } from '../../../src/query-cache/stored-answer.ts';
import { handClock, knownAnswers, type HandClock } from './fakes.ts';
import { answerWith } from './entries/session-documents.ts';

const TTL = 1_000;
const AGE = 100;
const KNOWN: KnownKey = {
  key: 'k',
  captured: { scopes: ['everything'], tokens: ['t'], keySecret: 's' },
  ttl: TTL,
  digests: 'digests',
};

let clock: HandClock;
let memory: Map<string, StoredAnswer>;
/** Whether the epochs are in force. */
let current: boolean;
let obtained: (readonly string[])[];
let answers: ReturnType<typeof knownAnswers>;
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
  memory = new Map();
  [current, obtained] = [true, []];
  answers = knownAnswers({
    epochs: {
      areCurrent: (captured) => captured === KNOWN.captured && current,
      async obtain(scopes) {
        obtained.push(scopes);
        return undefined;
      },
    },
    memory: {
      get: (key) => memory.get(key),
      set: (key, answer) => void memory.set(key, answer),
      gzipOf: () => undefined,
    },
    entries: { find: async () => undefined },
    clock,
  });
});

describe('an answer in memory is recalled', () => {
  const recalled = () => answers.recall(KNOWN);

  test('as old as it is, with the time that is left', () => {
    memory.set('k', stored);
    expect(recalled()).toEqual({ answer: stored, source: 'memory', ttl: TTL - AGE, age: AGE });
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
