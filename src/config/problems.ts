/** How a mistake in the configuration is told: one line, with the path of the key and what is allowed. */

import { EnvironmentText } from './environment-text.ts';

export type KeyPath = readonly (string | number)[];

/** One mistake. `message` is the rest of a sentence that begins with the key. */
export interface Problem {
  readonly path: KeyPath;
  readonly message: string;
}

/** What stands in a message, and in the output of `check`, in place of a secret. */
export const SECRET_MASK = '(a secret)';

/** The configuration cannot be used. `message` holds one line for each mistake. */
export class ConfigError extends Error {
  readonly lines: readonly string[];

  constructor(lines: readonly string[]) {
    super(lines.join('\n'));
    this.name = 'ConfigError';
    this.lines = lines;
  }
}

// Control characters, the line separators of Unicode and halves of surrogate pairs: what could break the line.
const UNPRINTABLE = /[\p{Cc}\p{Cs}\u2028\u2029]/gu;

function escapeUnprintable(text: string): string {
  return text.replace(
    UNPRINTABLE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

const LONGEST_SHOWN = 60;

/** The beginning of a text in quotes. */
function quoteStart(text: string): string {
  const characters = [...text];
  const shown = characters.slice(0, LONGEST_SHOWN).join('');
  return JSON.stringify(characters.length > LONGEST_SHOWN ? `${shown}…` : shown);
}

/** Writes a path as `cache.redis.url`, `auth.admins[0]` or `projects["Adventure Works"].ttl`. */
function formatKeyPath(path: KeyPath): string {
  return path
    .map((step, index) => {
      if (typeof step === 'number') return `[${step}]`;
      if (!/^[\w-]{1,60}$/.test(step)) return `[${quoteStart(step)}]`;
      return index === 0 ? step : `.${step}`;
    })
    .join('');
}

/** @param source what the operator calls the configuration: the file as named on the command line. */
export function formatProblem(source: string, { path, message }: Problem): string {
  const key = path.length === 0 ? '' : `${formatKeyPath(path)}: `;
  return escapeUnprintable(`${source}: ${key}${message}`);
}

/**
 * A value in words, for the end of a message. Anything that came from the environment is a secret; the
 * insides of lists and mappings are not shown, because a secret may have slipped in there.
 */
export function describeValue(value: unknown, secret = false): string {
  if (value === undefined || value === null) return 'nothing';
  if (secret) return SECRET_MASK;
  if (value instanceof EnvironmentText) {
    return value.fromEnvironment ? SECRET_MASK : describeValue(value.text);
  }
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a mapping';
  return typeof value === 'string' ? quoteStart(value) : String(value);
}

/** The kind of a value alone, for places where a secret may have been written by mistake. */
export function describeKind(value: unknown): string {
  if (typeof value === 'string' || value instanceof EnvironmentText) return 'a text';
  if (typeof value === 'number') return 'a number';
  if (typeof value === 'boolean') return 'true or false';
  return describeValue(value);
}

/** How many characters must be added, removed or exchanged to make one word of the other. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const exchange = (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(exchange, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}

/** Two letters exchanged count as two edits; in a word of three letters that would leave hardly anything. */
function mostEdits(word: string): number {
  return word.length <= 3 ? 1 : Math.max(2, Math.floor(word.length / 3));
}

/** What people confuse: the case, and hyphens with underscores. */
const fold = (text: string) => text.slice(0, 100).toLowerCase().replaceAll('-', '_');

/** The word that was probably meant, or undefined when none is near. */
function nearestWord(word: string, words: readonly string[]): string | undefined {
  const folded = fold(word);
  const near = words
    .map((candidate) => ({ candidate, distance: editDistance(folded, fold(candidate)) }))
    .filter(({ candidate, distance }) => distance <= mostEdits(candidate))
    .toSorted((a, b) => a.distance - b.distance);
  return near[0]?.candidate;
}

/** The message about a word that is not on a list. `what` names its kind: `key`, `option`. */
export function unknownWord(what: string, word: string, allowed: readonly string[]): string {
  const near = nearestWord(word, allowed);
  const hint = near === undefined ? '' : ` did you mean ${near}?`;
  return `unknown ${what};${hint} allowed: ${allowed.join(', ')}`;
}
