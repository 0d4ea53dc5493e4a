import { readdirSync } from 'node:fs';

/** The promises of README.md as an operator would try them: a file each. They run in one suite, so that they are quick. */
const own = new Set(['scenarios.test.ts', 'vocabulary.ts']);
for (const file of readdirSync(import.meta.dirname).filter((name) => !own.has(name))) {
  await import(`./${file}`);
}
