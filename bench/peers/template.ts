import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Writes a configuration of this folder into another one, its `${NAMES}` filled in. Returns the path.
 * @throws Error when a name has no value
 */
export function writeFilled(
  file: string,
  folder: string,
  values: Readonly<Record<string, string | number>>,
): string {
  const text = readFileSync(join(import.meta.dirname, file), 'utf8');
  const filled = text.replace(/^(?!\s*#).*$/gm, (line) =>
    line.replaceAll(/\$\{([A-Z_0-9]+)\}/g, (_whole, name: string) => {
      const value = values[name];
      if (value === undefined) throw new Error(`${file}: no value for ${name}`);
      return String(value);
    }),
  );
  const path = join(folder, file);
  writeFileSync(path, filled);
  return path;
}
