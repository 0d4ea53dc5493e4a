import { describe, expect, test } from '@jest/globals';
import { ENGINE_KINDS, type EngineKind } from '../../../src/common/engine-kinds.ts';
import { extendProfile } from '../../../src/sessions/digests.ts';
import { planSession, type SessionQuestion } from '../../../src/sessions/session-plan.ts';
import type { SessionRecord } from '../../../src/freshness/freshness-store.ts';
import type { FoundSession } from '../../../src/sessions/sessions.ts';

const QUESTION: SessionQuestion = {
  kind: 'in',
  principal: 'alice',
  bypass: undefined,
  leavesState: false,
  catalog: undefined,
  everywhere: false,
};

const RECORD: SessionRecord = {
  principal: 'alice',
  profile: 'p',
  catalog: null,
  replica: 'http://engine',
  dirty: false,
  spelling: 's',
  version: 'v',
  forwardedAt: 0,
};

const KINDS = Object.keys(ENGINE_KINDS) as EngineKind[];
const UNKNOWN: FoundSession = { kind: 'unknown' };
const UNAVAILABLE: FoundSession = { kind: 'unavailable', last: undefined };
const away = (last: Partial<SessionRecord>): FoundSession => ({
  kind: 'unavailable',
  last: { ...RECORD, ...last },
});
const otherwise = (change: Partial<SessionRecord> = {}): FoundSession => ({
  kind: 'unknown',
  otherwise: { ...RECORD, ...change },
});
const known = (change: Partial<SessionRecord> = {}): FoundSession => ({
  kind: 'known',
  record: { ...RECORD, ...change },
});

function plan(
  question: Partial<SessionQuestion>,
  found: FoundSession,
  kind: EngineKind = 'generic',
): string {
  const planned = planSession({ ...QUESTION, ...question }, found, ENGINE_KINDS[kind]);
  if (planned === 'refuse') return planned;
  return planned.reason === undefined ? 'clean' : `${planned.reason}, ${planned.before}`;
}

describe.each(KINDS)('on %s', (kind) => {
  test('only the own clean session is looked up', () => {
    expect(plan({}, known(), kind)).toBe('clean');
    expect(plan({}, known({ dirty: true }), kind)).toBe('dirty-session, nothing');
    expect(plan({}, known({ principal: 'bob' }), kind)).not.toBe('clean');
    expect(plan({}, known({ principal: 'Alice' }), kind)).not.toBe('clean');
    expect(plan({}, UNKNOWN, kind)).not.toBe('clean');
    expect(plan({}, UNAVAILABLE, kind)).toBe('session-unavailable, nothing');
  });

  test('what changes a session is noted before it is sent, also of a session that is not known', () => {
    const question = { leavesState: true, bypass: 'not-a-query' } as const;
    expect(plan(question, known(), kind)).toBe('not-a-query, dirty');
    expect(plan(question, UNAVAILABLE, kind)).toBe('not-a-query, dirty');
    // Whoever made it dirty may still wait for others to learn of it.
    expect(plan(question, known({ dirty: true }), kind)).toBe('not-a-query, dirty');
    for (const strange of [UNKNOWN, known({ principal: 'bob' })]) {
      expect(['unknown-session, dirty', 'refuse']).toContain(plan(question, strange, kind));
    }
  });

  test('the end of a session always reaches the engine, and nothing is remembered', () => {
    expect(plan({ kind: 'end' }, known(), kind)).toBe('session, end');
    expect(plan({ kind: 'end' }, known({ dirty: true }), kind)).toBe('session, end');
  });

  test('the end of a session is noted only of those who may end it, while the store is away', () => {
    expect(plan({ kind: 'end' }, away({}), kind)).toBe('session, end');
    expect(plan({ kind: 'end' }, UNAVAILABLE, kind)).toBe('session, nothing');
    const strange = plan({ kind: 'end' }, away({ principal: 'bob' }), kind);
    expect(['session, nothing', 'refuse']).toContain(strange);
  });

  test('a stranger is kept out of a session also while the store is away', () => {
    for (const change of [{ principal: 'bob' }, { principal: 'bob', dirty: true }]) {
      const there = plan({}, known(change), kind);
      expect(plan({}, away(change), kind)).toBe(
        there === 'refuse' ? 'refuse' : 'session-unavailable, nothing',
      );
    }
  });
});

describe('sessions that are unknown or of somebody else', () => {
  test.each([
    ['generic', 'refuse'],
    ['emondrian', 'refuse'],
    ['mondrian', 'unknown-session, nothing'],
    ['kylin', 'unknown-session, nothing'],
    ['ssas', 'unknown-session, nothing'],
  ] as const)('%s: %s', (kind, expected) => {
    expect(plan({}, UNKNOWN, kind)).toBe(expected);
    expect(plan({}, known({ principal: 'bob' }), kind)).toBe(expected);
  });

  test.each([
    ['mondrian', 'refuse'],
    ['kylin', 'refuse'],
    // It checks the owner by itself.
    ['ssas', 'unknown-session, nothing'],
  ] as const)('%s keeps what another left in his session from others: %s', (kind, expected) => {
    expect(plan({}, known({ principal: 'bob', dirty: true }), kind)).toBe(expected);
  });
});

