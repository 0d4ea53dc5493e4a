import type { QueryCache } from '../cache/cache.ts';
import { duration, size } from '../common/words.ts';

type Word = 'decision' | 'reason' | 'why' | 'subject' | 'share';
export interface Explanation {
  readonly project?: string;
  readonly user: string;
  readonly classification: Readonly<
    Partial<Record<Word, string>> & { catalogs?: readonly string[]; ttl_ms?: number }
  >;
  readonly cache?: Awaited<ReturnType<QueryCache['explain']>>;
}
type Entry = Readonly<Record<'age_ms' | 'ttl_ms' | 'bytes' | 'engine_ms', number>>;

const DECISIONS: Readonly<Record<string, string>> = {
  cacheable: 'it is looked up in the cache',
  bypass: 'it goes to the engine past the cache',
  refused: 'the gateway answers it with a Fault',
};
const DIFFERENCES: Readonly<Record<string, string>> = {
  epochs: 'it was purged',
  identity: "it is another user's",
};

/** @param meaningOf explains a word of Cache-Status; '' if unknown */
export function explainInWords(
  { project, user, classification, cache }: Explanation,
  meaningOf: (outcome: string, word: string) => string,
  purgeOf: (scope: string) => string = () => '',
): string[] {
  const { decision = '', reason, why, subject = 'unknown', share, ttl_ms = 0 } = classification;
  const meant = (outcome: string, word: string) => withMeaning(word, meaningOf(outcome, word));
  const catalogs = classification.catalogs?.join(', ') || 'none';
  const where = `project: ${project ?? 'none'}; catalogs: ${catalogs}`;
  const lines = [
    withMeaning(decision, DECISIONS[decision]),
    `request: ${subject} by ${user}; ${where}`,
  ];
  const outcome = decision === 'refused' ? 'gateway' : 'bypass';
  if (reason !== undefined) lines.push(`reason: ${meant(outcome, reason)}`);
  if (why !== undefined) lines.push(`why: ${why}`);
  if (cache === undefined) return lines;
  const { epochs, memory, redis, flight, not_stored, nearest } = cache;
  const tokens = epochs === 'unknown' ? [] : epochs;
  const named = tokens.map(({ scope, token }) => `${scope} ${token}${purgeOf(scope)}`);
  lines.push(
    `shared: by ${share}, kept for ${duration(ttl_ms)}`,
    `memory: ${entryInWords(memory)}`,
    `Redis: ${typeof redis === 'string' ? redis : entryInWords(redis)}`,
    `under way: ${flight ? 'the engine is being asked for it' : 'no'}`,
    `epochs: ${named.join(', ') || 'unknown, because Redis cannot be reached'}`,
  );
  // Older gateways do not tell it.
  if (not_stored) lines.push(`not stored the last time: ${meant('miss', not_stored)}`);
  if (nearest === null) return lines;
  const differs = nearest.differs.map((part) => withMeaning(part, DIFFERENCES[part])).join('; ');
  const age = duration(nearest.age_ms);
  return [...lines, `nearest: an entry of ${age} ago, which differs in ${differs}`];
}

const withMeaning = (word: string, meaning = '') => (meaning === '' ? word : `${word}: ${meaning}`);

function entryInWords(entry: Entry | null): string {
  if (entry === null) return 'no entry';
  const { age_ms, ttl_ms, bytes, engine_ms } = entry;
  const left =
    ttl_ms > 0 ? `for ${duration(ttl_ms)} more` : `past its ttl for ${duration(-ttl_ms)}`;
  return `an entry of ${duration(age_ms)} ago, ${left}; ${size(bytes)}, for which the engine took ${duration(engine_ms)}`;
}
