/** What POST /admin/explain tells, in lines for people: on the command line and in the console. */
import type { QueryCache } from '../cache/cache.ts';
import { duration, size } from '../common/words.ts';

type Word = 'decision' | 'reason' | 'why' | 'subject' | 'share';
/** As POST /admin/explain tells it. */
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
/** Of parts of the key that differ. */
const DIFFERENCES: Readonly<Record<string, string>> = {
  epochs: 'it was purged',
  identity: "it is another user's",
};

/**
 * Each line says what of, a colon, and what.
 * @param meaningOf of a word of Cache-Status: whose outcome is `bypass`, `miss` or `gateway`; '' where it is not known
 * @param purgeOf the last purge of a scope, as far as that is known
 */
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
  // An older gateway does not tell it.
  if (not_stored) lines.push(`not stored the last time: ${meant('miss', not_stored)}`);
  if (nearest === null) return lines;
  const differs = nearest.differs.map((part) => withMeaning(part, DIFFERENCES[part])).join('; ');
  const age = duration(nearest.age_ms);
  return [...lines, `nearest: an entry of ${age} ago, which differs in ${differs}`];
}

const withMeaning = (word: string, meaning = '') => (meaning === '' ? word : `${word}: ${meaning}`);

const entryInWords = (entry: Entry | null) =>
  entry
    ? `an entry of ${duration(entry.age_ms)} ago, for ${duration(Math.max(0, entry.ttl_ms))} more; ${size(entry.bytes)}, for which the engine took ${duration(entry.engine_ms)}`
    : 'no entry';
