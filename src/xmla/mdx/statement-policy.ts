import type { EngineTraits } from '../../common/engine-kinds.ts';
import { isAscii } from '../../common/fold-case.ts';
import type { BypassReason } from '../../common/reasons.ts';
import { byWords, foldName } from '../names.ts';
import { CHANGING_NAMES, isPrediction, KNOWN_FUNCTIONS, type Place } from './known-functions.ts';
import {
  kindAt,
  MDX,
  MdxTokens,
  mdxTokens,
  SLICE,
  startAt,
  textAt,
  textOf,
  TokenReader,
  unquoted,
} from './mdx-tokens.ts';

type Fact = keyof typeof REASONS;
/** Facts that keep an answer out of the cache. The first one found gives the reason. */
const REASONS = {
  long: 'long-request',
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
/** UTF-16 units of a statement with its parameters. */
export const MAX_STATEMENT = 1024 * 1024;
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
/** Limits the calls of unknown functions, and the tokens of one's name. */
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

class Judging extends TokenReader {
  readonly facts = new Set<Fact>();
  /** Unknown functions as spelt, by folded name. */
  readonly unknown = new Map<string, string>();
  unknownCalls = 0;
  readonly volatile: ReadonlySet<string>;
  readsTexts: boolean;
  #values: readonly string[];

  constructor({ volatile, computesNames }: StatementRules, values: readonly string[] = []) {
    super();
    this.volatile = new Set(volatile);
    this.readsTexts = computesNames === true;
    this.#values = values;
  }

  /** @param depth how many nested formulas are still searched; MAX_NESTING for a statement */
  protected read(tokens: MdxTokens, depth: number, from: number, to: number): void {
    const { facts } = this;
    if (depth === 0 || tokens.commentUnits > SLICE) facts.add('unclear');
    if (depth === 0) return;
    const isStatement = depth === MAX_NESTING;
    const text = textOf(tokens, from, to);
    if (isStatement && mentionsDrillthrough(text)) facts.add('drillthrough');
    if (isStatement && from === 0) readBegin(tokens, facts);
    if (tokens.hasNestedComment) facts.add('unclear');
    for (const comment of from === 0 ? tokens.comments : []) {
      readComment(comment, facts);
      // Inside of a string, a comment may be none.
      if (!isStatement) this.readText(withoutOpenings(comment), depth - 1);
    }
    const hasLineEnd = text.includes('\n');
    let before: number | undefined;
    let kind = kindAt(tokens, from - 1);
    const hasMark = kind === MDX.dollar || /\$|cell_formatter/i.test(text);
    const hasNames = this.volatile.size > 0 || hasMark;
    for (let at = from; at < to; at += 1) {
      before = kind;
      kind = kindAt(tokens, at);
      switch (kind) {
        case MDX.word:
          searchName(tokens, at, before, this, isStatement);
          break;
        case MDX.bracketed:
          // Most names in brackets name functions only where they are called.
          if (hasNames || isCalledAt(tokens, at)) searchName(tokens, at, before, this, isStatement);
          if (hasLineEnd && textAt(tokens, at).includes('\n')) facts.add('unclear');
          break;
        case MDX.singleQuoted:
        case MDX.doubleQuoted: {
          const quoted = textAt(tokens, at);
          // An engine that escapes with a backslash sees another end.
          if (isStatement && /\\['"]/.test(quoted)) facts.add('unclear');
          if (isFormula(tokens, at)) this.readText(unquoted(quoted), depth - 1);
          break;
        }
        case MDX.unterminated:
          if (isStatement || textAt(tokens, at).length > SLICE) facts.add('unclear');
          else this.readText(withoutOpenings(textAt(tokens, at)), depth - 1);
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
          if (SIGNS.has(before)) noteUnknown(tokens, at - 1, this);
          break;
        default:
      }
    }
  }

  override step(units: number): boolean {
    if (super.step(units)) return true;
    const values = this.readsTexts ? this.#values : [];
    for (const value of values) this.add(new MdxTokens(value), MAX_NESTING - 1);
    this.#values = [];
    return values.length > 0;
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
export function judging(
  statement: string,
  tokens?: MdxTokens,
  rules: StatementRules = {},
  values: readonly string[] = [],
) {
  const found = new Judging(rules, values);
  const length = values.reduce((sum, value) => sum + value.length, statement.length);
  const text = rules.endsBySemicolon ? statement.replace(/;[ \t\r\n\f]*$/, '') : statement;
  if (length > MAX_STATEMENT) found.facts.add('long');
  else found.add(tokens?.text === text ? tokens : new MdxTokens(text), MAX_NESTING);
  return found;
}

export function judgeFormula(formula: string, rules: StatementRules) {
  const found = new Judging(rules);
  found.add(new MdxTokens(formula), MAX_NESTING - 1);
  if (namesNow([formula], rules)) found.facts.add('volatile');
  return found.finish().result();
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
  if (text.startsWith('/*')) return;
  if (OTHER_LINE_END.test(text.replace(/\r$/, ''))) facts.add('unclear');
}

const isCalledAt = (tokens: MdxTokens, at: number) => kindAt(tokens, at + 1) === MDX.opening;

/** @param before the kind of the token before `at`, here and below */
function searchName(
  tokens: MdxTokens,
  at: number,
  before: number | undefined,
  found: Judging,
  isStatement: boolean,
): void {
  const { facts, volatile } = found;
  const text = textAt(tokens, at);
  if (text.length > SLICE) {
    facts.add('unclear');
    return;
  }
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
function noteUnknown(tokens: MdxTokens, at: number, found: Judging): void {
  found.unknownCalls += 1;
  const spelt = found.unknownCalls > MOST_UNKNOWN ? undefined : wholeName(tokens, at);
  if (spelt === undefined || spelt.length > SLICE) {
    found.facts.add('unclear');
    return;
  }
  const name = spelt.replace(/^\.+/, '');
  const folded = foldName(name);
  if (!found.unknown.has(folded)) found.unknown.set(folded, name);
}

function wholeName(tokens: MdxTokens, at: number): string | undefined {
  let first = SIGNS.has(kindAt(tokens, at)) ? at - 1 : at;
  for (;;) {
    const before = kindAt(tokens, first - 1);
    const isName = before === MDX.word || before === MDX.bracketed;
    const isBehindPoint = kindAt(tokens, first) === MDX.point;
    if (isName ? !isBehindPoint : before !== MDX.point && !SIGNS.has(before)) break;
    first -= 1;
    if (at - first > MOST_UNKNOWN) return undefined;
  }
  let spelt = '';
  for (let i = first; i <= at; i += 1) {
    const text = textAt(tokens, i);
    const name = nameIn(text);
    spelt += name.length > 1 && name.includes('.') ? text : name;
  }
  return spelt;
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
  // Where such a token itself is read, it makes the statement unclear.
  if (word.length > SLICE) return [];
  if (/^[A-Za-z0-9_]+$/.test(word)) return [word.toLowerCase()];
  return [word, ...word.split(/[^A-Za-z0-9_]+/)].map(foldName);
}

/**
 * Normalizes for the key: without outer white space, and without carriage returns outside of quotes
 * (Mondrian drops them, others take them for white space). Two statements that may be cached and
 * that are equal then mean the same.
 */
export function normalizeStatement(statement: string, tokens?: MdxTokens): string {
  const text = statement.includes('\r') ? withoutReturns(statement, tokens) : statement;
  let start = 0;
  let end = text.length;
  while (start < end && isBlankAt(text, start)) start += 1;
  while (start < end && isBlankAt(text, end - 1)) end -= 1;
  return text.slice(start, end);
}

function withoutReturns(text: string, given?: MdxTokens): string {
  const returns = /\r/g;
  const tokens = given ?? mdxTokens(text);
  let kept = '';
  let behind = 0;
  for (let at = 0; at < tokens.count; at += 1) {
    const kind = kindAt(tokens, at);
    if (kind !== MDX.singleQuoted && kind !== MDX.doubleQuoted) continue;
    const start = startAt(tokens, at);
    const quoted = textAt(tokens, at);
    kept += text.slice(behind, start).replaceAll(returns, '') + quoted;
    behind = start + quoted.length;
  }
  return kept + text.slice(behind).replaceAll(returns, '');
}

const BLANKS: ReadonlySet<number> = new Set(Buffer.from(' \t\n\f'));
const isBlankAt = (text: string, at: number) => BLANKS.has(text.charCodeAt(at));
