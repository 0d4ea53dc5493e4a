import { foldName } from '../fold-name.ts';
import { mdxTokens, unquoted } from './mdx-tokens.ts';
import type { MdxToken } from './mdx-tokens.ts';

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

/** When a name counts: as a word anywhere, only with `(` behind it, or only with `.` before it. */
type Where = 'anywhere' | 'called' | 'member';

interface WordRule {
  readonly where: Where;
  readonly fact: 'volatile' | 'mining';
}

/**
 * Names in lower case. `[Date]` and `[Time]` are ordinary dimensions, and so may be an unbracketed Date; the
 * functions are recognised by their parenthesis, with which every name in brackets is one as well: Mondrian
 * calls a function for `[Now]()`.
 */
const WORDS: ReadonlyMap<string, WordRule> = new Map([
  ['now', { where: 'anywhere', fact: 'volatile' }],
  ['date', { where: 'called', fact: 'volatile' }],
  ['time', { where: 'called', fact: 'volatile' }],
  ['timer', { where: 'anywhere', fact: 'volatile' }],
  ['rnd', { where: 'anywhere', fact: 'volatile' }],
  ['randomize', { where: 'anywhere', fact: 'volatile' }],
  ['currentdatemember', { where: 'anywhere', fact: 'volatile' }],
  ['currentdatememberexact', { where: 'anywhere', fact: 'volatile' }],
  ['currentdatestring', { where: 'anywhere', fact: 'volatile' }],
  ['username', { where: 'anywhere', fact: 'volatile' }],
  ['customdata', { where: 'anywhere', fact: 'volatile' }],
  ['lookupcube', { where: 'anywhere', fact: 'volatile' }],
  ['parameter', { where: 'anywhere', fact: 'volatile' }],
  ['paramref', { where: 'anywhere', fact: 'volatile' }],
  ['prediction', { where: 'anywhere', fact: 'mining' }],
  ['flattened', { where: 'anywhere', fact: 'mining' }],
  ['into', { where: 'anywhere', fact: 'mining' }],
  ['content', { where: 'member', fact: 'mining' }],
  ['cases', { where: 'member', fact: 'mining' }],
  ['sample_cases', { where: 'member', fact: 'mining' }],
  ['dimension_content', { where: 'member', fact: 'mining' }],
  ['pmml', { where: 'member', fact: 'mining' }],
]);

/** Strings within strings; each further level doubles its quotes, so nobody writes this many by hand. */
const MAX_NESTING = 8;

/** Line ends that this tokenizer does not know and another may: they would end a line comment. */
const OTHER_LINE_END = /[\f\r\v\u0085\u2028\u2029]/;

/**
 * Reads the facts in one pass. Strings may be formulas (`'…'` in WITH, `"…"` for StrToSet and its like), so
 * their content is searched for names as well, with brackets and strings of its own; its semicolons and
 * loose ends are no matter.
 */
export function statementFacts(statement: string): StatementFacts {
  const facts: Growing<StatementFacts> = {
    firstWord: '',
    unclear: hasLooseReturn(statement),
    semicolon: false,
    noCacheComment: false,
    systemRowset: false,
    volatile: false,
    mining: false,
  };
  let first = true;
  const names = createNameWatch(facts);
  for (const token of mdxTokens(statement)) {
    facts.unclear ||= isUnclear(token);
    switch (token.kind) {
      case 'space':
        continue;
      case 'line-comment':
      case 'block-comment':
        facts.noCacheComment ||= foldName(token.text).includes('#nocache');
        continue;
      case 'mark':
        facts.semicolon ||= token.text === ';';
        break;
      default:
        break;
    }
    if (first && token.kind === 'word') {
      facts.firstWord = token.text.toLowerCase();
    }
    first = false;
    names.see(token);
    searchInside(token, facts, MAX_NESTING);
  }
  names.end();
  return facts;
}

/** A carriage return that is not part of a line end: some engines drop it, some end the line there. */
function hasLooseReturn(statement: string): boolean {
  return /\r(?!\n)/.test(statement);
}

