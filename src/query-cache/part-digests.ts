import { createHmac } from 'node:crypto';
import type { CapturedEpochs } from './epochs.ts';
import { KEY_PARTS, type KeyPartName, type KeyParts } from './key.ts';

/** Of each digest: enough that no two parts in one memory meet by chance (bytes). */
const BYTES = 8;
/** Stands for a part that requests of this method do not have. */
const ABSENT = '\0'.repeat(BYTES);

/**
 * The digests of all parts of a key, eight characters for each, all below U+0100: as a text they take a third of
 * the memory that a Buffer would.
 */
export type PartDigests = string;

/**
 * Digests each part by itself, so that it can be told later in which of them two keys differ. Keyed like the key
 * itself, so that a dump of the memory or an explanation does not let anybody test guesses.
 */
export function partDigests(parts: KeyParts, epochs: CapturedEpochs): PartDigests {
  const digests = KEY_PARTS.map(([name, value]) => {
    const of = value(parts, epochs);
    return of === undefined ? Buffer.from(ABSENT) : digest(epochs.keySecret, [name, of]);
  });
  // Not joined as texts: that would keep a tree of them alive.
  return Buffer.concat(digests).toString('latin1');
}

/** The parts that are there, with their digests as base64url. */
export function describeParts(
  digests: PartDigests,
): readonly { readonly name: KeyPartName; readonly digest: string }[] {
  return KEY_PARTS.flatMap(([name], i) => {
    const of = digestAt(digests, i);
    return of === ABSENT ? [] : [{ name, digest: Buffer.from(of, 'latin1').toString('base64url') }];
  });
}

/** In which parts two keys differ; undefined when they have no part in common, as under another secret. */
export function differingParts(a: PartDigests, b: PartDigests): KeyPartName[] | undefined {
  const differs: KeyPartName[] = [];
  let common = false;
  for (const [i, [name]] of KEY_PARTS.entries()) {
    const [ofA, ofB] = [digestAt(a, i), digestAt(b, i)];
    if (ofA !== ofB) differs.push(name);
    else if (ofA !== ABSENT) common = true;
  }
  return common ? differs : undefined;
}

/** An epoch in a form that can be shown: equal for equal epochs, and of no use to whoever sees it. */
export function tokenDigest(keySecret: string, token: string): string {
  return digest(keySecret, ['token', token]).toString('base64url');
}

/** What is digested begins with a text, the parts of a key with a number: the two never meet. */
function digest(keySecret: string, value: readonly [string, unknown]): Buffer {
  const whole = createHmac('sha256', keySecret).update(JSON.stringify(value)).digest();
  return whole.subarray(0, BYTES);
}

function digestAt(digests: PartDigests, i: number): string {
  return digests.slice(i * BYTES, (i + 1) * BYTES);
}
