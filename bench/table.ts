import {
  isMet,
  shortNumber,
  spreadText,
  targetText,
  type BenchReport,
  type Row,
  type ScenarioReport,
} from './report.ts';

/** What one scenario found, for the terminal. */
export function scenarioText(scenario: ScenarioReport): string {
  const lines = [`\n## ${scenario.name}: ${scenario.title} (${scenario.seconds.toFixed(0)} s)`];
  if (scenario.failed !== undefined) lines.push(`FAILED: ${scenario.failed}`);
  const { subjects = [], rows, notes = [] } = scenario;
  if (subjects.length > 0) {
    lines.push(
      aligned(
        [
          ['server', 'answers/s', 'spread', 'CPU µs', 'p50 ms', 'p99 ms'],
          ...subjects.map(({ name, perSecond, cpu, p50, p99 }) => [
            name,
            shortNumber(perSecond.median),
            spreadText(perSecond),
            shortNumber(cpu.median),
            shortNumber(p50.median),
            shortNumber(p99.median),
          ]),
        ],
        1,
      ),
    );
  }
  for (const row of rows) {
    const target = row.most === undefined ? '' : `  ${targetText(row)}: ${verdict(row)}`;
    const { figure, unit } = row;
    const byCpu = cpuText(row);
    const cpu = byCpu === '' ? '' : `, by CPU time ${byCpu}`;
    lines.push(
      `- ${row.title}: ${shortNumber(figure.median)} ${unit} (${spreadText(figure)}${cpu})${target}`,
    );
  }
  for (const note of notes) lines.push(`  ${note}`);
  if (scenario.compared > 0) lines.push(`  ${scenario.compared} answers compared byte by byte`);
  return `${lines.join('\n')}\n`;
}

/** All rows as a table in Markdown. */
export function markdownTable({ scenarios }: BenchReport): string {
  const lines = [
    '| scenario | measured | spread | by CPU time | at most | is it |',
    '|---|---|---|---|---|---|',
  ];
  for (const scenario of scenarios) {
    if (scenario.failed !== undefined) {
      lines.push(`| ${scenario.name}: ${scenario.title} | failed | | | | **no** |`);
    }
    for (const row of scenario.rows) {
      const measured = `${shortNumber(row.figure.median)} ${row.unit}`;
      const cells = [
        `${scenario.name}: ${row.title}`,
        measured,
        spreadText(row.figure),
        cpuText(row),
        targetText(row),
        verdict(row),
      ];
      lines.push(`| ${cells.join(' | ')} |`);
    }
  }
  return `${lines.join('\n')}\n`;
}

export function machineText({ machine, settings }: BenchReport): string {
  return [...Object.entries(machine), ...Object.entries(settings)]
    .map(([name, value]) => `${name}: ${value}`)
    .join('\n');
}

function cpuText({ byCpu }: Row): string {
  return byCpu === undefined ? '' : shortNumber(byCpu.median);
}

function verdict(row: Row): string {
  const met = isMet(row);
  if (met === undefined) return '';
  return met ? 'yes' : '**no**';
}

/** Columns from `from` on are numbers, and stand at the right. */
function aligned(lines: readonly (readonly string[])[], from: number): string {
  const widths = (lines[0] ?? []).map((_, column) =>
    Math.max(...lines.map((line) => (line[column] ?? '').length)),
  );
  return lines
    .map((line) =>
      line
        .map((cell, column) =>
          column < from ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
        )
        .join('  '),
    )
    .join('\n');
}
