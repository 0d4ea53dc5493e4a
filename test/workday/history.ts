import type { Outcome } from './outcome.ts';
import type { Known, Moments, Play } from './scene.ts';

/** What a scene has come to, by its own rules. */
export interface Verdicts {
  readonly outcomes: readonly Outcome[];
  /** Those of them that were refused, or cut, and may be. */
  readonly allowed: ReadonlySet<Outcome>;
  /** What the scene did not show, in words. */
  readonly missing: readonly string[];
}

/** Says of an answer that its ttl was over, and that the engine is away. */
const STALE = /\bengine-away\b/;
/** What the cache holds afterwards. */
const KEPT = /^200 (?:hit (?!coalesced)|miss stored)/;

export const isStale = ({ words }: Outcome): boolean => STALE.test(words);
/** Without waiting for the engine. */
export const isHit = ({ words }: Outcome): boolean => /^200 hit (?!coalesced)/.test(words);

/** Holds what became of the requests against what the scene allows and must show. */
export function judgeScene(
  all: readonly Outcome[],
  { allows, mayBeStale, misses }: Pick<Play, 'allows' | 'mayBeStale' | 'misses'>,
  moments: Moments,
  slow: Known['slow'] = {},
): Verdicts {
  const outcomes = all.map((one) =>
    one.verdict === 'right' && isStale(one) && mayBeStale?.(one, moments) !== true
      ? { ...one, verdict: 'wrong' as const, words: `${one.words}, though it is not` }
      : one,
  );
  const isKept = (one: Outcome) => wasAnswered(one, outcomes);
  const allowed = outcomes.filter(
    (one) => (one.verdict === 'refused' || one.verdict === 'cut') && allows?.(one, moments, isKept),
  );
  return {
    outcomes,
    allowed: new Set(allowed),
    missing: misses?.(outcomes, moments, { wasAnswered: isKept, slow }) ?? [],
  };
}

/** Whether the cache holds what the person asks: answered before, no purge since, and nothing was made in its session. */
function wasAnswered(asked: Outcome, outcomes: readonly Outcome[]): boolean {
  const earlier = outcomes.filter(({ answered }) => answered < asked.sent);
  const purged = Math.max(
    ...outcomes
      .filter(({ deed, sent }) => deed === 'purge' && sent < asked.answered)
      .map(({ answered }) => answered),
  );
  const isSession = (one: Outcome) =>
    one.person === asked.person && one.sessionBegan === asked.sessionBegan;
  if (earlier.some((one) => one.deed === 'change' && isSession(one))) return false;
  return earlier.some(
    (one) =>
      one.verdict === 'right' &&
      KEPT.test(one.words) &&
      one.deed === 'ask' &&
      asked.deed === 'ask' &&
      one.asked === asked.asked &&
      isSession(one) &&
      one.sent > purged,
  );
}
