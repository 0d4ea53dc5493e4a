import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { formatBytes, formatTable, formatTime } from '../../../src/demo/demo.ts';

const COLUMNS = ['Query', 'First'];

const lengths = (table: string): number[] =>
  table.split('\n').map((line) => Array.from(line).length);

describe('a table', () => {
  test('has lines around its cells, words at the left and numbers at the right', () => {
    const rows = [
      ['Sales by country', '1.24 s'],
      ['Stock', '7 ms'],
    ];
    expect(formatTable(COLUMNS, rows)).toBe(
      [
        '┌──────────────────┬────────┐',
        '│ Query            │  First │',
        '├──────────────────┼────────┤',
        '│ Sales by country │ 1.24 s │',
        '│ Stock            │   7 ms │',
        '└──────────────────┴────────┘',
      ].join('\n'),
    );
  });

  test('shows a missing cell as empty', () => {
    expect(formatTable(COLUMNS, [['Only this']])).toContain('│ Only this │       │');
  });

  test('has lines of one width, whatever it holds', () => {
    const cell = fc.string({ unit: 'grapheme-ascii', maxLength: 60 });
    fc.assert(
      fc.property(fc.array(fc.tuple(cell, cell), { maxLength: 8 }), (rows) => {
        expect(new Set(lengths(formatTable(COLUMNS, rows))).size).toBe(1);
      }),
    );
  });

  test('counts a character outside the basic plane as one', () => {
    const table = formatTable(COLUMNS, [['Olives 🫒 of Κρήτη', '7 ms']]);
    expect(new Set(lengths(table)).size).toBe(1);
  });
});

test.each([
  [0, '0.0 ms'],
  [0.44, '0.4 ms'],
  [9.94, '9.9 ms'],
  [9.96, '10 ms'],
  [999.4, '999 ms'],
  [999.6, '1.00 s'],
  [61_234, '61.23 s'],
])('%d milliseconds read as %s', (milliseconds, text) => {
  expect(formatTime(milliseconds)).toBe(text);
});

test.each([
  [0, '0 B'],
  [999, '999 B'],
  [1_000, '1.0 kB'],
  [999_949, '999.9 kB'],
  [999_950, '1.0 MB'],
  [5_234_867, '5.2 MB'],
])('%d bytes read as %s', (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text);
});
