/**
 * What a token is. The text of a token is exactly what stands in the statement, quotes and brackets included.
 * `mark` is one character that is nothing else, as in `( ) { } . , ; & ! $`. `unterminated` is everything
 * from a quote, bracket or comment that never ends, and the last token.
 */
export type MdxTokenKind =
  | 'space'
  | 'line-comment'
  | 'block-comment'
  | 'bracketed'
  | 'single-quoted'
  | 'double-quoted'
  | 'number'
  | 'word'
  | 'mark'
  | 'unterminated';

export interface MdxToken {
  readonly kind: MdxTokenKind;
  readonly text: string;
}

interface PatternRule {
  readonly kind: MdxTokenKind;
  readonly pattern: RegExp;
}

/**
 * In this order. White space is exactly these five characters. A line comment ends before its line feed.
 * A word may hold any character beyond ASCII that is no white space, so that no letter of any language
 * splits an identifier.
 */
const PATTERNS: readonly PatternRule[] = [
  { kind: 'space', pattern: /[ \t\n\r\f]+/y },
  { kind: 'line-comment', pattern: /(?:--|\/\/)[^\n]*/y },
  { kind: 'number', pattern: /(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?/y },
  { kind: 'word', pattern: /(?:[A-Za-z0-9_]|[^\0-\x7F\s])+/y },
];

interface EnclosedRule {
  readonly kind: MdxTokenKind;
  readonly open: string;
  readonly close: string;
  /** Whether the closing character written twice stands for itself. */
  readonly doubles: boolean;
}

const ENCLOSED: readonly EnclosedRule[] = [
  { kind: 'bracketed', open: '[', close: ']', doubles: true },
  { kind: 'single-quoted', open: "'", close: "'", doubles: true },
  { kind: 'double-quoted', open: '"', close: '"', doubles: true },
  { kind: 'block-comment', open: '/*', close: '*/', doubles: false },
];

/**
 * Splits MDX text into tokens (the lexical rules of MDX as Mondrian and SSAS document them). Never throws;
 * the texts of the tokens, joined, are the text. Linear in its length.
 */
export function* mdxTokens(text: string): Generator<MdxToken, void, undefined> {
  let position = 0;
  while (position < text.length) {
    const token = tokenAt(text, position);
    yield token;
    position += token.text.length;
  }
}

/** The text inside a quoted token, with doubled quotes made single. */
export function unquoted(token: MdxToken): string {
  const quote = token.text.charAt(0);
  return token.text.slice(1, -1).replaceAll(quote + quote, quote);
}

function tokenAt(text: string, position: number): MdxToken {
  const enclosed = ENCLOSED.find(({ open }) => text.startsWith(open, position));
  if (enclosed !== undefined) {
    const end = endOfEnclosed(text, position + enclosed.open.length, enclosed);
    return end === -1
      ? { kind: 'unterminated', text: text.slice(position) }
      : { kind: enclosed.kind, text: text.slice(position, end) };
  }
  for (const { kind, pattern } of PATTERNS) {
    pattern.lastIndex = position;
    const found = pattern.exec(text);
    if (found !== null) {
      return { kind, text: found[0] };
    }
  }
  return { kind: 'mark', text: text.charAt(position) };
}

/** The index behind the closing character; -1 when there is none. */
function endOfEnclosed(text: string, from: number, { close, doubles }: EnclosedRule): number {
  let found = text.indexOf(close, from);
  if (doubles) {
    while (found !== -1 && text.startsWith(close, found + 1)) {
      found = text.indexOf(close, found + 2);
    }
  }
  return found === -1 ? -1 : found + close.length;
}
