/**
 * npm run scatter: how many files of src know a feature, as a measure of what a change of it costs. A file counts when
 * its code, comments aside, holds one of the names by which the feature is known.
 *   node scripts/scatter.ts [FEATURE …] [--list]    only these features; prints the files too
 */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

const ROOT = join(import.meta.dirname, '..');

/** Identifiers, keys and words of each feature, in full; `*` stands for any letters and hyphens. */
const NAMES: Readonly<Record<string, string>> = {
  watch: `Watch Watched Watcher Watchers Watches WatchNote WatchConfig watcher watchers watches watchedIn createWatch*
    watchRules WATCH* watchUrl tryWatch 'watch' watch-state watch-blind watch_* blind isBlind blindTo when_blind whenBlind watchSection`,
  warm: 'warm* Warm* *WarmUp *Warmed *Warm WARM* tellWarming createWarm*',
  hooks: 'hook* Hook* HOOK* *Hook *Hooks',
  cors: 'cors* Cors* CORS* createCors* *Cors preflight* *Preflight',
  compare: `compare comparison Comparison createCompar* Compare* 'compared' compared verdict* Verdict* VERDICT*`,
};
/** Files in which such a name means something else. */
const OTHERWISE: Readonly<Record<string, readonly string[]>> = {
  watch: ['src/common/leases.ts'],
  compare: ['src/auth/users-file.ts', 'src/compose/parts.ts'],
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { list: { type: 'boolean', default: false } },
});
const unknown = positionals.filter((name) => !Object.hasOwn(NAMES, name));
if (unknown.length > 0) {
  const allowed = Object.keys(NAMES).join(', ');
  console.error(`There is no feature ${unknown.join(', ')}; allowed: ${allowed}`);
  process.exit(2);
}

const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((path) => /\.tsx?$/.test(path))
  .map((path) => `src/${path}`)
  .sort();
const codes = new Map(
  sources.map((path) => [path, codeOf(readFileSync(join(ROOT, path), 'utf8'))]),
);

/** Sources are formatted, so that a comment of several lines begins its line. */
function codeOf(text: string): string {
  return text.replaceAll(/^\s*\/\*[\s\S]*?\*\//gm, '').replaceAll(/(?:^|\s)\/\/.*$/gm, '');
}

function patternOf(names: string): RegExp {
  const words = names.split(/\s+/).map((name) => name.replaceAll('*', '[\\w-]*'));
  return new RegExp(`(?<![\\w-])(?:${words.join('|')})(?![\\w-])`);
}

const wanted = positionals.length > 0 ? positionals : Object.keys(NAMES);
const counts = wanted.map((feature) => {
  const pattern = patternOf(NAMES[feature] ?? '');
  const elsewhere = OTHERWISE[feature] ?? [];
  const files = [...codes].flatMap(([path, code]) =>
    pattern.test(code) && !elsewhere.includes(path) ? [path] : [],
  );
  const outside = files.filter((path) => !path.startsWith(`src/features/${feature}/`));
  console.log(`${feature.padEnd(8)} ${files.length} files, ${outside.length} outside its folder`);
  if (values.list) for (const path of outside) console.log(`  ${path}`);
  return outside.length;
});
const sum = counts.reduce((total, count) => total + count, 0);
console.log(`on average ${(sum / counts.length).toFixed(1)} outside`);
