import { foldName } from '../fold-name.ts';
import { mdxTokens, unquoted, type MdxToken } from '../mdx/mdx-tokens.ts';
import type { XmlaRequest } from './xmla-request.ts';

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

/** Strings within strings; nobody nests more, and the search must end. */
const MAX_NESTING = 8;

const NO_SOURCES: StatementSources = { names: [], certain: true, qualified: false };

/** Reads the sources of a request's statement, in subselects and quoted formulas too; a Discover has none. */
export function sourcesOf(request: XmlaRequest): StatementSources {
  if (request.method === 'Discover') return NO_SOURCES;
  const found: Found = { names: [], certain: true, qualified: false };
  searchText(request.statement, found, MAX_NESTING);
  return found;
}

interface Found extends StatementSources {
  readonly names: string[];
  certain: boolean;
  qualified: boolean;
}

/** @param depth how many strings within strings are still looked into */
function searchText(text: string, found: Found, depth: number): void {
  const tokens: MdxToken[] = [];
  for (const token of mdxTokens(text)) {
    switch (token.kind) {
      case 'space':
        break;
      case 'line-comment':
      case 'block-comment':
        // Inside of a string nobody knows whether it is one.
        if (depth < MAX_NESTING && mentionsFrom(token.text)) found.certain = false;
        break;
      case 'unterminated':
        found.certain = false;
        break;
      case 'single-quoted':
      case 'double-quoted':
        if (depth > 0) searchText(unquoted(token), found, depth - 1);
        else found.certain = false;
        tokens.push(token);
        break;
      default:
        tokens.push(token);
    }
  }
  tokens.forEach((token, index) => {
    if (token.kind !== 'word' || !mentionsFrom(token.text)) return;
    if (foldName(token.text) === 'from') {
      readFrom(tokens, index + 1, found);
      return;
    }
    // An engine may end a word where the tokenizer does not.
    found.certain = false;
    found.qualified ||= isDot(tokens[index + 2]);
  });
}

function mentionsFrom(text: string): boolean {
  // Nearly every word is one of ASCII alone, and there are many.
  if (/^[A-Za-z0-9_]+$/.test(text)) return text.length === 4 && text.toLowerCase() === 'from';
  return foldName(text)
    .split(/[^a-z0-9_]+/)
    .includes('from');
}

/** Reads what stands behind FROM: a subselect, which has a FROM of its own, or a cube, perhaps with its catalog. */
function readFrom(tokens: readonly MdxToken[], start: number, found: Found): void {
  const wordAt = (index: number) => foldName(tokens[index]?.text ?? '');
  const subselect = wordAt(start) === 'non' && wordAt(start + 1) === 'visual' ? start + 2 : start;
  if (wordAt(subselect) === '(') {
    if (wordAt(subselect + 1) !== 'select') found.certain = false;
    return;
  }
  found.qualified ||= isDot(tokens[start + 1]);
  let index = start;
  let more = true;
  while (more) {
    const name = nameOf(tokens[index]);
    if (name === undefined) {
      found.certain = false;
      return;
    }
    found.names.push(name);
    more = isDot(tokens[index + 1]);
    index += more ? 2 : 1;
  }
  if (!AFTER_CUBE.has(wordAt(index))) found.certain = false;
}

function isDot(token: MdxToken | undefined): boolean {
  return token?.kind === 'mark' && token.text === '.';
}

/** The name that a token spells; undefined when it is none, or engines may see another. */
function nameOf(token: MdxToken | undefined): string | undefined {
  if (token?.kind === 'bracketed') return token.text.slice(1, -1).replaceAll(']]', ']');
  return token?.kind === 'word' && /^[\p{L}\p{M}\p{N}_]+$/u.test(token.text)
    ? token.text
    : undefined;
}
