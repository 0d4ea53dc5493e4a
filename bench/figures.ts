/** A measured quantity: the median of its rounds and how far they spread. */
export interface Figure {
  readonly median: number;
  readonly least: number;
  readonly most: number;
  readonly values: readonly number[];
}

/** @throws Error without a value: a figure that was not measured must not look like one */
export function figureOf(values: readonly number[]): Figure {
  const sorted = values.toSorted((a, b) => a - b);
  const [least] = sorted;
  const most = sorted.at(-1);
  if (least === undefined || most === undefined) throw new Error('no value was measured');
  const upper = sorted[sorted.length >> 1] ?? most;
  const lower = sorted[(sorted.length - 1) >> 1] ?? least;
  return { median: (lower + upper) / 2, least, most, values };
}

/**
 * Each value by that of the same round: what disturbs the machine for longer than a round disturbs both. Where one side
 * was measured in fewer rounds, the others do not count.
 */
export function ratioOf(values: readonly number[], reference: readonly number[]): Figure {
  const rounds = Math.min(values.length, reference.length);
  return figureOf(
    Array.from(
      { length: rounds },
      (_, round) => (values[round] ?? NaN) / (reference[round] ?? NaN),
    ),
  );
}