function isUnclear({ kind, text }: MdxToken): boolean {
  switch (kind) {
    case 'unterminated':
      return true;
    case 'bracketed':
      return /[\r\n]/.test(text);
    case 'single-quoted':
    case 'double-quoted':
      // The key drops carriage returns; an engine that escapes with a backslash sees another end.
      return /\r|\\['"]/.test(text);
    case 'line-comment':
      return OTHER_LINE_END.test(text.replace(/\r$/, ''));
    case 'block-comment':
      // SSAS nests block comments, Mondrian does not.
      return text.includes('/*', 2);
    case 'mark':
      return text === ']';
    default:
      return false;
  }
}

/** Searches what a string holds; and a comment too, because inside a string nobody knows what it is. */
function searchInside(token: MdxToken, facts: Growing<StatementFacts>, depth: number): void {
  if (token.kind === 'single-quoted' || token.kind === 'double-quoted') {
    searchNames(unquoted(token), facts, depth - 1);
  }
}

function searchNames(text: string, facts: Growing<StatementFacts>, depth: number): void {
  if (depth === 0) {
    facts.unclear = true;
    return;
  }
  const names = createNameWatch(facts);
  for (const token of mdxTokens(text)) {
    switch (token.kind) {
      case 'space':
        break;
      case 'line-comment':
      case 'block-comment':
      case 'unterminated':
        searchNames(withoutStructure(token.text), facts, depth - 1);
        break;
      default:
        names.see(token);
        searchInside(token, facts, depth);
    }
  }
  names.end();
}

/** Nothing is left that opens a string, a bracket or a comment, and every word stands as it stood. */
function withoutStructure(text: string): string {
  return text.replaceAll(/['"[\]/*-]/g, ' ');
}

/** Functions that read their text as MDX. A text that is put together shows nothing of what it will say. */
const READS_TEXT: ReadonlySet<string> = new Set([
  'strtovalue',
  'strtoset',
  'strtomember',
  'strtotuple',
]);

/**
 * Watches a row of tokens for texts that are read as MDX and are not one literal, which is searched like any other
 * string. Told of each token; answers whether the last ones are such a call.
 */
function createTextWatch(): (kind: MdxToken['kind'], text: string) => boolean {
  let place: 'outside' | 'named' | 'open' | 'literal' = 'outside';
  return (kind, text) => {
    const isQuoted = kind === 'single-quoted' || kind === 'double-quoted';
    if (place === 'named' && text === '(') {
      place = 'open';
      return false;
    }
    const isUnclear =
      (place === 'open' && !isQuoted) || (place === 'literal' && text !== ')' && text !== ',');
    const name = kind === 'bracketed' ? inBrackets(text) : text;
    const isName = kind === 'word' || kind === 'bracketed';
    if (place === 'open' && isQuoted) place = 'literal';
    else place = isName && readings(name).some((one) => READS_TEXT.has(one)) ? 'named' : 'outside';
    return isUnclear;
  };
}

interface NameWatch {
  /** Tokens in order, without white space and comments. */
  see(token: MdxToken): void;
  /** Nothing follows. */
  end(): void;
}

/** A name that is judged when the token behind it is known. */
interface Waiting {
  readonly names: readonly string[];
  readonly before: string;
  readonly bracketed: boolean;
}

/** Watches a row of tokens for names: a name is judged when the token behind it is known. */
function createNameWatch(facts: Growing<StatementFacts>): NameWatch {
  let before = '';
  let waiting: Waiting | undefined;
  const readsUnclearText = createTextWatch();
  const judge = (after: string): void => {
    if (waiting === undefined || (waiting.bracketed && after !== '(')) return;
    for (const name of waiting.names) {
      const rule = WORDS.get(name);
      if (rule !== undefined && counts(rule.where, waiting.before, after)) {
        facts[rule.fact] = true;
      }
      // Predict, PredictProbability, PredictTimeSeries …
      facts.volatile ||= name.startsWith('predict');
    }
  };
  return {
    see({ kind, text }) {
      judge(text);
      const bracketed = kind === 'bracketed';
      const name = kind === 'word' ? text : bracketed ? inBrackets(text) : '';
      if (name === '') {
        waiting = undefined;
      } else {
        const names = readings(name);
        waiting = { names, before, bracketed };
        facts.systemRowset ||= before === '$' && names.some((one) => one.startsWith('system'));
      }
      const isUnclear = readsUnclearText(kind, text);
      facts.volatile ||= isUnclear || (kind === 'mark' && text === '!');
      facts.systemRowset ||= bracketed && /^\[\s*\$system/.test(foldName(text));
      before = text;
    },
    end() {
      judge('');
      waiting = undefined;
    },
  };
}

function counts(where: Where, before: string, after: string): boolean {
  switch (where) {
    case 'anywhere':
      return true;
    case 'called':
      return after === '(';
    case 'member':
      return before === '.';
  }
}

function inBrackets(text: string): string {
  return text.slice(1, -1).replaceAll(']]', ']').trim();
}

/** The word, and the ASCII words in it: an engine may end a word where this tokenizer does not. */
function readings(word: string): readonly string[] {
  // Nearly every word is one of ASCII alone, and there are many.
  if (/^[A-Za-z0-9_]+$/.test(word)) return [word.toLowerCase()];
  return [word, ...word.split(/[^A-Za-z0-9_]+/)].map(foldName);
}
