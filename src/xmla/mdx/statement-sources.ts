import { foldName } from '../fold-name.ts';
import { lengthAt, MDX, mdxTokens, textAt, unquoted } from './mdx-tokens.ts';
import type { MdxTokens } from './mdx-tokens.ts';
import { MAX_STATEMENT } from './statement-policy.ts';
import type { XmlaRequest } from '../request/xmla-request.ts';

/** What a statement reads from. */
export interface StatementSources {
  /**
   * The names behind every FROM, each part of a qualified one by itself: as spelt, without brackets, in the order
   * of the text. Any of them may be a cube, and where one is qualified a catalog.
   */
  readonly names: readonly string[];
  /** False when it may read from something that is not named here. */
  readonly certain: boolean;
  /** Whether a dot stands behind a first name: SSAS reads `[catalog].[cube]`, whatever catalog the request names. */
  readonly qualified: boolean;
}

/** What may stand behind the name of a cube: the rest of a SELECT, or its end. */
const AFTER_CUBE: ReadonlySet<string> = new Set(['', ')', 'where', 'cell', 'properties']);

/** Strings within strings; no client nests more, and the search must end. */
const MAX_NESTING = 8;

/** Of a request without a statement. */
export const NO_SOURCES: StatementSources = { names: [], certain: true, qualified: false };
/** Of a statement that is too long to be searched. */
const ANY_SOURCES: StatementSources = { names: [], certain: false, qualified: true };

/**
 * Reads the sources of a request's statement, in subselects and quoted formulas too; a Discover has none.
 * @param tokens those of its statement, where they have been read already
 */
export function sourcesOf(request: XmlaRequest, tokens?: MdxTokens): StatementSources {
  if (request.method === 'Discover') return NO_SOURCES;
  if (tokens === undefined && request.statement.length > MAX_STATEMENT) return ANY_SOURCES;
  const found: Found = { names: [], certain: true, qualified: false };
  searchTokens(tokens ?? mdxTokens(request.statement), found, MAX_NESTING);
  return found;
}

interface Found extends StatementSources {
  readonly names: string[];
  certain: boolean;
  qualified: boolean;
}

/** @param depth how many strings within strings are still looked into */
function searchTokens(tokens: MdxTokens, found: Found, depth: number): void {
  const words: number[] = [];
  for (let index = 0; index < tokens.count; index += 1) {
    switch (tokens.kinds[index]) {
      case MDX.lineComment:
      case MDX.blockComment:
        // Inside of a string it cannot be told whether it is one.
        if (depth < MAX_NESTING && mentionsFrom(textAt(tokens, index))) found.certain = false;
        break;
      case MDX.unterminated:
        found.certain = false;
        break;
      case MDX.singleQuoted:
      case MDX.doubleQuoted:
        if (depth === 0) found.certain = false;
        else searchTokens(mdxTokens(unquoted(textAt(tokens, index))), found, depth - 1);
        break;
      case MDX.word:
        if (mayMentionFrom(tokens, index)) words.push(index);
        break;
      default:
    }
  }
  for (const index of words) {
    const word = textAt(tokens, index);
    if (foldName(word) === 'from') {
      readFrom(tokens, index, found);
    } else if (mentionsFrom(word)) {
      // An engine may end a word where the tokenizer does not.
      found.certain = false;
      found.qualified ||= isDot(tokens, next(tokens, next(tokens, index)));
    }
  }
}

/** Nearly every word is one of ASCII alone, there are many, and few have four letters. */
function mayMentionFrom(tokens: MdxTokens, index: number): boolean {
  return !tokens.plainWords || lengthAt(tokens, index) === 4;
}

function mentionsFrom(text: string): boolean {
  return foldName(text)
    .split(/[^a-z0-9_]+/)
    .includes('from');
}

/** The number of the next token that is neither white space nor a comment, nor never ends; `count` for none. */
function next(tokens: MdxTokens, index: number): number {
  let found = index + 1;
  while (found < tokens.count && isPassedOver(tokens.kinds[found])) found += 1;
  return found;
}

function isPassedOver(kind: number | undefined): boolean {
  switch (kind) {
    case MDX.space:
    case MDX.lineComment:
    case MDX.blockComment:
    case MDX.unterminated:
      return true;
    default:
      return false;
  }
}

/** Reads what stands behind FROM: a subselect, which has a FROM of its own, or a cube, perhaps with its catalog. */
function readFrom(tokens: MdxTokens, from: number, found: Found): void {
  const wordAt = (index: number) => foldName(textAt(tokens, index));
  const start = next(tokens, from);
  const second = next(tokens, start);
  const isVisual = wordAt(start) === 'non' && wordAt(second) === 'visual';
  const subselect = isVisual ? next(tokens, second) : start;
  if (wordAt(subselect) === '(') {
    if (wordAt(next(tokens, subselect)) !== 'select') found.certain = false;
    return;
  }
  found.qualified ||= isDot(tokens, second);
  let index = start;
  let more = true;
  while (more) {
    const name = nameOf(tokens, index);
    if (name === undefined) {
      found.certain = false;
      return;
    }
    found.names.push(name);
    index = next(tokens, index);
    more = isDot(tokens, index);
    if (more) index = next(tokens, index);
  }
  if (!AFTER_CUBE.has(wordAt(index))) found.certain = false;
}

const POINT = 0x2e;

function isDot(tokens: MdxTokens, index: number): boolean {
  return tokens.kinds[index] === POINT;
}

/** The name that a token spells; undefined when it is none, or engines may see another. */
function nameOf(tokens: MdxTokens, index: number): string | undefined {
  const kind = tokens.kinds[index];
  const text = textAt(tokens, index);
  if (kind === MDX.bracketed) return text.slice(1, -1).replaceAll(']]', ']');
  return kind === MDX.word && /^[\p{L}\p{M}\p{N}_]+$/u.test(text) ? text : undefined;
}
