/**
 * Makes docs/CONFIGURATION.md and config/default.yaml from the schema of the configuration. Run it after every
 * change of src/config/schema.ts; a test fails while they differ.
 */

import { writeFileSync } from 'node:fs';
import { z } from 'zod';
import { keyFacts } from '../src/config/leaf.ts';
import type { KeyFacts } from '../src/config/leaf.ts';
import { configSchema } from '../src/config/schema.ts';

interface Entry {
  readonly name: string;
  readonly facts: KeyFacts;
  /** As written in YAML; undefined when the key is required or inherits its value. */
  readonly fallback: string | undefined;
  readonly optional: boolean;
  /** The keys of a section, or of one element of a mapping by name. */
  readonly children: readonly Entry[];
}

type Schema = z.core.$ZodType;

/** Takes the wrappers off until something carries facts, and remembers what they said. */
function readEntry(name: string, schema: Schema): Entry {
  let inner = schema;
  let fallback: string | undefined;
  let optional = false;
  while (!keyFacts.has(inner)) {
    if (inner instanceof z.ZodPrefault) {
      fallback = JSON.stringify(inner.def.defaultValue);
    } else if (inner instanceof z.ZodOptional) {
      optional = true;
    } else {
      throw new TypeError(`${name} carries no facts`);
    }
    inner = inner.def.innerType;
  }
  const facts = keyFacts.get(inner);
  if (facts === undefined) throw new TypeError(`${name} carries no facts`);
  return { name, facts, fallback, optional, children: childrenOf(inner) };
}

function childrenOf(schema: Schema): readonly Entry[] {
  if (schema instanceof z.ZodNullable) return childrenOf(schema.def.innerType);
  if (schema instanceof z.ZodMap) return childrenOf(schema.def.valueType);
  if (schema instanceof z.ZodPipe) return childrenOf(schema.def.out);
  if (!(schema instanceof z.ZodObject)) return [];
  return Object.entries(schema.def.shape).map(([name, child]) => readEntry(name, child));
}

const sections = readEntry('', configSchema).children;

const isSection = (entry: Entry) => entry.children.length > 0;

function defaultText(entry: Entry): string {
  if (entry.fallback === '""') return 'empty';
  if (entry.fallback === 'null') return 'none';
  if (entry.fallback === '[]') return 'empty list';
  if (entry.fallback !== undefined) return `\`${entry.fallback.replace(/^"(.*)"$/, '$1')}\``;
  return entry.optional ? 'inherited' : 'required';
}

function tableOf(entries: readonly Entry[], prefix: string): string[] {
  const lines = ['| key | type | default | allowed | meaning |', '|---|---|---|---|---|'];
  for (const entry of entries) {
    const { name, facts } = entry;
    const cells = isSection(entry)
      ? ['mapping', entry.fallback === '{}' ? '' : defaultText(entry), '']
      : [facts.type, defaultText(entry), facts.allowed.replaceAll('|', '\\|')];
    lines.push(`| \`${prefix}${name}\` | ${cells.join(' | ')} | ${facts.meaning} |`);
    // An optional section repeats the keys of the one that it inherits from.
    if (isSection(entry) && !entry.optional)
      lines.push(...tableOf(entry.children, `${prefix}${name}.`).slice(2));
  }
  return lines;
}

const INTRODUCTION = `# Configuration

<!-- Made by scripts/generate-config-reference.ts from src/config/schema.ts. Do not edit. -->

The gateway reads one YAML 1.2 file, named by \`--config\`. Without a file every key has its default.
\`mdx-gateway check --config FILE\` says what is wrong with a file, or prints the configuration in effect.
[config/default.yaml](../config/default.yaml) holds every key with its default; ready examples stand beside it.

- **Unknown keys and wrong types are mistakes.** Each is told in one line with the path of the key and what is allowed.
- **Durations** are whole numbers with a unit: \`250ms\`, \`30s\`, \`5m\`, \`12h\`, \`2d\`. Only 0 may stand without one.
- **Sizes** are whole numbers of bytes, or with a unit: \`64KiB\`, \`256MiB\`, \`1GiB\` (of 1024) or \`kB\`, \`MB\`, \`GB\` (of 1000).
- **Paths** are relative to the folder of the file, or to the working folder when there is no file.
- **The environment**: \`\${NAME}\` in a value is replaced by the variable, \`\${NAME:-default}\` by the default when the variable is unset or empty. An unset variable without a default is a mistake. A variable can bring in a text, number, word or boolean, whichever the key wants, but no list, no mapping and no further reference. \`$\${\` stands for \`\${\`.
- **Secrets** (passwords, \`cache.key_secret\`, \`cache.redis.url\`, whatever came from the environment) are never shown in a message.
- YAML anchors, aliases, tags of one's own, duplicate keys and several documents in one file are refused.
`;

/** The text of docs/CONFIGURATION.md. */
export function renderConfigReference(): string {
  const parts = sections.map((entry) => {
    if (!isSection(entry)) return [`## ${entry.name}`, '', ...tableOf([entry], ''), ''];
    const byName = entry.facts.type !== 'mapping';
    const prefix = byName ? `${entry.name}.NAME.` : `${entry.name}.`;
    return [
      `## ${entry.name}`,
      '',
      entry.facts.meaning,
      '',
      ...tableOf(entry.children, prefix),
      '',
    ];
  });
  return [INTRODUCTION, ...parts.flat()].join('\n');
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

function yamlOf(entry: Entry, indent: string): string[] {
  const { name, facts, fallback, children } = entry;
  const comment = commentOf(facts.meaning, indent);
  if (fallback === '{}' && facts.type === 'mapping') {
    const keys = children.flatMap((child) => yamlOf(child, `${indent}  `));
    return [...comment, `${indent}${name}:`, ...keys];
  }
  const allowed = isSection(entry)
    ? []
    : commentOf(`${facts.allowed[0]?.toUpperCase()}${facts.allowed.slice(1)}.`, indent);
  // JSON is YAML; only the quotes are changed to those that the formatter of this project wants.
  const value = (fallback ?? '').replace(/^"([a-z0-9][\w.]*)"$/i, '$1').replaceAll('"', "'");
  return [...comment, ...allowed, `${indent}${name}: ${value}`];
}

/** The text of config/default.yaml. */
export function renderDefaultYaml(): string {
  const head = [
    '# Every key of the configuration with its default.',
    '# Made by scripts/generate-config-reference.ts from src/config/schema.ts. Do not edit; copy it.',
    '# docs/CONFIGURATION.md tells the same as tables, with the keys of single projects.',
  ];
  const parts = sections.map((entry) => yamlOf(entry, '').join('\n'));
  return `${[head.join('\n'), ...parts].join('\n\n')}\n`;
}

if (import.meta.main) {
  const folder = new URL('../', import.meta.url);
  writeFileSync(new URL('docs/CONFIGURATION.md', folder), renderConfigReference());
  writeFileSync(new URL('config/default.yaml', folder), renderDefaultYaml());
}
