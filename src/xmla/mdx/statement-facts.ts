import { foldName } from '../fold-name.ts';
import { lengthAt, MDX, mdxTokens, textAt, unquoted } from './mdx-tokens.ts';
import type { MdxTokens } from './mdx-tokens.ts';
import { mayBeWatched, PREDICT, readings, READS_TEXT, WORDS, type Where } from './watched-names.ts';

/** What the text of a statement shows of the things that keep its answer out of the cache. */
export interface StatementFacts {
  /** The first word behind white space and comments, in lower case; '' when something else stands there. */
  readonly firstWord: string;
  /** Something that engines may read in different ways, or that never ends. */
  readonly unclear: boolean;
  /** A semicolon outside of strings, brackets and comments. */
  readonly semicolon: boolean;
  readonly noCacheComment: boolean;
  /** `$SYSTEM`, also in brackets. */
  readonly systemRowset: boolean;
  /** A word or mark by which the answer may depend on time, user or parameter. */
  readonly volatile: boolean;
  /** A word by which a SELECT is DMX, not MDX. */
  readonly mining: boolean;
}

type Growing<T> = { -readonly [K in keyof T]: T[K] };

/** Strings within strings; each further level doubles its quotes, so nobody writes this many by hand. */
const MAX_NESTING = 8;

/** Line ends that this tokenizer does not know and another may: they would end a line comment. */
const OTHER_LINE_END = /[\f\r\v\u0085\u2028\u2029]/;

/**
 * Reads the facts in one pass. Strings may be formulas (`'…'` in WITH, `"…"` for StrToSet and its like), so
 * their content is searched for names as well, with brackets and strings of its own; its semicolons and
 * loose ends are no matter.
 * @param tokens those of the statement
 */
export function statementFacts(tokens: MdxTokens): StatementFacts {
  const { text, count, kinds, starts } = tokens;
  const facts: Growing<StatementFacts> = {
    firstWord: '',
    unclear: hasLooseReturn(text),
    semicolon: false,
    noCacheComment: false,
    systemRowset: false,
    volatile: false,
    mining: false,
  };
  let first = true;
  const names = createNameWatch(tokens, facts);
  const lineFeedIn = createLineFeedWatch(text);
  for (let index = 0; index < count; index += 1) {
    const kind = kinds[index] ?? MDX.space;
    switch (kind) {
      case MDX.space:
        continue;
      case MDX.lineComment:
      case MDX.blockComment:
        readComment(kind, textAt(tokens, index), facts);
        continue;
      case MDX.bracketed:
        facts.unclear ||= lineFeedIn(starts[index] ?? 0, starts[index + 1] ?? 0);
        break;
      case MDX.singleQuoted:
      case MDX.doubleQuoted:
        readQuoted(textAt(tokens, index), facts);
        break;
      case SEMICOLON:
        facts.semicolon = true;
        break;
      case CLOSING_BRACKET:
      case MDX.unterminated:
        facts.unclear = true;
        break;
      case MDX.word:
        if (first) facts.firstWord = textAt(tokens, index).toLowerCase();
        break;
      default:
    }
    first = false;
    names.see(index, kind);
  }
  return facts;
}

/** Marks. */
const SEMICOLON = 0x3b;
const CLOSING_BRACKET = 0x5d;
const EXCLAMATION = 0x21;
const DOLLAR = 0x24;
const OPENING = 0x28;
const CLOSING = 0x29;
const COMMA = 0x2c;
const POINT = 0x2e;

/** A carriage return that is not part of a line end: some engines drop it, some end the line there. */
function hasLooseReturn(statement: string): boolean {
  return statement.includes('\r') && /\r(?!\n)/.test(statement);
}

/** Whether a line feed stands between two places. The places must be asked for in their order. */
function createLineFeedWatch(text: string): (start: number, end: number) => boolean {
  let next = -1;
  return (start, end) => {
    if (next < start) {
      const found = text.indexOf('\n', start);
      next = found === -1 ? text.length : found;
    }
    return next < end;
  };
}

function readComment(
  kind: typeof MDX.lineComment | typeof MDX.blockComment,
  text: string,
  facts: Growing<StatementFacts>,
): void {
  facts.noCacheComment ||= foldName(text).includes('#nocache');
  facts.unclear ||=
    kind === MDX.lineComment
      ? OTHER_LINE_END.test(text.replace(/\r$/, ''))
      : // SSAS nests block comments, Mondrian does not.
        text.includes('/*', 2);
}

