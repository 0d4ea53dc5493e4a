import { isAscii } from '../../common/fold-case.ts';
import type { BypassReason } from '../../common/reasons.ts';
import { byWords, foldName } from '../names.ts';
import { kindAt, kindOf, MDX, type MdxTokens, mdxTokens, textAt, unquoted } from './mdx-tokens.ts';

type Fact = keyof typeof REASONS;
/** What keeps an answer out of the cache, in the order in which it counts: of several facts the first is the reason. */
const REASONS = {
  drillthrough: 'drillthrough',
  noQuery: 'not-a-query',
  /** Something that engines may read in different ways, or that never ends. */
  unclear: 'unclear-statement',
  semicolon: 'several-statements',
  systemRowset: 'system-rowset',
  /** A word by which a SELECT is DMX, not MDX. */
  mining: 'not-a-query',
  noCacheComment: 'no-cache-comment',
  /** The answer may depend on time, user or parameter. */
  volatile: 'volatile',
} as const satisfies Record<string, BypassReason>;
/** Longer texts (UTF-16 units) are not read, which would hold the event loop up. */
export const MAX_STATEMENT = 128 * 1024;
/** When a name counts: as a word anywhere, only with `(` behind it, or only with `.` before it. */
type Where = 'anywhere' | 'called' | 'member';
/**
 * Names in lower case. `[Date]`, `[Time]` and an unbracketed Date may be dimensions, so that the functions are recognised by
 * their parenthesis, with which a name in brackets is one as well: Mondrian calls a function for `[Now]()`.
 */
const WORDS = byWords<readonly [Fact, Where]>([
  [['volatile', 'anywhere'], 'now timer rnd randomize username customdata lookupcube'],
  [['volatile', 'anywhere'], 'currentdatemember currentdatememberexact currentdatestring'],
  [['volatile', 'anywhere'], 'parameter paramref'],
  [['volatile', 'called'], 'date time'],
  [['mining', 'anywhere'], 'prediction flattened into openquery openrowset'],
  [['mining', 'member'], 'content cases sample_cases dimension_content pmml'],
]);

/** Functions that read their text as MDX. A text that is put together shows nothing of what it will say. */
const READS_TEXT = /^strto(?:value|set|member|tuple)$/;
/** Strings within strings: no client writes this many, as each level doubles its quotes, and the search must end. */
export const MAX_NESTING = 8;
/** Another tokenizer may take these for line ends, which end a line comment. */
const OTHER_LINE_END = /[\f\r\v\u0085\u2028\u2029]/;

/**
 * Why the answer to a statement may not be cached; undefined when it may: it begins with SELECT or WITH, is one statement
 * that can be read for certain, and reads neither the clock nor the user nor the server.
 * @param statement as it came, with its carriage returns
 */
export function classifyStatement(statement: string, tokens?: MdxTokens): BypassReason | undefined {
  if (statement.length > MAX_STATEMENT) return 'unclear-statement';
  const facts = new Set<Fact>();
  readFacts(tokens ?? mdxTokens(statement), facts, MAX_NESTING);
  if (mentionsDrillthrough(statement)) facts.add('drillthrough');
  const fact = (Object.keys(REASONS) as Fact[]).find((one) => facts.has(one));
  return fact && REASONS[fact];
}

/** In ASCII a pattern says the same as folding, and faster. */
function mentionsDrillthrough(statement: string): boolean {
  if (/drillthrough/i.test(statement)) return true;
  return !isAscii(statement) && foldName(statement).includes('drillthrough');
}

/**
 * Strings may be formulas (`'…'` in WITH, `"…"` for StrToSet and its like), so they are searched for names as well, up to
 * `depth` of them within each other.
 */
