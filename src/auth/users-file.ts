import { isUtf8 } from 'node:buffer';
import { foldCase } from '../fold-case.ts';
import { bcryptCost, MAX_COST, MIN_COST } from './password-hash.ts';

/** Largest users file, in bytes: over ten thousand users. */
export const MAX_FILE_BYTES = 1024 * 1024;

/** htpasswd takes no longer names. */
const MAX_NAME_BYTES = 255;

const PROBLEMS_SHOWN = 10;

export interface Users {
  /** The bcrypt hash of each user, by the exact spelling of the name. */
  readonly hashes: ReadonlyMap<string, string>;
  /** The cost that most hashes have; of two equally frequent ones the higher. */
  readonly commonCost: number;
  /** Names that differ from another one in letter case or Unicode form only. */
  readonly lookAlikes: ReadonlySet<string>;
  /** What is allowed but likely a mistake, by line number. */
  readonly warnings: readonly string[];
}

/** A users file that cannot be used. The message names file and lines, never a hash or any other content. */
export class UsersFileError extends Error {
  override readonly name = 'UsersFileError';
}

/**
 * Reads lines `name:hash` as `htpasswd -B` writes them. UTF-8, with or without a byte order mark; line ends
 * are LF or CRLF; blank lines and lines that begin with `#` are skipped. Names are kept as spelt: letter
 * case and the Unicode form count.
 *
 * The file is taken as a whole or not at all.
 *
 * @param file - its path, for messages.
 * @throws {UsersFileError} with every problem, up to ten, that was found.
 */
export function parseUsers(bytes: Uint8Array, file: string): Users {
  if (!isUtf8(bytes)) throw unusable(file, ['it is not UTF-8 text']);

  const hashes = new Map<string, string>();
  const lineOf = new Map<string, number>();
  const problems: string[] = [];
  const lines = new TextDecoder().decode(bytes).split(/\r?\n/);
  for (const [index, line] of lines.entries()) {
    if (/^[ \t]*(?:#|$)/.test(line)) continue;
    const number = index + 1;
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(colon, 0));
    const hash = line.slice(colon + 1).trimEnd();
    const problem = colon === -1 ? 'there is no colon' : (nameProblem(name) ?? hashProblem(hash));
    const earlier = lineOf.get(name);
    if (problem !== undefined) problems.push(`line ${number}: ${problem}`);
    else if (earlier !== undefined)
      problems.push(`line ${number}: the user of line ${earlier} again`);
    else {
      hashes.set(name, hash);
      lineOf.set(name, number);
    }
  }
  if (problems.length === 0 && hashes.size === 0) problems.push('it holds no user');
  if (problems.length > 0) throw unusable(file, problems);

  const costs = countCosts(hashes.values());
  const pairs = lookAlikePairs([...hashes.keys()]);
  return {
    hashes,
    commonCost: mostFrequent(costs),
    lookAlikes: new Set(pairs.flat()),
    warnings: [
      ...pairs.map(
        (pair) =>
          `lines ${pair.map((name) => lineOf.get(name)).join(' and ')}: two users whose names differ only in letter case or Unicode form`,
      ),
      ...unevenCosts(costs),
    ],
  };
}

function nameProblem(name: string): string | undefined {
  if (name === '') return 'the user name is empty';
  if (/\p{Cc}/u.test(name)) return 'the user name holds a control character';
  if (name.trim() !== name) return 'the user name begins or ends with white space';
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) {
    return `the user name is longer than ${MAX_NAME_BYTES} bytes`;
  }
  return undefined;
}

function hashProblem(hash: string): string | undefined {
  if (!/^\$2[aby]\$/.test(hash)) return 'the hash is not bcrypt ($2a$, $2b$ or $2y$)';
  const cost = bcryptCost(hash);
  if (cost === undefined) return 'the bcrypt hash is damaged';
  if (cost < MIN_COST) return `the cost of the hash is below ${MIN_COST}`;
  if (cost > MAX_COST)
    return `the cost of the hash is above ${MAX_COST}: each login would take seconds`;
  return undefined;
}

/** A form that also takes letters of other widths and styles for the same. */
function formOf(name: string): string {
  return foldCase(foldCase(name).normalize('NFKC'));
}

/** Each of them is a principal of its own; whoever wrote both likely meant one. */
function lookAlikePairs(names: readonly string[]): [string, string][] {
  const seen = new Map<string, string>();
  const pairs: [string, string][] = [];
  for (const name of names) {
    const earlier = seen.get(formOf(name));
    if (earlier === undefined) seen.set(formOf(name), name);
    else pairs.push([earlier, name]);
  }
  return pairs;
}

/** An unknown name costs a comparison of the common cost, so another cost shows that its user exists. */
function unevenCosts(costs: ReadonlyMap<number, number>): string[] {
  if (costs.size < 2) return [];
  const list = [...costs.keys()].sort((a, b) => a - b).join(', ');
  return [
    `the hashes have different costs (${list}): the time of a refusal tells which users exist`,
  ];
}

function countCosts(hashes: Iterable<string>): Map<number, number> {
  const counts = new Map<number, number>();
  for (const hash of hashes) {
    const cost = bcryptCost(hash);
    if (cost !== undefined) counts.set(cost, (counts.get(cost) ?? 0) + 1);
  }
  return counts;
}

function mostFrequent(counts: ReadonlyMap<number, number>): number {
  const [first] = [...counts].sort(([a, m], [b, n]) => n - m || b - a);
  return first?.[0] ?? MAX_COST;
}

function unusable(file: string, problems: readonly string[]): UsersFileError {
  const shown = problems.slice(0, PROBLEMS_SHOWN);
  const more = problems.length - shown.length;
  if (more > 0) shown.push(`and ${more} more`);
  return new UsersFileError(
    `users file ${file}: ${shown.join('; ')}. A right line is made by: htpasswd -B -C 10 ${file} NAME`,
  );
}
