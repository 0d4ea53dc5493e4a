import { ConfigError, formatProblem } from './problems.ts';

/** How far apart two readings are (ms). */
const INTERVAL = 100;
/** Whoever has not written it within ten seconds will say so by another signal. */
const MOST_READINGS = 100;

/** What one reading found. */
export interface Reading {
  /** When the file was last written (ms since 1970), looked up before it was read. */
  readonly written: number;
  readonly content: Uint8Array;
  /** Tells apart what the files hold that it names. */
  readonly named?: string;
}

/**
 * Reads a configuration that may be being written: two readings in a row must agree. Many programs empty a file
 * before they write it, and an empty one, or the first half of one, is often a configuration without a mistake: it
 * would send queries to another engine, or be shared by more users than its operator wants.
 * @param file as it is called in messages
 * @returns the content; undefined when there is nothing to be read, which a further reading will explain
 * @throws ConfigError when it does not come to rest
 */
export async function readSettled(
  file: string,
  { read, sleep }: { read: () => Reading; sleep: (milliseconds: number) => Promise<void> },
): Promise<Uint8Array | undefined> {
  let before = attempt(read);
  for (let readings = 1; readings < MOST_READINGS; readings += 1) {
    await sleep(INTERVAL);
    const now = attempt(read);
    if (isSame(before, now)) return now?.content;
    before = now;
  }
  const message = 'is still being written after 10 seconds; signal again when it is complete';
  throw new ConfigError([formatProblem(file, { path: [], message })]);
}

function attempt(read: () => Reading): Reading | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** Of two empty readings the file may have been whole in between: each was then written at another time. */
function isSame(one: Reading | undefined, other: Reading | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return (
    one.written === other.written &&
    one.named === other.named &&
    Buffer.compare(one.content, other.content) === 0
  );
}
