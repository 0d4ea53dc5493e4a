import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** One place of the source, and what stands there instead. */
export interface Replacement {
  /** Below src/. */
  readonly file: string;
  readonly find: string;
  readonly put: string;
}

/** The program with a fault. */
export interface MutantProgram {
  /** The file to run. */
  readonly main: string;
  remove(): void;
}

/**
 * Copies the program and puts a fault into the copy.
 * @throws Error when a text that is to be replaced does not stand in its file exactly once: the source has changed,
 *   and the fault has to be described anew
 */
export function mutantProgram(replacements: readonly Replacement[], root = ROOT): MutantProgram {
  const folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-mutant-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    cpSync(join(root, 'src'), join(folder, 'src'), { recursive: true });
    cpSync(join(root, 'package.json'), join(folder, 'package.json'));
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    for (const { file, find, put } of replacements) {
      const path = join(folder, 'src', file);
      const [before, after, ...more] = readFileSync(path, 'utf8').split(find);
      if (before === undefined || after === undefined || more.length > 0) {
        throw new Error(`src/${file} does not hold this text exactly once:\n${find}`);
      }
      writeFileSync(path, before + put + after);
    }
  } catch (error) {
    remove();
    throw error;
  }
  return { main: join(folder, 'src', 'main.ts'), remove };
}
