import type { EngineTraits } from '../../common/engine-kinds.ts';
import { isAscii } from '../../common/fold-case.ts';
import type { BypassReason } from '../../common/reasons.ts';
import { byWords, foldName } from '../names.ts';
import { CHANGING_NAMES, isPrediction, KNOWN_FUNCTIONS, type Place } from './known-functions.ts';
import {
  kindAt,
  kindOf,
  MDX,
  type MdxTokens,
  mdxTokens,
  startOf,
  textAt,
  unquoted,
} from './mdx-tokens.ts';

type Fact = keyof typeof REASONS;
/** Facts that keep an answer out of the cache. The first one found gives the reason. */
const REASONS = {
  drillthrough: 'drillthrough',
  noQuery: 'not-a-query',
  /** Engines may read it in different ways, or it never ends. */
  unclear: 'unclear-statement',
  semicolon: 'several-statements',
  systemRowset: 'system-rowset',
  /** A word by which a SELECT is DMX, not MDX. */
  mining: 'not-a-query',
  noCacheComment: 'no-cache-comment',
  volatile: 'volatile',
} as const satisfies Record<string, BypassReason>;
/** Reading longer texts (UTF-16 units) would block the event loop. */
export const MAX_STATEMENT = 128 * 1024;
/** Names in lower case. `member`: only behind `.`. */
const WORDS = byWords<readonly [Fact, Place | 'member']>([
  ...CHANGING_NAMES.map(([place, names]) => [['volatile', place], names] as const),
  [['mining', 'anywhere'], 'prediction flattened into openquery openrowset'],
  [['mining', 'member'], 'content cases sample_cases dimension_content pmml'],
]);

/** Functions that read their text as MDX. A computed text does not show what it will say. */
const READS_TEXT = /^strto(?:value|set|member|tuple)$/;
/** Words before a formula: of a member, a set, or cells (CELL CALCULATION … FOR '…' AS '…'). */
const BEFORE_FORMULA = /^(?:as|for)$/;
/** Words with a mark before a formula; `=` is that of some versions of SSAS. */
const WITH_MARK: ReadonlyMap<string, RegExp> = new Map([
  ['(', READS_TEXT],
  ['=', /^(?:condition|disabled|visible|solve_order|(?:back|fore)_color|font_\w+)$/],
]);
/** Strings within strings. Each level doubles its quotes, so no client writes as many. */
export const MAX_NESTING = 8;
/** Another tokenizer may end a line comment at these. */
const OTHER_LINE_END = /[\f\r\v\u0085\u2028\u2029]/;
/** Limits the calls of unknown functions: no client sends more, and each takes time. */
const MOST_UNKNOWN = 1_000;
/** Signs that may belong to the name beside them (`Date$`, `%KPI`), or be white space. */
const SIGNS: ReadonlySet<number | undefined> = new Set([
  ...Buffer.from('$%#@?~`\\'),
  MDX.otherMark,
]);

export interface StatementRules extends Partial<
  Pick<EngineTraits, 'endsBySemicolon' | 'computesNames'>
> {
  /** Folded names of `cache.volatile`: statements with them pass. */
  readonly volatile?: readonly string[] | undefined;
}

class Findings {
  readonly facts = new Set<Fact>();
  /** Unknown functions as spelt, by folded name. */
  readonly unknown = new Map<string, string>();
  unknownCalls = 0;
  readonly volatile: ReadonlySet<string>;
  readsTexts = false;

  constructor({ volatile }: StatementRules) {
    this.volatile = new Set(volatile);
  }

  result() {
    const { facts } = this;
    const fact = (Object.keys(REASONS) as Fact[]).find((one) => facts.has(one));
    return { bypass: fact && REASONS[fact], unknown: fact ? [] : [...this.unknown.values()] };
  }
}

