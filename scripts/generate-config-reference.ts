/**
 * Makes docs/CONFIGURATION.md and config/default.yaml from the schema of the configuration and the comments in it. Run it
 * after every change of a file config.ts in src; a test fails while they differ.
 */

import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { schema } from '../src/config/config.ts';
import { INHERITED, REQUIRED, type Reload, type Setting } from '../src/settings/setting.ts';

type Entry = readonly [name: string, setting: Setting<unknown>];

const sections: readonly Entry[] = Object.entries(schema.keys);

/** The comments before the keys of each declaration, by its name (without Keys at its end) and that of the key. */
const comments = new Map<string, string>();
const sources = fileURLToPath(new URL('../src/', import.meta.url));
for (const path of globSync(['**/config.ts', 'settings/*.ts'], { cwd: sources })) {
  const source = readFileSync(join(sources, path), 'utf8');
  for (const block of source.split(/^(?:export )?(?:const|type|function) /m).slice(1)) {
    const [declared = ''] = block.split(/\W/, 1);
    const owner = declared.replace(/Keys$/, '');
    for (const [, text = '', name] of block.matchAll(/\/\*\*((?:(?!\*\/).)*)\*\/\s*(\w+)[:,]/gs)) {
      comments.set(`${owner}.${name}`, text.replaceAll(/\s+(?:\* )?/g, ' ').trim());
    }
  }
}

/** The last names of a path: a section is declared under the name of its key, and what several have under one of its own. */
function meaningOf(path: string): string {
  const [name = '', outer = 'schema', names = ''] = path.split('.').toReversed();
  const owner = outer === 'NAME' ? names.replace(/s$/, '') : outer;
  const meaning = comments.get(`${owner}.${name}`) ?? comments.get(`tlsFiles.${name}`);
  if (meaning === undefined)
    throw new Error(`No comment in a file config.ts says what ${path} means`);
  return meaning;
}

function defaultText({ fallback, keys }: Setting<unknown>): string {
  if (fallback === REQUIRED) return 'required';
  if (fallback === INHERITED) return 'inherited';
  if (fallback === null) return 'none';
  if (fallback === '') return 'empty';
  if (Array.isArray(fallback) && fallback.length === 0) return 'empty list';
  if (keys) return '';
  return `\`${typeof fallback === 'string' ? fallback : JSON.stringify(fallback)}\``;
}

const RELOAD_TEXTS: Readonly<Record<Reload, string>> = {
  reload: 'yes',
  restart: 'no, restart',
  https: 'yes; between HTTP and HTTPS restart',
};

/** What a section says of itself counts for its keys. */
const reloadOf = ({ reload }: Setting<unknown>, outer: Reload) =>
  reload === 'reload' ? outer : reload;

function rowsOf(entries: readonly Entry[], prefix: string, outer: Reload): string[] {
  return entries.flatMap(([name, setting]) => {
    const { type, allowed, keys, fallback } = setting;
    const reload = reloadOf(setting, outer);
    const cells = keys
      ? ['mapping', defaultText(setting), '', '']
      : [type, defaultText(setting), allowed.replaceAll('|', '\\|'), RELOAD_TEXTS[reload]];
    const row = `| \`${prefix}${name}\` | ${cells.join(' | ')} | ${meaningOf(prefix + name)} |`;
    // An inherited section repeats the keys of the one that it inherits from.
    if (!keys || fallback === INHERITED) return [row];
    return [row, ...rowsOf(Object.entries(keys), `${prefix}${name}.`, reload)];
  });
}

const TABLE_HEAD = [
  '| key | type | default | allowed | reload | meaning |',
  '|---|---|---|---|---|---|',
];

const INTRODUCTION = `# Configuration

<!-- Made by scripts/generate-config-reference.ts from the files config.ts in src. Do not edit. -->

The gateway reads one YAML 1.2 file, named by \`--config\`. Without a file every key has its default.
\`mdx-gateway check --config FILE\` says what is wrong with a file, or prints the configuration in effect.
[config/default.yaml](../config/default.yaml) holds every key with its default; ready examples stand beside it.

- **Unknown keys and wrong types are mistakes.** Each is reported in one line with the path of the key and what is allowed.
- **Durations** are whole numbers with a unit: \`250ms\`, \`30s\`, \`5m\`, \`12h\`, \`2d\`. Only 0 needs no unit.
- **Sizes** are whole numbers of bytes, or whole numbers with a unit: \`64KiB\`, \`256MiB\`, \`1GiB\` (powers of 1024), or \`kB\`, \`MB\`, \`GB\` (powers of 1000).
- **Paths** are relative to the folder of the file, or to the working folder when there is no file.
- **A reload** (SIGHUP) reads the file again, and changes most keys at once. [The last section](#reload) lists those that only a restart changes. If one of these differs in the file, it keeps its old value, and a warning names it.
- **The environment**: \`\${NAME}\` in a value is replaced by the value of that variable, and \`\${NAME:-default}\` by the default when the variable is unset or empty. An unset variable without a default is a mistake. Where a key may be null, so may this default: \`\${NAME:-null}\`. A variable can stand for a text, number, word or boolean, whichever the key takes, but not for a list or a mapping, and its value is not searched for further references. \`$\${\` stands for \`\${\`.
- **Secrets as files**: \`\${file:PATH}\` is replaced by what the file holds, without the line break at its end, under the same rules. Relative paths count from the same folder as all others. A reload reads the file again.
- **Secrets** (passwords, \`cache.key_secret\`, \`cache.redis.url\`, and whatever came from the environment or a file) are never shown in a message.
- YAML anchors, aliases, custom tags, duplicate keys and several documents in one file are refused.
`;

