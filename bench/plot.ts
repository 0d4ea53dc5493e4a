import { isMet, shortNumber, targetText, type BenchReport, type Row } from './report.ts';

const WIDTH = 1000;
const LABELS = 420;
const BAR = 14;
const LINE = 20;
const HEADING = 34;
/** Where the target of a row stands, as a share of the room for bars, so that all targets are one line. */
const TARGET_AT = 0.55;

const COLOURS = { met: '#2e7d32', missed: '#c62828', free: '#607d8b' } as const;

/**
 * The rows as an SVG picture: a group of bars for each scenario. A bar is measured against its own target, which
 * is one line from top to bottom, and the side of the line that is good is marked by colour; bars without a
 * target are measured against 1, or against the longest of their group.
 */
export function plotOf({ machine, scenarios }: BenchReport): string {
  const parts: string[] = [];
  let y = HEADING;
  for (const { name, title, rows, failed } of scenarios) {
    parts.push(
      text(8, y + 16, `${name}: ${title}${failed === undefined ? '' : ' (failed)'}`, 'bold'),
    );
    y += LINE + 4;
    for (const row of rows) {
      parts.push(bar(row, rows, y));
      y += LINE;
    }
    y += 8;
  }
  const targets = LABELS + (WIDTH - LABELS) * TARGET_AT;
  const line = `<line x1="${targets}" y1="${HEADING}" x2="${targets}" y2="${y}" stroke="#000" stroke-dasharray="4 3"/>`;
  const heading = text(8, 20, Object.values(machine).join(' · '));
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${y + 10}" font-family="sans-serif" font-size="12">` +
    `<rect width="100%" height="100%" fill="#fff"/>\n${[heading, ...parts, line].join('\n')}\n</svg>\n`
  );
}

function bar(row: Row, group: readonly Row[], y: number): string {
  const met = isMet(row);
  const colour = met === undefined ? COLOURS.free : met ? COLOURS.met : COLOURS.missed;
  const room = WIDTH - LABELS;
  const length = (value: number) => Math.min(1, (value / scaleOf(row, group)) * TARGET_AT) * room;
  const { least, most, median } = row.figure;
  const middle = y + BAR / 2;
  const told = [`${shortNumber(median)} ${row.unit}`, targetText(row)].filter((one) => one !== '');
  return [
    text(24, y + 11, row.title),
    `<rect x="${LABELS}" y="${y}" width="${length(median).toFixed(1)}" height="${BAR}" fill="${colour}" fill-opacity="0.75"/>`,
    `<line x1="${(LABELS + length(least)).toFixed(1)}" y1="${middle}" x2="${(LABELS + length(most)).toFixed(1)}" y2="${middle}" stroke="#000"/>`,
    text(LABELS + 4, y + 11, told.join('  ')),
  ].join('');
}

/** The value that lies on the line of targets. */
function scaleOf({ most, unit }: Row, group: readonly Row[]): number {
  if (most !== undefined) return most;
  if (unit.startsWith('×')) return 1;
  return Math.max(...group.filter((row) => row.unit === unit).map((row) => row.figure.median));
}

function text(x: number, y: number, content: string, weight = 'normal'): string {
  const escaped = content.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  return `<text x="${x}" y="${y}" font-weight="${weight}">${escaped}</text>`;
}