/**
 * Finds why the answer to a statement may not be cached; `bypass` is undefined for one SELECT or
 * WITH that every engine reads alike, and that reads no clock, user or server. `unknown` are the
 * functions, without brackets (`Assembly.Fn`), that only the configuration can know.
 * @param statement as received, with its carriage returns
 */
export function judgeStatement(
  statement: string,
  tokens?: MdxTokens,
  rules: StatementRules = {},
  values: readonly string[] = [],
) {
  const length = values.reduce((sum, value) => sum + value.length, statement.length);
  if (length > MAX_STATEMENT) return { bypass: 'unclear-statement', unknown: [] } as const;
  const found = new Findings(rules);
  const text = rules.endsBySemicolon ? statement.replace(/;[ \t\r\n\f]*$/, '') : statement;
  const given = text === statement ? tokens : undefined;
  readFacts(given ?? mdxTokens(text), found, MAX_NESTING);
  if (found.readsTexts || rules.computesNames === true) {
    for (const value of values) readFacts(mdxTokens(value), found, MAX_NESTING - 1);
  }
  if (mentionsDrillthrough(statement)) found.facts.add('drillthrough');
  return found.result();
}

export function judgeFormula(formula: string, rules: StatementRules) {
  const found = new Findings(rules);
  readFacts(mdxTokens(formula), found, MAX_NESTING - 1);
  if (namesNow([formula], rules)) found.facts.add('volatile');
  return found.result();
}

