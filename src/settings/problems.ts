/** How a mistake in the configuration is told: one line, with the path of the key and what is allowed. */
export type KeyPath = readonly (string | number)[];
/** One mistake. `message` is the rest of a sentence that begins with the key. */
export type Problem = Readonly<{ path: KeyPath; message: string }>;
/** Keys that are wrong, from the section in question on, each with the rest of a sentence that begins with it. */
export type Broken = Iterable<readonly [key: string, message: string]>;

/** Stands in a message, and in the output of `check`, in place of a secret. */
export const SECRET_MASK = '(a secret)';

/** `message` holds one line for each mistake. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';

  /** @param source what the operator calls the configuration: the file as named on the command line */
  constructor(source: string, problems: readonly Problem[]) {
    const lines = problems.map(({ path, message }) => {
      const key = path.length === 0 ? '' : `${formatKeyPath(path)}: `;
      return escapeUnprintable(`${source}: ${key}${message}`);
    });
    super(lines.join('\n'));
  }
}

/** Escapes control characters, the line separators of Unicode and halves of surrogate pairs: they could break the line. */
function escapeUnprintable(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cs}\u2028\u2029]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

const LONGEST_SHOWN = 60;
/** The beginning of a text in quotes. */
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

/** How many characters must be added, removed or exchanged to make one word of the other (Levenshtein). */
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

/** People confuse the case, and hyphens with underscores. */
const fold = (text: string) => text.slice(0, 100).toLowerCase().replaceAll('-', '_');
/** Two letters exchanged are two edits; short words leave room for one. */
const mostEdits = ({ length }: string) => (length <= 3 ? 1 : Math.max(2, length / 3));

/** The message about a word that is not on a list. `what` names its kind: `key`, `option`. */
export function unknownWord(what: string, word: string, allowed: readonly string[]): string {
  const [near] = allowed
    .map((one) => ({ one, distance: editDistance(fold(word), fold(one)) }))
    .filter(({ one, distance }) => distance <= mostEdits(one))
    .toSorted((a, b) => a.distance - b.distance);
  const hint = near === undefined ? '' : ` did you mean ${near.one}?`;
  return `unknown ${what};${hint} allowed: ${allowed.join(', ')}`;
}
