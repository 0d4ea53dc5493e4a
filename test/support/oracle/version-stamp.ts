/** What the engine of the oracle writes into each of its answers. */
export interface StampedVersions {
  /** Of the engine request. */
  readonly serial: number;
  /** When it arrived (ms, by the clock of the ledger). */
  readonly at: number;
  /** Whose login came with it. */
  readonly user: string;
  /** What was asked. */
  readonly asked: string;
  /** Of each project, when it arrived. */
  readonly versions: readonly number[];
}

/** Stands in an answer as it is: none of its letters means anything in XML. */
export function stampText({ serial, at, user, asked, versions }: StampedVersions): string {
  return `stamp(${[serial, at.toFixed(1), user, asked, versions.join('.')].join('|')})`;
}

const STAMP = /stamp\(([^|()]*)\|([^|()]*)\|([^|()]*)\|([^|()]*)\|([^|()]*)\)/gu;

/**
 * Reads the stamp of an answer. It stands in more than one place of it.
 * @returns undefined when there is none
 * @throws Error when its places do not say the same: the answer is put together from several
 */
export function readStamp(answer: string): StampedVersions | undefined {
  const [first, ...others] = answer.matchAll(STAMP);
  if (first === undefined) return undefined;
  const differs = others.find(([text]) => text !== first[0]);
  if (differs !== undefined) throw new Error(`one answer holds ${first[0]} and ${differs[0]}`);
  if (others.length === 0) throw new Error('an answer has lost one of its stamps');
  const [, serial, at, user = '', asked = '', versions = ''] = first;
  return {
    serial: Number(serial),
    at: Number(at),
    user,
    asked,
    versions: versions.split('.').map(Number),
  };
}
