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

/**
 * White space is exactly these five characters. A line comment ends before its line feed. A word may hold any
 * character beyond ASCII that is no white space, so that no letter of any language splits an identifier.
 */
const SPACE = /[ \t\n\r\f]+/y;
const LINE_COMMENT = /(?:--|\/\/)[^\n]*/y;
const NUMBER = /(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?/y;
const WORD = /(?:[A-Za-z0-9_]|[^\0-\x7F\s])+/y;

type Reader = (text: string, position: number) => MdxToken;

/** How a token is read that begins with a certain character of ASCII; a mark where nothing is said. */
const READERS: readonly (Reader | undefined)[] = Array.from({ length: 0x80 }, (_, code) =>
  readerOf(String.fromCharCode(code)),
);

/** Every mark of ASCII, once: a text of nothing else must not cost an object for each of its characters. */
const MARKS: readonly MdxToken[] = Array.from({ length: 0x80 }, (_, code) => ({
  kind: 'mark',
  text: String.fromCharCode(code),
}));

/**
 * Splits MDX text into tokens (the lexical rules of MDX as Mondrian and SSAS document them). Never throws;
 * the texts of the tokens, joined, are the text. Linear in its length.
 */
export function mdxTokens(text: string): readonly MdxToken[] {
  const tokens: MdxToken[] = [];
  let position = 0;
  while (position < text.length) {
    const token = tokenAt(text, position);
    tokens.push(token);
    position += token.text.length;
  }
  return tokens;
}

/** The text inside a quoted token, with doubled quotes made single. */
export function unquoted(token: MdxToken): string {
  const quote = token.text.charAt(0);
  return token.text.slice(1, -1).replaceAll(quote + quote, quote);
}

function tokenAt(text: string, position: number): MdxToken {
  const code = text.charCodeAt(position);
  return code < 0x80
    ? (READERS[code]?.(text, position) ?? markAt(text, position))
    : (matched('word', WORD, text, position) ?? markAt(text, position));
}

function readerOf(first: string): Reader | undefined {
  switch (first) {
    case '[':
      return (text, position) => enclosed('bracketed', text, position, ']');
    case "'":
      return (text, position) => enclosed('single-quoted', text, position, "'");
    case '"':
      return (text, position) => enclosed('double-quoted', text, position, '"');
    case '/':
      return (text, position) =>
        text[position + 1] === '*' ? blockComment(text, position) : lineComment(text, position);
    case '-':
      return lineComment;
    default:
      return readerOfRun(first);
  }
}

function readerOfRun(first: string): Reader | undefined {
  if (/[ \t\n\r\f]/.test(first)) return run('space', SPACE);
  if (/[.0-9]/.test(first)) return run('number', NUMBER);
  return /[A-Za-z_]/.test(first) ? run('word', WORD) : undefined;
}

function run(kind: MdxTokenKind, pattern: RegExp): Reader {
  return (text, position) => matched(kind, pattern, text, position) ?? markAt(text, position);
}

function markAt(text: string, position: number): MdxToken {
  return MARKS[text.charCodeAt(position)] ?? { kind: 'mark', text: text.charAt(position) };
}

function matched(
  kind: MdxTokenKind,
  pattern: RegExp,
  text: string,
  position: number,
): MdxToken | undefined {
  pattern.lastIndex = position;
  return pattern.test(text) ? { kind, text: text.slice(position, pattern.lastIndex) } : undefined;
}

function lineComment(text: string, position: number): MdxToken {
  // Most of these marks stand alone, and a look is cheaper than a pattern.
  return text[position] === text[position + 1]
    ? (matched('line-comment', LINE_COMMENT, text, position) ?? markAt(text, position))
    : markAt(text, position);
}

function blockComment(text: string, position: number): MdxToken {
  const end = text.indexOf('*/', position + 2);
  return end === -1
    ? { kind: 'unterminated', text: text.slice(position) }
    : { kind: 'block-comment', text: text.slice(position, end + 2) };
}

/** A closing character that is written twice stands for itself. */
function enclosed(kind: MdxTokenKind, text: string, position: number, close: string): MdxToken {
  let found = text.indexOf(close, position + 1);
  while (found !== -1 && text[found + 1] === close) {
    found = text.indexOf(close, found + 2);
  }
  return found === -1
    ? { kind: 'unterminated', text: text.slice(position) }
    : { kind, text: text.slice(position, found + 1) };
}
