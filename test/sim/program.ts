import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const SOURCE = fileURLToPath(new URL('../../src', import.meta.url));

/** Loads one module of the program. @param path below src/ */
export type LoadPart = (path: string) => Promise<unknown>;

/** Loads from a folder of sources: that of this tree, or one that holds a fault. */
export const loadFrom =
  (source = SOURCE): LoadPart =>
  (path) =>
    import(pathToFileURL(join(source, path)).href);
