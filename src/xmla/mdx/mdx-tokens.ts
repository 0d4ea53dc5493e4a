/**
 * Kinds of tokens. The kind of a one-character mark in ASCII (`( ) { } . , ; & ! $`) is its code.
 * `unterminated` is the rest of the text from a quote, bracket or comment that never ends.
 */
export const MDX = {
  word: 0x80,
  number: 0x81,
  bracketed: 0x82,
  singleQuoted: 0x83,
  doubleQuoted: 0x84,
  otherMark: 0x85,
  unterminated: 0x86,
  exclamation: 0x21,
  dollar: 0x24,
  opening: 0x28,
  closing: 0x29,
  comma: 0x2c,
  point: 0x2e,
  semicolon: 0x3b,
  closingBracket: 0x5d,
} as const;

/** Kinds of what is no token; a character may only seem to begin a comment. */
const SPACE = 0x87;
const COMMENT = 0x88;
/** Tokens by index, without white space and comments. No objects: a statement has hundreds. */
export type MdxTokens = ReturnType<typeof mdxTokens>;

// A word takes all characters beyond ASCII but white space, so no letter of a language splits it.
const NUMBER = /(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?/y;
const WORD = /(?:[A-Za-z0-9_]|[^\0-\x7F\s])+/y;

/** The likely kind of a token by its first character; a mark where that proves wrong. */
const KINDS = new Uint8Array(0x1_0000).fill(MDX.word);
const IN_PLAIN_WORD = new Uint8Array(0x1_0000);
for (let code = 0; code < 0x80; code += 1) {
  const character = String.fromCharCode(code);
  KINDS[code] = kindByFirst(character);
  IN_PLAIN_WORD[code] = /[A-Za-z0-9_]/.test(character) ? 1 : 0;
}

/** Scratch arrays, reused: arrays that grow are copied many times. */
const COLLECTED = { packed: [] as number[], ends: [] as number[] };
const NEVER = -1;
/** A token is one number: its kind, and above these bits its start in the text (UTF-16 units). */
const KIND_BITS = 8;
const KIND_MASK = 0xff;

/** Splits at most 16 Mi UTF-16 units in linear time, by the lexical rules of Mondrian and SSAS. */
export function mdxTokens(text: string) {
  const { length } = text;
  const { packed, ends } = COLLECTED;
  const comments: string[] = [];
  let count = 0;
  let position = 0;
  while (position < length) {
    const code = text.charCodeAt(position);
    let kind = KINDS[code] ?? MDX.otherMark;
    if (kind === SPACE) {
      position += 1;
      continue;
    }
    let end = endOf(text, position, kind);
    if (kind === COMMENT && end > position) {
      comments.push(text.slice(position, end));
      position = end;
      continue;
    }
    if (end === position) {
      kind = code < 0x80 ? code : MDX.otherMark;
      end += 1;
    } else if (end === NEVER) {
      kind = MDX.unterminated;
      end = length;
    }
    packed[count] = (position << KIND_BITS) | kind;
    ends[count] = end;
    count += 1;
    position = end;
  }
  return { text, packed: packed.slice(0, count), ends: ends.slice(0, count), comments };
}

/** Returns `position` where no such token begins, here and below; NEVER for one without an end. */
function endOf(text: string, position: number, kind: number): number {
  const { length } = text;
  switch (kind) {
    case MDX.word: {
      let end = position;
      while (end < length && IN_PLAIN_WORD[text.charCodeAt(end)] === 1) end += 1;
      const isPlain = end === length || text.charCodeAt(end) < 0x80;
      return isPlain ? end : matchEnd(WORD, text, position);
    }
    case MDX.number: {
      // Most points stand between names, and a look is cheaper than a pattern.
      const isPoint = text.charCodeAt(position) === MDX.point;
      const isNumber = !isPoint || KINDS[text.charCodeAt(position + 1)] === MDX.number;
      return isNumber ? matchEnd(NUMBER, text, position) : position;
    }
    case MDX.bracketed:
      return enclosedEnd(text, position, MDX.closingBracket);
    case MDX.singleQuoted:
    case MDX.doubleQuoted:
      return enclosedEnd(text, position, text.charCodeAt(position));
    case COMMENT:
      return commentEnd(text, position);
    default:
      return position;
  }
}

export const kindOf = (packed: number): number => packed & KIND_MASK;
export const startOf = (packed: number): number => packed >>> KIND_BITS;

export function kindAt({ packed }: MdxTokens, index: number): number | undefined {
  const token = packed[index];
  return token === undefined ? undefined : token & KIND_MASK;
}

/** Returns '' beyond either end of the text. */
export function textAt({ text, packed, ends }: MdxTokens, index: number): string {
  const token = packed[index];
  return token === undefined ? '' : text.slice(startOf(token), ends[index]);
}

export function unquoted(quoted: string): string {
  const quote = quoted.charAt(0);
  return quoted.slice(1, -1).replaceAll(quote + quote, quote);
}

function kindByFirst(first: string): number {
  if (first === '[') return MDX.bracketed;
  if (first === "'") return MDX.singleQuoted;
  if (first === '"') return MDX.doubleQuoted;
  if (/[-/]/.test(first)) return COMMENT;
  if (/[ \t\n\r\f]/.test(first)) return SPACE;
  if (/[.0-9]/.test(first)) return MDX.number;
  return /[A-Za-z_]/.test(first) ? MDX.word : first.charCodeAt(0);
}

function matchEnd(pattern: RegExp, text: string, position: number): number {
  pattern.lastIndex = position;
  return pattern.test(text) ? pattern.lastIndex : position;
}

function commentEnd(text: string, position: number): number {
  if (text.startsWith('/*', position)) {
    const close = text.indexOf('*/', position + 2);
    return close === -1 ? NEVER : close + 2;
  }
  if (text.charAt(position + 1) !== text.charAt(position)) return position;
  const close = text.indexOf('\n', position);
  return close === -1 ? text.length : close;
}

/** A doubled closing character stands for itself. No indexOf: most ends are near. */
function enclosedEnd(text: string, position: number, close: number): number {
  const { length } = text;
  let end = position + 1;
  while (end < length) {
    if (text.charCodeAt(end) !== close) end += 1;
    else if (end + 1 < length && text.charCodeAt(end + 1) === close) end += 2;
    else return end + 1;
  }
  return NEVER;
}
