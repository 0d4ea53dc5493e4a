import { describe, expect, test } from '@jest/globals';
import { readOrder } from '../../../bench/arguments.ts';
import { figureOf, ratioOf } from '../../../bench/figures.ts';
import { plotOf } from '../../../bench/plot.ts';
import { isMet, type BenchReport, type Row } from '../../../bench/report.ts';
import { markdownTable, scenarioText } from '../../../bench/table.ts';

describe('figures of a benchmark', () => {
  test('are the median of their rounds, with the least and the most beside it', () => {
    expect(figureOf([5, 1, 3])).toEqual({ median: 3, least: 1, most: 5, values: [5, 1, 3] });
    expect(figureOf([4, 1, 3, 2]).median).toBe(2.5);
  });

  test('are refused where nothing was measured', () => {
    expect(() => figureOf([])).toThrow('no value was measured');
  });

  test('are compared round by round, so that a slow spell of the machine counts for both', () => {
    const { median, least, most } = ratioOf([90, 45, 9], [100, 50, 10]);
    expect([median, least, most]).toEqual([0.9, 0.9, 0.9]);
  });

  test('of one that was measured in fewer rounds are compared in those', () => {
    expect(ratioOf([10], [20, 5, 5]).values).toEqual([0.5]);
  });
});

const row = (value: number, most?: number): Row => ({
  title: 'memory hit <2 KB>',
  unit: '× bare',
  figure: figureOf([value]),
  ...(most !== undefined && { most }),
});

describe('the guard', () => {
  test.each([
    [1.11, 1.1, false],
    [1.1, 1.1, true],
  ])('%d where %d is the most: %j', (value, most, met) => {
    expect(isMet(row(value, most))).toBe(met);
  });

  test('says nothing of what is held against nothing', () => {
    expect(isMet(row(1))).toBeUndefined();
  });
});

const REPORT: BenchReport = {
  machine: { cpu: 'one' },
  settings: { rounds: 1 },
  scenarios: [
    {
      name: 'memory-2k',
      title: 'memory hits',
      seconds: 1,
      compared: 2,
      rows: [row(1.5, 1.1), row(0.9)],
    },
    { name: 'mixed', title: 'mixed', seconds: 1, compared: 0, rows: [], failed: 'no engine' },
  ],
};

test('the table tells figure, what it may be at most and whether it is, and which scenario failed', () => {
  const [, , missed, free, failed] = markdownTable(REPORT).split('\n');
  expect(missed).toContain('| 1.50 × bare | 1.50–1.50 |  | ≤ 1.10 × bare | **no** |');
  expect(free).toContain('| 0.90 × bare | 0.90–0.90 |  |  |  |');
  expect(failed).toContain('| mixed: mixed | failed |');
});

test('the text of a scenario tells why it failed, and how many answers were compared', () => {
  const [measured, failed] = REPORT.scenarios.map(scenarioText);
  expect(measured).toContain('2 answers compared byte by byte');
  expect(failed).toContain('FAILED: no engine');
});

test('the picture has a bar for each row, and text that is XML', () => {
  const svg = plotOf(REPORT);
  expect(svg.match(/<rect [^>]*fill-opacity/g)).toHaveLength(2);
  expect(svg).toContain('memory hit &lt;2 KB>');
});

describe('the command line', () => {
  const known = ['memory-2k', 'mixed'];

  test('takes scenarios and options', () => {
    expect(readOrder(['mixed', '--quick', '--json', 'a.json', '--rounds', '3'], known)).toEqual({
      names: ['mixed'],
      list: false,
      help: false,
      quick: true,
      peers: true,
      source: false,
      json: 'a.json',
      svg: undefined,
      rounds: 3,
      seconds: undefined,
    });
  });

  test.each([
    [['memory'], 'memory is no scenario and no option'],
    [['--json'], '--json needs a value'],
    [['--rounds', '0'], '--rounds needs a whole number from 1 on'],
  ])('refuses %j', (words, message) => {
    expect(() => readOrder(words, known)).toThrow(message);
  });
});