function readQuoted(text: string, facts: Growing<StatementFacts>): void {
  // The key drops carriage returns; an engine that escapes with a backslash sees another end.
  facts.unclear ||= /\r|\\['"]/.test(text);
  searchNames(unquoted(text), facts, MAX_NESTING - 1);
}

/** Searches what a string holds; and a comment too, because inside a string nobody knows what it is. */
function searchNames(text: string, facts: Growing<StatementFacts>, depth: number): void {
  if (depth === 0) {
    facts.unclear = true;
    return;
  }
  const tokens = mdxTokens(text);
  const names = createNameWatch(tokens, facts);
  for (let index = 0; index < tokens.count; index += 1) {
    const kind = tokens.kinds[index] ?? MDX.space;
    switch (kind) {
      case MDX.space:
        break;
      case MDX.lineComment:
      case MDX.blockComment:
      case MDX.unterminated:
        searchNames(withoutStructure(textAt(tokens, index)), facts, depth - 1);
        break;
      case MDX.singleQuoted:
      case MDX.doubleQuoted:
        names.see(index, kind);
        searchNames(unquoted(textAt(tokens, index)), facts, depth - 1);
        break;
      default:
        names.see(index, kind);
    }
  }
}

/** Nothing is left that opens a string, a bracket or a comment, and every word stands as it stood. */
function withoutStructure(text: string): string {
  return text.replaceAll(/['"[\]/*-]/g, ' ');
}

interface NameWatch {
  /** Tokens in order, without white space and comments. */
  see(index: number, kind: number): void;
}

/**
 * Watches a row of tokens for names, and for texts that are read as MDX and are not one literal, which is searched like
 * any other string.
 */
function createNameWatch(tokens: MdxTokens, facts: Growing<StatementFacts>): NameWatch {
  const { text, starts, plainWords } = tokens;
  const hasDollar = text.includes('$');
  /** The last two tokens that were seen. */
  let before = 0;
  let kindBefore: number = MDX.space;
  let kindBeforeThat: number = MDX.space;
  /** Behind the name of a function that reads text: its parenthesis, or the text in it. */
  let place: 'outside' | 'open' | 'literal' = 'outside';

  /** Whether a word has to be looked at: the first letter and the length of most say that they are no such name. */
  const mayCount = (index: number): boolean =>
    !plainWords || mayBeWatched(text.charCodeAt(starts[index] ?? 0), lengthAt(tokens, index));
  /** Of a name by itself, or of one with a parenthesis behind it. */
  const judge = (names: readonly string[], isMember: boolean, called: boolean): void => {
    for (const name of names) {
      const rule = WORDS.get(name);
      if (rule !== undefined && counts(rule.where, isMember, called)) {
        facts[rule.fact] = true;
      }
      facts.volatile ||= name.startsWith(PREDICT);
    }
  };
  const seeWord = (index: number): void => {
    const isSystem = kindBefore === DOLLAR;
    if (!isSystem && !mayCount(index)) return;
    const names = readings(textAt(tokens, index));
    judge(names, kindBefore === POINT, false);
    facts.systemRowset ||= isSystem && names.some((one) => one.startsWith('system'));
  };
  const seeBracketed = (index: number): void => {
    const bracketed = textAt(tokens, index);
    const names = kindBefore === DOLLAR ? readings(inBrackets(bracketed)) : [];
    facts.systemRowset ||=
      names.some((one) => one.startsWith('system')) || /^\[\s*\$system/.test(foldName(bracketed));
  };
  const seeCall = (): void => {
    const isWord = kindBefore === MDX.word;
    if (isWord ? !mayCount(before) : kindBefore !== MDX.bracketed) return;
    const name = textAt(tokens, before);
    const names = readings(isWord ? name : inBrackets(name));
    judge(names, kindBeforeThat === POINT, true);
    if (names.some((one) => READS_TEXT.has(one))) place = 'open';
  };

  return {
    see(index, kind) {
      if (place === 'open') {
        const isQuoted = kind === MDX.singleQuoted || kind === MDX.doubleQuoted;
        place = isQuoted ? 'literal' : 'outside';
        facts.volatile ||= !isQuoted;
      } else if (place === 'literal') {
        place = 'outside';
        facts.volatile ||= kind !== CLOSING && kind !== COMMA;
      }
      if (kind === MDX.word) seeWord(index);
      else if (kind === MDX.bracketed && hasDollar) seeBracketed(index);
      else if (kind === OPENING) seeCall();
      else if (kind === EXCLAMATION) facts.volatile = true;
      kindBeforeThat = kindBefore;
      kindBefore = kind;
      before = index;
    },
  };
}

function counts(where: Where, isMember: boolean, called: boolean): boolean {
  switch (where) {
    case 'anywhere':
      return true;
    case 'called':
      return called;
    case 'member':
      return isMember;
  }
}

function inBrackets(text: string): string {
  return text.slice(1, -1).replaceAll(']]', ']').trim();
}
