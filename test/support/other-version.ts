import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { mutantProgram, type MutantProgram, type Replacement } from '../sim/mutants.ts';

/** What another version of the program may do otherwise with what lies in Redis. */
export type Otherwise = 'key' | 'value';

/** Where the number stands that is raised with every change of it. */
const NUMBERS: Readonly<Record<Otherwise, { readonly file: string; readonly name: string }>> = {
  key: { file: 'cache/key.ts', name: 'KEY_VERSION' },
  value: { file: 'cache/shared-entries.ts', name: 'VERSION' },
};

/** No real version will ever have this number; one byte holds it. */
const OTHER = 250;

/**
 * The program as another version of it: its keys, its values or both are none that this one reads.
 * @throws Error when a number does not stand in its file exactly once
 */
export function otherVersion(differs: readonly Otherwise[]): MutantProgram {
  return mutantProgram(differs.map(replacementOf));
}

function replacementOf(what: Otherwise): Replacement {
  const { file, name } = NUMBERS[what];
  const text = readFileSync(fileURLToPath(new URL(`../../src/${file}`, import.meta.url)), 'utf8');
  const [find] = new RegExp(`^const ${name} = \\d+;$`, 'mu').exec(text) ?? [];
  if (find === undefined) throw new Error(`src/${file} does not say what ${name} is`);
  return { file, find, put: `const ${name} = ${OTHER};` };
}
