/** A column of a table. Numbers read best at the right. */
export interface Column {
  readonly title: string;
  readonly align: 'left' | 'right';
}

const ELLIPSIS = '…';

const lengthOf = (text: string): number => Array.from(text).length;

function fit(text: string, width: number, align: Column['align']): string {
  const characters = Array.from(text);
  const shown =
    characters.length > width
      ? characters.slice(0, Math.max(0, width - 1)).join('') + ELLIPSIS
      : text;
  const padding = ' '.repeat(Math.max(0, width - lengthOf(shown)));
  return align === 'left' ? shown + padding : padding + shown;
}

/** Takes from the widest column until all fit into `available`; none gets narrower than one character. */
function shrink(widths: readonly number[], available: number): number[] {
  const result = [...widths];
  let excess = result.reduce((sum, width) => sum + width, 0) - available;
  while (excess > 0) {
    const widest = result.indexOf(Math.max(...result));
    const width = result[widest];
    if (width === undefined || width <= 1) break;
    result[widest] = width - 1;
    excess -= 1;
  }
  return result;
}

/**
 * A table with lines around it, at most `width` characters wide: cells that do not fit are cut. Each row has
 * one text for each column; missing ones are empty. Counts every code point as one place.
 */
export function formatTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width = 100,
): string {
  const natural = columns.map(({ title }, index) =>
    Math.max(lengthOf(title), ...rows.map((row) => lengthOf(row[index] ?? ''))),
  );
  const widths = shrink(natural, width - 3 * columns.length - 1);
  const line = (left: string, middle: string, right: string): string =>
    left + widths.map((cell) => '─'.repeat(cell + 2)).join(middle) + right;
  const cells = (texts: readonly string[]): string => {
    const padded = columns.map(({ align }, index) =>
      fit(texts[index] ?? '', widths[index] ?? 1, align),
    );
    return `│ ${padded.join(' │ ')} │`;
  };
  return [
    line('┌', '┬', '┐'),
    cells(columns.map(({ title }) => title)),
    line('├', '┼', '┤'),
    ...rows.map(cells),
    line('└', '┴', '┘'),
  ].join('\n');
}

/** `0.4 ms`, `37 ms`, `1.24 s`. */
export function formatTime(milliseconds: number): string {
  if (milliseconds < 9.95) return `${milliseconds.toFixed(1)} ms`;
  if (milliseconds < 999.5) return `${milliseconds.toFixed(0)} ms`;
  return `${(milliseconds / 1000).toFixed(2)} s`;
}

/** `890 B`, `19.1 kB`, `5.2 MB`; decimal units. */
export function formatBytes(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  if (bytes < 999_950) return `${(bytes / 1_000).toFixed(1)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}