/** Of each section, what a reload changes and what waits; a section that waits as a whole stands for its keys. */
function reloadTable(): string[] {
  const waits = ([name, setting]: Entry): string[] => {
    if (setting.reload === 'restart') return [`\`${name}\``];
    if (setting.reload === 'https') return [`\`${name}\` (between HTTP and HTTPS)`];
    if (setting.type.startsWith('mapping by')) return [];
    return Object.entries(setting.keys ?? {}).flatMap(([key, one]) =>
      waits([`${name}.${key}`, one]),
    );
  };
  const changes = ([name, setting]: Entry): string[] => {
    if (setting.reload === 'restart') return [];
    if (setting.type !== 'mapping' || setting.fallback === null) return [`\`${name}\``];
    return Object.entries(setting.keys ?? {}).flatMap(([key, one]) =>
      changes([`${name}.${key}`, one]),
    );
  };
  const rows = sections.map(
    (entry) => `| ${entry[0]} | ${changes(entry).join(', ')} | ${waits(entry).join(', ')} |`,
  );
  return ['| section | a reload changes | only a restart changes |', '|---|---|---|', ...rows];
}

/** The text of docs/CONFIGURATION.md. */
export function renderConfigReference(): string {
  const parts = sections.flatMap(([name, setting]) => {
    const { type, keys, reload } = setting;
    if (!keys)
      return [`## ${name}`, '', ...TABLE_HEAD, ...rowsOf([[name, setting]], '', reload), ''];
    const prefix = type === 'mapping' ? `${name}.` : `${name}.NAME.`;
    const rows = rowsOf(Object.entries(keys), prefix, reload);
    return [`## ${name}`, '', meaningOf(name), '', ...TABLE_HEAD, ...rows, ''];
  });
  return [INTRODUCTION, ...parts, '## Reload', '', ...reloadTable(), ''].join('\n');
}

const COMMENT_WIDTH = 100;

function commentOf(text: string, indent: string): string[] {
  const lines: string[] = [];
  let line = `${indent}#`;
  for (const word of text.split(' ')) {
    if (line.length + 1 + word.length > COMMENT_WIDTH) {
      lines.push(line);
      line = `${indent}#`;
    }
    line += ` ${word}`;
  }
  return [...lines, line];
}

function yamlOf([path, setting]: Entry, indent: string, outer: Reload): string[] {
  const { type, allowed, fallback, keys } = setting;
  const name = path.replace(/.*\./, '');
  const reload = reloadOf(setting, outer);
  const waits = reload === 'restart' && !keys ? ' Counts at the start only.' : '';
  const comment = commentOf(`${meaningOf(path)}${waits}`, indent);
  if (keys && fallback !== null && type === 'mapping') {
    const lines = Object.entries(keys).flatMap(([key, one]) =>
      yamlOf([`${path}.${key}`, one], `${indent}  `, reload),
    );
    return [...comment, `${indent}${name}:`, ...lines];
  }
  const rule = keys ? [] : commentOf(`${allowed[0]?.toUpperCase()}${allowed.slice(1)}.`, indent);
  // JSON is YAML; only the quotes are changed to those that the formatter of this project wants.
  const value = JSON.stringify(fallback)
    .replace(/^"([a-z0-9][\w.]*)"$/i, '$1')
    .replaceAll('"', "'");
  return [...comment, ...rule, `${indent}${name}: ${value}`];
}

/** The text of config/default.yaml. */
export function renderDefaultYaml(): string {
  const head = [
    '# Every key of the configuration with its default.',
    '# Made by scripts/generate-config-reference.ts from the files config.ts in src. Do not edit; copy it.',
    '# docs/CONFIGURATION.md tells the same as tables, with the keys of single projects.',
  ];
  const parts = sections.map((entry) => yamlOf(entry, '', 'reload').join('\n'));
  return `${[head.join('\n'), ...parts].join('\n\n')}\n`;
}

if (import.meta.main) {
  const folder = new URL('../', import.meta.url);
  writeFileSync(new URL('docs/CONFIGURATION.md', folder), renderConfigReference());
  writeFileSync(new URL('config/default.yaml', folder), renderDefaultYaml());
}