function readFacts(tokens: MdxTokens, facts: Set<Fact>, depth: number): void {
  if (depth === 0) {
    facts.add('unclear');
    return;
  }
  const { text, packed, comments } = tokens;
  const isStatement = depth === MAX_NESTING;
  if (isStatement) readBegin(tokens, facts);
  for (const comment of comments) {
    if (isStatement) readComment(comment, facts);
    else readFacts(mdxTokens(withoutOpenings(comment)), facts, depth - 1);
  }
  const hasLineEnd = isStatement && text.includes('\n');
  const hasDollar = text.includes('$');
  let before: number | undefined;
  let kind: number | undefined;
  for (let at = 0; at < packed.length; at += 1) {
    before = kind;
    kind = kindOf(packed[at] as number);
    switch (kind) {
      case MDX.word:
        searchName(tokens, at, before, facts);
        break;
      case MDX.bracketed:
        // A name in brackets is one of a function only where it is called.
        if (hasDollar || isCalledAt(tokens, at)) searchName(tokens, at, before, facts);
        if (hasLineEnd && textAt(tokens, at).includes('\n')) facts.add('unclear');
        break;
      case MDX.singleQuoted:
      case MDX.doubleQuoted: {
        const quoted = textAt(tokens, at);
        // The key drops carriage returns; an engine that escapes with a backslash sees another end.
        if (isStatement && /\r|\\['"]/.test(quoted)) facts.add('unclear');
        readFacts(mdxTokens(unquoted(quoted)), facts, depth - 1);
        break;
      }
      case MDX.unterminated:
        if (isStatement) facts.add('unclear');
        else readFacts(mdxTokens(withoutOpenings(textAt(tokens, at))), facts, depth - 1);
        break;
      case MDX.closingBracket:
        if (isStatement) facts.add('unclear');
        break;
      case MDX.semicolon:
        if (isStatement) facts.add('semicolon');
        break;
      case MDX.exclamation:
        facts.add('volatile');
        break;
      default:
    }
  }
}

/** Inside of a string, what looks like a comment or never ends may be neither: it is read again without what opens one. */
const withoutOpenings = (text: string) => text.replaceAll(/['"[\]/*-]/g, ' ');

function readBegin(tokens: MdxTokens, facts: Set<Fact>): void {
  const { text } = tokens;
  // A carriage return that is no part of a line end: some engines drop it, some end the line there.
  if (text.includes('\r') && /\r(?!\n)/.test(text)) facts.add('unclear');
  if (!/^(?:select|with)$/i.test(textAt(tokens, 0))) facts.add('noQuery');
}

function readComment(text: string, facts: Set<Fact>): void {
  if (foldName(text).includes('#nocache')) facts.add('noCacheComment');
  const isBlock = text.startsWith('/*');
  const endsLine = !isBlock && OTHER_LINE_END.test(text.replace(/\r$/, ''));
  if (endsLine || isNested(text)) facts.add('unclear');
}

/** SSAS nests block comments, Mondrian does not: it is not known where this one ends. */
export const isNested = (comment: string) => comment.startsWith('/*') && comment.includes('/*', 2);

const isCalledAt = (tokens: MdxTokens, at: number) => kindAt(tokens, at + 1) === MDX.opening;

/**
 * What the name says that stands there as a word or in brackets.
 * @param before the kind of the token before
 */
function searchName(
  tokens: MdxTokens,
  at: number,
  before: number | undefined,
  facts: Set<Fact>,
): void {
  const text = textAt(tokens, at);
  const isWord = !text.startsWith('[');
  const isCalled = isCalledAt(tokens, at);
  if (!isWord && /^\[\s*\$system/.test(foldName(text))) facts.add('systemRowset');
  for (const name of readings(isWord ? text : text.slice(1, -1).replaceAll(']]', ']').trim())) {
    if (before === MDX.dollar && name.startsWith('system')) facts.add('systemRowset');
    if (!isWord && !isCalled) continue;
    const [fact, where] = WORDS.get(name) ?? [];
    const isMeant = where === 'called' ? isCalled : before === MDX.point;
    if (fact !== undefined && (isMeant || where === 'anywhere')) facts.add(fact);
    // Predict, PredictProbability, PredictTimeSeries …
    if (name.startsWith('predict')) facts.add('volatile');
    if (isCalled && READS_TEXT.test(name) && !isOneLiteral(tokens, at + 2)) facts.add('volatile');
  }
}

/** Also where the text ends before, or in what never ends, which is read by itself. */
function isOneLiteral(tokens: MdxTokens, at: number): boolean {
  const first = kindAt(tokens, at);
  const second = kindAt(tokens, at + 1);
  if (first === undefined || first === MDX.unterminated) return true;
  if (first !== MDX.singleQuoted && first !== MDX.doubleQuoted) return false;
  if (second === undefined || second === MDX.unterminated) return true;
  return second === MDX.closing || second === MDX.comma;
}

/** The word, and the ASCII words in it: an engine may end a word where the tokenizer does not. */
function readings(word: string): readonly string[] {
  // As nearly every word is.
  if (/^[A-Za-z0-9_]+$/.test(word)) return [word.toLowerCase()];
  return [word, ...word.split(/[^A-Za-z0-9_]+/)].map(foldName);
}

/**
 * As in the key: without carriage returns (Mondrian drops them, other engines take them for white space) and outer white
 * space. Two that `classifyStatement` lets pass and that are equal so mean the same.
 */
export function normalizeStatement(statement: string): string {
  const text = statement.replaceAll('\r', '');
  let start = 0;
  let end = text.length;
  while (start < end && isBlankAt(text, start)) start += 1;
  while (start < end && isBlankAt(text, end - 1)) end -= 1;
  return text.slice(start, end);
}

const BLANKS: ReadonlySet<number> = new Set(Buffer.from(' \t\n\f'));
const isBlankAt = (text: string, at: number) => BLANKS.has(text.charCodeAt(at));
