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
/** In lower case. `member`: only with `.` before it. */
const WORDS = byWords<readonly [Fact, Place | 'member']>([
  ...CHANGING_NAMES.map(([place, names]) => [['volatile', place], names] as const),
  [['mining', 'anywhere'], 'prediction flattened into openquery openrowset'],
  [['mining', 'member'], 'content cases sample_cases dimension_content pmml'],
]);

/** Functions that read their text as MDX. A text that is put together shows nothing of what it will say. */
const READS_TEXT = /^strto(?:value|set|member|tuple)$/;
/** Behind these a text is a formula: of a member or a set, or of cells (CELL CALCULATION … FOR '…' AS '…'). */
const BEFORE_FORMULA = /^(?:as|for)$/;
/** The same with a mark between them. With `=` that was so in some versions of SSAS. */
const WITH_MARK: ReadonlyMap<string, RegExp> = new Map([
  ['(', READS_TEXT],
  ['=', /^(?:condition|disabled|visible|solve_order|(?:back|fore)_color|font_\w+)$/],
]);
/** Strings within strings: no client writes this many, as each level doubles its quotes, and the search must end. */
export const MAX_NESTING = 8;
/** Another tokenizer may take these for line ends, which end a line comment. */
const OTHER_LINE_END = /[\f\r\v\u0085\u2028\u2029]/;
/** Calls of unknown functions that are read: no client sends more, and each takes its time. */
const MOST_UNKNOWN = 1_000;
/** They may belong to the name before or behind them (`Date$`, `%KPI`), or be white space to an engine. */
const SIGNS: ReadonlySet<number | undefined> = new Set([
  ...Buffer.from('$%#@?~`\\'),
  MDX.otherMark,
]);

/** By what of engine and configuration a statement is judged. */
export interface StatementRules extends Partial<
  Pick<EngineTraits, 'endsBySemicolon' | 'computesNames'>
> {
  /** Names that make a statement pass (`cache.volatile`), folded. */
  readonly volatile?: ReadonlySet<string> | undefined;
}

/** What was found in a text. */
class Findings {
  readonly facts = new Set<Fact>();
  /** Functions that are not known, as they are spelt, by their folded names. */
  readonly unknown = new Map<string, string>();
  /** Calls of them. */
  noted = 0;
  readonly volatile: ReadonlySet<string>;
  /** Whether something in it reads texts as MDX. */
  readsTexts = false;

  constructor({ volatile = new Set() }: StatementRules) {
    this.volatile = volatile;
  }

  result() {
    const { facts } = this;
    const fact = (Object.keys(REASONS) as Fact[]).find((one) => facts.has(one));
    return { bypass: fact && REASONS[fact], unknown: fact ? [] : [...this.unknown.values()] };
  }
}

/**
 * Why the answer to a statement may not be cached; undefined when it may: it begins with SELECT or WITH, is one statement
 * that can be read for certain, and reads neither the clock nor the user nor the server. And the functions that
 * it calls and that are not known, without brackets (`Assembly.Fn`): the configuration may know them.
 * @param statement as it came, with its carriage returns
 * @param values of its parameters
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

/** The same of a formula, such as that of a calculated measure. */
export function judgeFormula(formula: string, rules: StatementRules) {
  const found = new Findings(rules);
  readFacts(mdxTokens(formula), found, MAX_NESTING - 1);
  if (namesNow([formula], rules)) found.facts.add('volatile');
  return found.result();
}

const NOW_MEMBER = /\[\s*now(?!\w)/i;
/** Whether one of the texts names a member such as `[NOW]` or `[NOW-1]`, where the engine computes it. */
export const namesNow = (texts: readonly string[], { computesNames }: StatementRules) =>
  computesNames === true && texts.some((text) => NOW_MEMBER.test(text));

/** In ASCII a pattern says the same as folding, and faster. */
function mentionsDrillthrough(statement: string): boolean {
  if (/drillthrough/i.test(statement)) return true;
  return !isAscii(statement) && foldName(statement).includes('drillthrough');
}

/** @param depth how many formulas within each other are still searched; {@link MAX_NESTING} for a statement */
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
    // Inside of a string it may be none.
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
        // Most names in brackets are names of functions only where they are called.
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
      // Such as a space of another width, which may be white space to an engine.
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

/** Inside of a string, what looks like a comment or never ends may be neither: it is read again without what opens one. */
const withoutOpenings = (text: string) => text.replaceAll(/['"[\]/*-]/g, ' ');

/** Whether an engine reads the text that stands there as MDX. All others are texts, whatever words stand in them. */
function isFormula(tokens: MdxTokens, at: number): boolean {
  const ofMark = WITH_MARK.get(textAt(tokens, at - 1));
  const before = nameIn(textAt(tokens, ofMark ? at - 2 : at - 1));
  return readings(before).some((name) => (ofMark ?? BEFORE_FORMULA).test(name));
}

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

/** What the name says that stands there as a word or in brackets. @param before the kind of the token before */
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
  // A name in brackets is one of a function only where it is called.
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

/** @param before the kind of the token before */
function isKnown(text: string, before: number | undefined): boolean {
  const name = nameIn(text);
  // Beyond ASCII there are other letters that become these.
  const standing = /^\w+$/.test(name) ? KNOWN_FUNCTIONS.get(name.toLowerCase()) : undefined;
  if (SIGNS.has(before)) return false;
  if (before === MDX.point) return standing === 'method';
  return standing !== undefined && (standing !== 'keyword' || name === text);
}

/** Notes what is called there by its whole name: with signs, and with the names before its dots. */
function noteUnknown(tokens: MdxTokens, at: number, found: Findings): void {
  found.noted += 1;
  if (found.noted > MOST_UNKNOWN) {
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

/** Also where the text ends before, or in what never ends, which is read by itself. */
function isOneLiteral(tokens: MdxTokens, at: number): boolean {
  const first = kindAt(tokens, at);
  const second = kindAt(tokens, at + 1);
  if (first === undefined || first === MDX.unterminated) return true;
  if (first !== MDX.singleQuoted && first !== MDX.doubleQuoted) return false;
  if (second === undefined || second === MDX.unterminated) return true;
  return second === MDX.closing || second === MDX.comma;
}

/** `@P, CONSTRAINED)`: the value is in the key, and is taken for names alone. */
const isParameter = (tokens: MdxTokens, at: number) =>
  /^@\w+,constrained\)$/i.test([0, 1, 2, 3, 4].map((i) => textAt(tokens, at + i)).join(''));

/** As it is without its brackets. */
const nameIn = (text: string) =>
  text.startsWith('[') ? text.slice(1, -1).replaceAll(']]', ']').trim() : text;

/** The word, and the ASCII words in it: an engine may end a word where the tokenizer does not. */
function readings(word: string): readonly string[] {
  // As nearly every word is.
  if (/^[A-Za-z0-9_]+$/.test(word)) return [word.toLowerCase()];
  return [word, ...word.split(/[^A-Za-z0-9_]+/)].map(foldName);
}

/**
 * As in the key: without carriage returns outside of quotes (Mondrian drops them, other engines take them for white space) and
 * outer white space. Two that `judgeStatement` lets pass and that are equal so mean the same.
 */
export function normalizeStatement(statement: string): string {
  const text = statement.includes('\r') ? withoutReturns(statement) : statement;
  let start = 0;
  let end = text.length;
  while (start < end && isBlankAt(text, start)) start += 1;
  while (start < end && isBlankAt(text, end - 1)) end -= 1;
  return text.slice(start, end);
}

/** One that is too long to be read is in no key. */
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
