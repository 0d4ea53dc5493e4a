/**
 * npm run size: how large src is, by folder. Code lines are lines that hold more than blanks and comments; sources are
 * formatted, so a comment of several lines begins its line.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const SRC = join(import.meta.dirname, '../src');

const rooms = new Map<string, { files: number; lines: number; code: number }>();
for (const path of readdirSync(SRC, { recursive: true, encoding: 'utf8' })) {
  if (!/\.tsx?$/.test(path)) continue;
  const name = path.includes('/') ? `${path.split('/')[0]}/` : '(files at the top)';
  const room = rooms.get(name) ?? { files: 0, lines: 0, code: 0 };
  const lines = readFileSync(join(SRC, path), 'utf8').trimEnd().split('\n');
  rooms.set(name, {
    files: room.files + 1,
    lines: room.lines + lines.length,
    code: room.code + codeLines(lines),
  });
}

const rows = [...rooms].sort(([, a], [, b]) => b.code - a.code);
const total = { files: 0, lines: 0, code: 0 };
for (const [, { files, lines, code }] of rows) {
  total.files += files;
  total.lines += lines;
  total.code += code;
}
const cell = (value: number | string) => String(value).padStart(8);
console.log(`${'room'.padEnd(20)}${cell('files')}${cell('lines')}${cell('code')}`);
for (const [name, { files, lines, code }] of [...rows, ['all of src', total] as const]) {
  console.log(`${name.padEnd(20)}${cell(files)}${cell(lines)}${cell(code)}`);
}

function codeLines(lines: readonly string[]): number {
  let inComment = false;
  let count = 0;
  for (const line of lines) {
    const text = line.trim();
    const begins = text.startsWith('/*');
    if (!inComment && !begins && text !== '' && !text.startsWith('//')) count += 1;
    if (begins) inComment = true;
    if (text.endsWith('*/')) inComment = false;
  }
  return count;
}