test.each([
  ['mondrian', 'unknown-session, end'],
  ['kylin', 'unknown-session, end'],
  // It refuses that, and the session goes on.
  ['ssas', 'unknown-session, nothing'],
] as const)('who ends the session of another on %s: %s', (kind, expected) => {
  expect(plan({ kind: 'end' }, known({ principal: 'bob' }), kind)).toBe(expected);
});

describe('the catalog of a session', () => {
  test.each(['generic', 'emondrian', 'ssas'] as const)('%s', (kind) => {
    expect(plan({ catalog: 'A' }, known({ catalog: 'A' }), kind)).toBe('clean');
    expect(plan({ catalog: 'A' }, known(), kind)).toBe('first-catalog, take-catalog');
    expect(plan({ catalog: 'B' }, known({ catalog: 'A' }), kind)).toBe('first-catalog, dirty');
    expect(plan({ catalog: 'a' }, known({ catalog: 'A' }), kind)).toBe('first-catalog, dirty');
    expect(plan({}, known({ catalog: 'A' }), kind)).toBe('clean');
    expect(plan({ catalog: 'B' }, known({ catalog: 'A', dirty: true }), kind)).toBe(
      'dirty-session, dirty',
    );
    // Nothing says whether such a request reached the engine before the one that named the catalog.
    const later = known({ catalog: 'A', profile: extendProfile('p', 'A') });
    expect(plan({}, later, kind)).toBe('first-catalog, nothing');
    expect(plan({ everywhere: true }, later, kind)).toBe('clean');
    expect(plan({ everywhere: true, catalog: 'A' }, known(), kind)).toBe(
      'first-catalog, take-catalog',
    );
    expect(plan({ catalog: 'A' }, later, kind)).toBe('clean');
    // Also by what is passed through for another reason.
    expect(plan({ catalog: 'A', bypass: 'discover-type' }, known(), kind)).toBe(
      'discover-type, take-catalog',
    );
  });

  test.each(['generic', 'emondrian', 'ssas'] as const)(
    'is not changed unknown to others while the store is away (%s)',
    (kind) => {
      const passes = 'session-unavailable, nothing';
      expect(plan({ catalog: 'A' }, away({ catalog: 'A' }), kind)).toBe(passes);
      expect(plan({}, away({ catalog: 'A' }), kind)).toBe(passes);
      expect(plan({}, UNAVAILABLE, kind)).toBe(passes);
      const waits = 'session-unavailable, dirty';
      expect(plan({ catalog: 'B' }, away({ catalog: 'A' }), kind)).toBe(waits);
      expect(plan({ catalog: 'A' }, away({ catalog: null }), kind)).toBe(waits);
      expect(plan({ catalog: 'A' }, UNAVAILABLE, kind)).toBe(waits);
      const strange = plan({ catalog: 'A' }, away({ catalog: 'A', principal: 'bob' }), kind);
      expect(strange).toBe(kind === 'ssas' ? waits : 'refuse');
      expect(plan({ catalog: 'B', kind: 'end' }, away({ catalog: 'A' }), kind)).toBe(
        'session, end',
      );
    },
  );

  test.each(['mondrian', 'kylin'] as const)('%s does not keep it', (kind) => {
    expect(plan({ catalog: 'A' }, known(), kind)).toBe('clean');
    expect(plan({ catalog: 'A' }, UNAVAILABLE, kind)).toBe('session-unavailable, nothing');
  });
});

test.each([
  ['ssas', 'unknown-session, dirty'],
  ['mondrian', 'unknown-session, nothing'],
] as const)(
  'a session that the store may have lost is not moved to another catalog unnoticed (%s)',
  (kind, planned) => {
    expect(plan({ catalog: 'A' }, UNKNOWN, kind)).toBe(planned);
    expect(plan({}, UNKNOWN, kind)).toBe('unknown-session, nothing');
  },
);

describe('a session under another spelling than that of its beginning', () => {
  test.each(KINDS)('is as unknown as any (%s)', (kind) => {
    expect(plan({}, otherwise(), kind)).toBe(plan({}, UNKNOWN, kind));
    const change = { leavesState: true };
    expect(plan(change, otherwise(), kind)).toBe(plan(change, UNKNOWN, kind));
  });

  test('is not moved or ended unnoticed by whom the engine may take for its owner', () => {
    expect(plan({ catalog: 'A' }, otherwise({ catalog: 'A' }), 'ssas')).toBe(
      'unknown-session, dirty',
    );
    expect(plan({ kind: 'end' }, otherwise(), 'ssas')).toBe('unknown-session, end');
    const strange = otherwise({ principal: 'bob' });
    expect(plan({ catalog: 'A' }, strange, 'ssas')).toBe('unknown-session, nothing');
    expect(plan({ kind: 'end' }, strange, 'ssas')).toBe('unknown-session, nothing');
  });
});
