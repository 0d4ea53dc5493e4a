import { hash } from 'node:crypto';
import type { CapturedEpochs } from '../purge/epochs.ts';
import { KEY_PARTS, partTexts, type KeyPartName, type KeyParts, type PartTexts } from './key.ts';

/** Of each digest: enough that no two parts in one memory meet by chance (bytes). */
const BYTES = 8;
/** How many values of one part have their digests remembered, and how long they may be (UTF-16 units). */
const REMEMBERED = 64;
const LONGEST_REMEMBERED = 256;
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
 * @param texts those of the parts, where they have been made already
 */
export function partDigests(
  parts: KeyParts,
  epochs: CapturedEpochs,
  texts: PartTexts = partTexts(parts, epochs),
): PartDigests {
  const { keySecret } = epochs;
  if (remembered.keySecret !== keySecret) remembered = rememberFor(keySecret);
  let joined = '';
  for (let i = 0; i < KEY_PARTS.length; i += 1) joined += digestOfPart(i, texts[i]);
  // As one text: what was joined would keep a tree of texts alive.
  return Buffer.from(joined, 'latin1').toString('latin1');
}

/**
 * Most parts are the same from one query to the next, and their digests are found in a quarter of the time that it
 * takes to make them.
 */
interface Remembered {
  readonly keySecret: string;
  /** For each part its digests, by its JSON. */
  readonly parts: readonly { readonly front: string; readonly digests: Map<string, string> }[];
}

let remembered = rememberFor('');

function rememberFor(keySecret: string): Remembered {
  return {
    keySecret,
    parts: KEY_PARTS.map(([name]) => ({ front: frontOf(keySecret, name), digests: new Map() })),
  };
}

function digestOfPart(i: number, text: string | undefined): string {
  const part = remembered.parts[i];
  if (part === undefined || text === undefined) return ABSENT;
  const { front, digests } = part;
  if (text.length > LONGEST_REMEMBERED) return digest(front, text);
  const found = digests.get(text);
  if (found !== undefined) return found;
  const made = digest(front, text);
  if (digests.size >= REMEMBERED) digests.clear();
  digests.set(text, made);
  return made;
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
  return Buffer.from(digest(frontOf(keySecret, 'token'), JSON.stringify(token)), 'latin1').toString(
    'base64url',
  );
}

/**
 * Keyed by the secret in front, which is enough for a digest that is cut off, and costs a quarter of an HMAC. What is
 * digested begins with the secret, the parts of a key with a block of the HMAC's own: the two never meet.
 */
function digest(front: string, text: string): string {
  return hash('sha256', `${front}${text}]`, 'latin1').slice(0, BYTES);
}

function frontOf(keySecret: string, name: string): string {
  return `${keySecret}\0[${JSON.stringify(name)},`;
}

function digestAt(digests: PartDigests, i: number): string {
  return digests.slice(i * BYTES, (i + 1) * BYTES);
}
