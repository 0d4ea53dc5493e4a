export type KeyPath = readonly (string | number)[];
/** `message` continues a sentence that begins with the key. */
export type Problem = Readonly<{ path: KeyPath; message: string }>;
/** Mistakes of a section: key and message as in {@link Problem}. */
export type Broken = Iterable<readonly [key: string, message: string]>;

export const SECRET_MASK = '(a secret)';

export class ConfigError extends Error {
  override readonly name = 'ConfigError';

  /** @param source the file as the command line names it */
  constructor(source: string, problems: readonly Problem[]) {
    const lines = problems.map(({ path, message }) => {
      const key = path.length === 0 ? '' : `${formatKeyPath(path)}: `;
      return escapeUnprintable(`${source}: ${key}${message}`);
    });
    super(lines.join('\n'));
  }
}

/** Escapes characters that could break the line: controls, line separators, lone surrogates. */
function escapeUnprintable(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cs}\u2028\u2029]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

const LONGEST_SHOWN = 60;
export function quoteStart(text: string): string {
  const characters = [...text];
  const shown = characters.slice(0, LONGEST_SHOWN).join('');
  return JSON.stringify(characters.length > LONGEST_SHOWN ? `${shown}…` : shown);
}

/** Writes a path as `cache.redis.url`, `auth.admins[0]` or `projects["Adventure Works"].ttl`. */
function formatKeyPath(path: KeyPath): string {
  const steps = path.map((step) => {
    if (typeof step === 'number') return `[${step}]`;
    return /^[\w-]{1,60}$/.test(step) ? `.${step}` : `[${quoteStart(step)}]`;
  });
  return steps.join('').replace(/^\./, '');
}

/** Levenshtein distance. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (const [i, letter] of [...from].entries()) {
    const next = [i + 1];
    for (let j = 1; j <= to.length; j += 1) {
      const exchange = (row[j - 1] ?? 0) + (letter === to[j - 1] ? 0 : 1);
      next.push(Math.min(exchange, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}

/** People confuse letter case, hyphens and underscores. */
const fold = (text: string) => text.slice(0, 100).toLowerCase().replaceAll('-', '_');
/** Two exchanged letters are two edits; short words leave room for one. */
const mostEdits = ({ length }: string) => (length <= 3 ? 1 : Math.max(2, length / 3));

/** @param what the kind of the word: `key`, `option` */
export function unknownWord(what: string, word: string, allowed: readonly string[]): string {
  const [near] = allowed
    .map((one) => ({ one, distance: editDistance(fold(word), fold(one)) }))
    .filter(({ one, distance }) => distance <= mostEdits(one))
    .toSorted((a, b) => a.distance - b.distance);
  const hint = near === undefined ? '' : ` did you mean ${near.one}?`;
  return `unknown ${what};${hint} allowed: ${allowed.join(', ')}`;
}