const NOW_MEMBER = /\[\s*now(?!\w)/i;
/** Finds a member such as `[NOW]` or `[NOW-1]`, which such an engine computes. */
export const namesNow = (texts: readonly string[], { computesNames }: StatementRules) =>
  computesNames === true && texts.some((text) => NOW_MEMBER.test(text));

/** Uses a pattern in ASCII: it equals folding, and is faster. */
function mentionsDrillthrough(statement: string): boolean {
  if (/drillthrough/i.test(statement)) return true;
  return !isAscii(statement) && foldName(statement).includes('drillthrough');
}

/** @param depth how many nested formulas are still searched; MAX_NESTING for a statement */
function readFacts(tokens: MdxTokens, found: Findings, depth: number): void {
  const { facts } = found;
  if (depth === 0) {
    facts.add('unclear');
    return;
  }
  const { text, packed, comments } = tokens;
  const isStatement = depth === MAX_NESTING;
  if (isStatement) readBegin(tokens, facts);
  for (const comment of comments) {
    readComment(comment, facts);
    // Inside of a string, a comment may be none.
    if (!isStatement) readFacts(mdxTokens(withoutOpenings(comment)), found, depth - 1);
  }
  const hasLineEnd = text.includes('\n');
  const hasNames = found.volatile.size > 0 || /\$|cell_formatter/i.test(text);
  let before: number | undefined;
  let kind: number | undefined;
  for (let at = 0; at < packed.length; at += 1) {
    before = kind;
    kind = kindOf(packed[at] as number);
    switch (kind) {
      case MDX.word:
        searchName(tokens, at, before, found, isStatement);
        break;
      case MDX.bracketed:
        // Most names in brackets name functions only where they are called.
        if (hasNames || isCalledAt(tokens, at)) searchName(tokens, at, before, found, isStatement);
        if (hasLineEnd && textAt(tokens, at).includes('\n')) facts.add('unclear');
        break;
      case MDX.singleQuoted:
      case MDX.doubleQuoted: {
        const quoted = textAt(tokens, at);
        // An engine that escapes with a backslash sees another end.
        if (isStatement && /\\['"]/.test(quoted)) facts.add('unclear');
        if (isFormula(tokens, at)) readFacts(mdxTokens(unquoted(quoted)), found, depth - 1);
        break;
      }
      case MDX.unterminated:
        if (isStatement) facts.add('unclear');
        else readFacts(mdxTokens(withoutOpenings(textAt(tokens, at))), found, depth - 1);
        break;
      case MDX.closingBracket:
      // An engine may take it for white space, such as a space of another width.
      case MDX.otherMark:
        if (isStatement) facts.add('unclear');
        break;
      case MDX.semicolon:
        if (isStatement) facts.add('semicolon');
        break;
      case MDX.exclamation:
        facts.add('volatile');
        break;
      case MDX.opening:
        if (SIGNS.has(before)) noteUnknown(tokens, at - 1, found);
        break;
      default:
    }
  }
}

/** Blanks the openings: inside of a string, a comment or unterminated token may be none. */
const withoutOpenings = (text: string) => text.replaceAll(/['"[\]/*-]/g, ' ');

function isFormula(tokens: MdxTokens, at: number): boolean {
  const ofMark = WITH_MARK.get(textAt(tokens, at - 1));
  const before = nameIn(textAt(tokens, ofMark ? at - 2 : at - 1));
  return readings(before).some((name) => (ofMark ?? BEFORE_FORMULA).test(name));
}

function readBegin(tokens: MdxTokens, facts: Set<Fact>): void {
  const { text } = tokens;
  // Some engines drop a loose carriage return, some end the line there.
  if (text.includes('\r') && /\r(?!\n)/.test(text)) facts.add('unclear');
  if (!/^(?:select|with)$/i.test(textAt(tokens, 0))) facts.add('noQuery');
}

function readComment(text: string, facts: Set<Fact>): void {
  if (foldName(text).includes('#nocache')) facts.add('noCacheComment');
  const isBlock = text.startsWith('/*');
  const endsLine = !isBlock && OTHER_LINE_END.test(text.replace(/\r$/, ''));
  if (endsLine || isNested(text)) facts.add('unclear');
}

/** SSAS nests block comments, Mondrian does not: the end of a nested one is uncertain. */
export const isNested = (comment: string) => comment.startsWith('/*') && comment.includes('/*', 2);
const isCalledAt = (tokens: MdxTokens, at: number) => kindAt(tokens, at + 1) === MDX.opening;

/** @param before the kind of the token before `at`, here and below */
function searchName(
  tokens: MdxTokens,
  at: number,
  before: number | undefined,
  found: Findings,
  isStatement: boolean,
): void {
  const { facts, volatile } = found;
  const text = textAt(tokens, at);
  const isCalled = isCalledAt(tokens, at);
  // A name in brackets names a function only where it is called.
  const mayCall = isCalled || !text.startsWith('[');
  if (/^\[\s*\$system/.test(foldName(text))) facts.add('systemRowset');
  for (const name of readings(nameIn(text))) {
    if (before === MDX.dollar && name.startsWith('system')) facts.add('systemRowset');
    if (volatile.has(name)) facts.add('volatile');
    const [fact, place] = WORDS.get(name) ?? [];
    if (place === 'named') facts.add('volatile');
    if (!mayCall) continue;
    const isMeant = place === 'called' ? isCalled : place === 'anywhere' || before === MDX.point;
    // In a formula such a word makes no DMX of its statement.
    if (fact !== undefined && isMeant && (isStatement || fact !== 'mining')) facts.add(fact);
    if (isPrediction(name)) facts.add('volatile');
    if (!isCalled || !READS_TEXT.test(name)) continue;
    found.readsTexts = true;
    if (!isOneLiteral(tokens, at + 2) && !isParameter(tokens, at + 2)) facts.add('volatile');
  }
  if (isCalled && !isKnown(text, before)) noteUnknown(tokens, at, found);
}

function isKnown(text: string, before: number | undefined): boolean {
  const name = nameIn(text);
  // Letters beyond ASCII may become these by folding.
  const standing = /^\w+$/.test(name) ? KNOWN_FUNCTIONS.get(name.toLowerCase()) : undefined;
  if (SIGNS.has(before)) return false;
  if (before === MDX.point) return standing === 'method';
  return standing !== undefined && (standing !== 'keyword' || name === text);
}

/** Notes the called function by its whole name, with signs and the names before its dots. */
function noteUnknown(tokens: MdxTokens, at: number, found: Findings): void {
  found.unknownCalls += 1;
  if (found.unknownCalls > MOST_UNKNOWN) {
    found.facts.add('unclear');
    return;
  }
  let first = SIGNS.has(kindAt(tokens, at)) ? at - 1 : at;
  for (;;) {
    const before = kindAt(tokens, first - 1);
    const isName = before === MDX.word || before === MDX.bracketed;
    const isBehindPoint = kindAt(tokens, first) === MDX.point;
    if (isName ? !isBehindPoint : before !== MDX.point && !SIGNS.has(before)) break;
    first -= 1;
  }
  let spelt = '';
  for (let i = first; i <= at; i += 1) {
    const text = textAt(tokens, i);
    const name = nameIn(text);
    spelt += name.length > 1 && name.includes('.') ? text : name;
  }
  const name = spelt.replace(/^\.+/, '');
  const folded = foldName(name);
  if (!found.unknown.has(folded)) found.unknown.set(folded, name);
}

/** True too where the text ends, or at an unterminated token, which is read by itself. */
function isOneLiteral(tokens: MdxTokens, at: number): boolean {
  const first = kindAt(tokens, at);
  const second = kindAt(tokens, at + 1);
  if (first === undefined || first === MDX.unterminated) return true;
  if (first !== MDX.singleQuoted && first !== MDX.doubleQuoted) return false;
  if (second === undefined || second === MDX.unterminated) return true;
  return second === MDX.closing || second === MDX.comma;
}

/** Matches `@P, CONSTRAINED)`: its value is in the key, and is read as names alone. */
const isParameter = (tokens: MdxTokens, at: number) =>
  /^@\w+,constrained\)$/i.test([0, 1, 2, 3, 4].map((i) => textAt(tokens, at + i)).join(''));

const nameIn = (text: string) =>
  text.startsWith('[') ? text.slice(1, -1).replaceAll(']]', ']').trim() : text;

/** Adds the ASCII words in the word: an engine may end a word where the tokenizer does not. */
function readings(word: string): readonly string[] {
  if (/^[A-Za-z0-9_]+$/.test(word)) return [word.toLowerCase()];
  return [word, ...word.split(/[^A-Za-z0-9_]+/)].map(foldName);
}

/**
 * Normalizes for the key: without outer white space, and without carriage returns outside of quotes
 * (Mondrian drops them, others take them for white space). Two statements that `judgeStatement`
 * lets pass and that are equal then mean the same.
 */
export function normalizeStatement(statement: string): string {
  const text = statement.includes('\r') ? withoutReturns(statement) : statement;
  let start = 0;
  let end = text.length;
  while (start < end && isBlankAt(text, start)) start += 1;
  while (start < end && isBlankAt(text, end - 1)) end -= 1;
  return text.slice(start, end);
}

/** A statement too long to be tokenized is in no key. */
function withoutReturns(statement: string): string {
  const returns = /\r/g;
  if (statement.length > MAX_STATEMENT) return statement.replaceAll(returns, '');
  const { text, packed, ends } = mdxTokens(statement);
  let kept = '';
  let behind = 0;
  for (const [at, token] of packed.entries()) {
    if (kindOf(token) !== MDX.singleQuoted && kindOf(token) !== MDX.doubleQuoted) continue;
    const start = startOf(token);
    kept += text.slice(behind, start).replaceAll(returns, '') + text.slice(start, ends[at]);
    behind = ends[at] ?? behind;
  }
  return kept + text.slice(behind).replaceAll(returns, '');
}

const BLANKS: ReadonlySet<number> = new Set(Buffer.from(' \t\n\f'));
const isBlankAt = (text: string, at: number) => BLANKS.has(text.charCodeAt(at));
