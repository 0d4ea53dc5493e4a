import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { formatTable } from '../../../../src/demo/demo.ts';

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
