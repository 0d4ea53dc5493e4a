import type { BypassReason } from '../../reasons.ts';
import { foldName } from '../fold-name.ts';
import { mdxTokens } from './mdx-tokens.ts';
import type { MdxTokens } from './mdx-tokens.ts';
import { statementFacts } from './statement-facts.ts';
import type { StatementFacts } from './statement-facts.ts';

interface StatementRule {
  readonly reason: BypassReason;
  readonly applies: (facts: StatementFacts, statement: string) => boolean;
}

/** Without the carriage return, which is gone before. */
const OUTER_SPACE: ReadonlySet<string> = new Set([' ', '\t', '\n', '\f']);

const QUERY_WORDS: ReadonlySet<string> = new Set(['select', 'with']);

/** Longer texts are not read, which would hold the event loop up for more than a moment (UTF-16 units). */
export const MAX_STATEMENT = 128 * 1024;

/** In the order in which they are asked; the first that applies is the reason. */
const RULES: readonly StatementRule[] = [
  {
    reason: 'drillthrough',
    applies: (_, statement) => mentionsDrillthrough(statement),
  },
  { reason: 'not-a-query', applies: ({ firstWord }) => !QUERY_WORDS.has(firstWord) },
  { reason: 'unclear-statement', applies: ({ unclear }) => unclear },
  { reason: 'several-statements', applies: ({ semicolon }) => semicolon },
  { reason: 'system-rowset', applies: ({ systemRowset }) => systemRowset },
  { reason: 'not-a-query', applies: ({ mining }) => mining },
  { reason: 'no-cache-comment', applies: ({ noCacheComment }) => noCacheComment },
  { reason: 'volatile', applies: ({ volatile }) => volatile },
];

/** In ASCII a pattern says the same as folding, in a tenth of the time. */
function mentionsDrillthrough(statement: string): boolean {
  if (/drillthrough/i.test(statement)) return true;
  return /[^\0-\x7F]/.test(statement) && foldName(statement).includes('drillthrough');
}

/**
 * Why the answer to a statement may not be cached; undefined when it may. An allow-list: only what begins
 * with SELECT or WITH, less what the text shows to read the clock, the user or the server, or to be more than
 * one statement, or cannot be read for certain.
 *
 * Takes the statement as it came, with its carriage returns.
 * @param tokens those of the statement, where they have been read already
 */
export function classifyStatement(statement: string, tokens?: MdxTokens): BypassReason | undefined {
  if (statement.length > MAX_STATEMENT) return 'unclear-statement';
  const facts = statementFacts(tokens ?? mdxTokens(statement));
  return RULES.find(({ applies }) => applies(facts, statement))?.reason;
}

/**
 * The statement as it stands in the key: without carriage returns (Mondrian drops them all, other engines take
 * them for white space) and without outer white space, which is exactly space, tab, LF, CR and FF. Two
 * statements that `classifyStatement` lets pass and that are equal so mean the same.
 */
export function normalizeStatement(statement: string): string {
  const text = statement.replaceAll('\r', '');
  let start = 0;
  let end = text.length;
  while (start < end && OUTER_SPACE.has(text.charAt(start))) {
    start += 1;
  }
  while (end > start && OUTER_SPACE.has(text.charAt(end - 1))) {
    end -= 1;
  }
  return text.slice(start, end);
}
