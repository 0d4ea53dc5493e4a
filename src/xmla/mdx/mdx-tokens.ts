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
/** UTF-16 units of a long text that are read in one turn of the event loop. */
export const SLICE = 32 * 1024;

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

const NEVER = -1;
const KIND_BITS = 8;
const KIND_MASK = 0xff;
/** Room for the tokens of a text of one slice, used again and again. */
const ROOM = new Int32Array(2 * SLICE);

/** Tokens by index, without white space and comments. No objects: a statement has thousands. */
export class MdxTokens {
  readonly text: string;
  /** Two numbers a token: above its kind its start in the text (UTF-16 units), and its end. */
  spans: Int32Array;
  count = 0;
  /** Without those behind the first {@link SLICE} units of all comments. */
  readonly comments: string[] = [];
  commentUnits = 0;
  /** SSAS nests block comments, Mondrian does not: the end of such a one is uncertain. */
  hasNestedComment = false;
  #position = 0;

  constructor(text: string) {
    this.text = text;
    this.spans = text.length > SLICE ? new Int32Array(2 * text.length) : ROOM;
  }

  get isRead(): boolean {
    return this.spans !== ROOM && this.#position === this.text.length;
  }

  /** Reads on by the lexical rules of Mondrian and SSAS, in linear time. At most 8 Mi units. */
  readOn(units: number): void {
    const { text, spans } = this;
    const limit = spans === ROOM ? text.length : Math.min(text.length, this.#position + units);
    let { count } = this;
    let position = this.#position;
    while (position < limit) {
      const code = text.charCodeAt(position);
      let kind = KINDS[code] ?? MDX.otherMark;
      if (kind === SPACE) {
        position += 1;
        continue;
      }
      let end = endOf(text, position, kind);
      if (kind === COMMENT && end > position) {
        this.commentUnits += end - position;
        if (this.commentUnits <= SLICE) this.comments.push(text.slice(position, end));
        this.hasNestedComment ||= isNested(text, position, end);
        position = end;
        continue;
      }
      if (end === position) {
        kind = code < 0x80 ? code : MDX.otherMark;
        end += 1;
      } else if (end === NEVER) {
        kind = MDX.unterminated;
        end = text.length;
      }
      spans[2 * count] = (position << KIND_BITS) | kind;
      spans[2 * count + 1] = end;
      count += 1;
      position = end;
    }
    this.count = count;
    this.#position = position;
    if (spans === ROOM) this.spans = ROOM.slice(0, 2 * count);
  }
}

export function mdxTokens(text: string): MdxTokens {
  const tokens = new MdxTokens(text);
  tokens.readOn(text.length);
  return tokens;
}

/** Reads texts by their tokens, in steps; cuts make no difference. */
export abstract class TokenReader {
  readonly #texts: { readonly tokens: MdxTokens; readonly depth: number; at: number }[] = [];

  /** @param depth how many texts within texts are still read */
  protected abstract read(tokens: MdxTokens, depth: number, from: number, to: number): void;

  add(tokens: MdxTokens, depth: number): void {
    this.#texts.push({ tokens, depth, at: 0 });
  }

  /** Reads a text in a text: at once, or later if it is long. */
  readText(text: string, depth: number): void {
    const tokens = new MdxTokens(text);
    if (text.length > SLICE) return this.add(tokens, depth);
    tokens.readOn(SLICE);
    this.read(tokens, depth, 0, tokens.count);
  }

  /** Reads about so many units more. @returns false when there are none */
  step(units: number): boolean {
    const [next] = this.#texts;
    if (next === undefined) return false;
    const { tokens, depth, at } = next;
    if (!tokens.isRead) tokens.readOn(units);
    else {
      next.at = endOfStep(tokens, at, units);
      this.read(tokens, depth, at, next.at);
      if (next.at === tokens.count) this.#texts.shift();
    }
    return true;
  }

  finish(): this {
    while (this.step(Infinity));
    return this;
  }
}

function endOfStep(tokens: MdxTokens, from: number, units: number): number {
  if (units >= tokens.text.length) return tokens.count;
  const end = startAt(tokens, from) + units;
  let to = from;
  while (to < tokens.count && startAt(tokens, to) < end) to += 1;
  return to;
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

export function kindAt({ spans, count }: MdxTokens, index: number): number | undefined {
  return index >= 0 && index < count ? (spans[2 * index] as number) & KIND_MASK : undefined;
}

/** Returns the length of the text behind the last token. */
export function startAt({ text, spans, count }: MdxTokens, index: number): number {
  return index < count ? (spans[2 * index] as number) >>> KIND_BITS : text.length;
}

/** Returns '' beyond either end of the text. */
export function textAt({ text, spans, count }: MdxTokens, index: number): string {
  if (index < 0 || index >= count) return '';
  return text.slice((spans[2 * index] as number) >>> KIND_BITS, spans[2 * index + 1]);
}

/** Returns the text from one token to the next slice, or of all tokens all of it. */
export function textOf(tokens: MdxTokens, from: number, to: number): string {
  return tokens.text.slice(from === 0 ? 0 : startAt(tokens, from), startAt(tokens, to));
}

export function unquoted(quoted: string): string {
  const quote = quoted.charAt(0);
  // A pattern is quicker than a text where there are many.
  return quoted.slice(1, -1).replace(quote === "'" ? /''/g : /""/g, quote);
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

const isNested = (text: string, from: number, end: number) =>
  text.startsWith('/*', from) && text.lastIndexOf('/*', end - 2) > from;

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
