import { foldName } from '../fold-name.ts';

/** When a name counts: as a word anywhere, only with `(` behind it, or only with `.` before it. */
export type Where = 'anywhere' | 'called' | 'member';

interface WordRule {
  readonly where: Where;
  readonly fact: 'volatile' | 'mining';
}

/**
 * Names in lower case. `[Date]` and `[Time]` are ordinary dimensions, and so may be an unbracketed Date; the
 * functions are recognised by their parenthesis, with which every name in brackets is one as well: Mondrian
 * calls a function for `[Now]()`.
 */
export const WORDS: ReadonlyMap<string, WordRule> = new Map([
  ['now', { where: 'anywhere', fact: 'volatile' }],
  ['date', { where: 'called', fact: 'volatile' }],
  ['time', { where: 'called', fact: 'volatile' }],
  ['timer', { where: 'anywhere', fact: 'volatile' }],
  ['rnd', { where: 'anywhere', fact: 'volatile' }],
  ['randomize', { where: 'anywhere', fact: 'volatile' }],
  ['currentdatemember', { where: 'anywhere', fact: 'volatile' }],
  ['currentdatememberexact', { where: 'anywhere', fact: 'volatile' }],
  ['currentdatestring', { where: 'anywhere', fact: 'volatile' }],
  ['username', { where: 'anywhere', fact: 'volatile' }],
  ['customdata', { where: 'anywhere', fact: 'volatile' }],
  ['lookupcube', { where: 'anywhere', fact: 'volatile' }],
  ['parameter', { where: 'anywhere', fact: 'volatile' }],
  ['paramref', { where: 'anywhere', fact: 'volatile' }],
  ['prediction', { where: 'anywhere', fact: 'mining' }],
  ['flattened', { where: 'anywhere', fact: 'mining' }],
  ['into', { where: 'anywhere', fact: 'mining' }],
  ['content', { where: 'member', fact: 'mining' }],
  ['cases', { where: 'member', fact: 'mining' }],
  ['sample_cases', { where: 'member', fact: 'mining' }],
  ['dimension_content', { where: 'member', fact: 'mining' }],
  ['pmml', { where: 'member', fact: 'mining' }],
]);

/** Predict, PredictProbability, PredictTimeSeries …: all that begin so are volatile. */
export const PREDICT = 'predict';

/** Functions that read their text as MDX. A text that is put together shows nothing of what it will say. */
export const READS_TEXT: ReadonlySet<string> = new Set([
  'strtovalue',
  'strtoset',
  'strtomember',
  'strtotuple',
]);

/** Lengths from this on are one. No name is so long but those that begin with PREDICT. */
const LONG = 31;

/**
 * For the code of each first letter the lengths, as bits, of the names that are looked for. Few words of a statement
 * are of one of them, so that few are cut out and folded.
 */
const LENGTHS = new Uint32Array(0x80);
for (const name of [...WORDS.keys(), ...READS_TEXT]) note(name, name.length);
for (let length = PREDICT.length; length <= LONG; length += 1) note(PREDICT, length);

function note(name: string, length: number): void {
  for (const first of [name.charCodeAt(0), name.toUpperCase().charCodeAt(0)]) {
    LENGTHS[first] = (LENGTHS[first] ?? 0) | (1 << length);
  }
}

/** Whether a word of ASCII may be a name of this file. @param first the code of its first letter */
export function mayBeWatched(first: number, length: number): boolean {
  return (((LENGTHS[first] ?? 0) >>> Math.min(length, LONG)) & 1) === 1;
}

/** The word, and the ASCII words in it: an engine may end a word where the tokenizer does not. */
export function readings(word: string): readonly string[] {
  // Nearly every word is one of ASCII alone, and there are many.
  if (/^[A-Za-z0-9_]+$/.test(word)) return [word.toLowerCase()];
  return [word, ...word.split(/[^A-Za-z0-9_]+/)].map(foldName);
}
