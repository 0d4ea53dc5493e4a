/** A column of a table. Numbers read best at the right. */
export interface Column {
  readonly title: string;
  readonly align: 'left' | 'right';
}

const lengthOf = (text: string): number => Array.from(text).length;

/**
 * A table with lines around it. Each row has one text for each column; missing ones are empty. Counts every code point
 * as one place.
 */
export function formatTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
): string {
  const widths = columns.map(({ title }, index) =>
    Math.max(lengthOf(title), ...rows.map((row) => lengthOf(row[index] ?? ''))),
  );
  const line = (left: string, middle: string, right: string): string =>
    left + widths.map((width) => '─'.repeat(width + 2)).join(middle) + right;
  const cells = (texts: readonly string[]): string => {
    const padded = columns.map(({ align }, index) => {
      const text = texts[index] ?? '';
      const padding = ' '.repeat((widths[index] ?? 0) - lengthOf(text));
      return align === 'left' ? text + padding : padding + text;
    });
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
