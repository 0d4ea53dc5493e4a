import { Counter, type Registry } from 'prom-client';

/** One series of a counter: its labels are known, so that counting is an addition. */
export interface Series {
  /** Counts so much more; also 0, which makes the series appear. @throws RangeError for what is no amount */
  add(amount: number): void;
}

/** A counter whose series are looked up once, or by one look-up for each label. */
export interface Tally {
  /** The series of these values, one for each label, in their order. It appears when something is counted. */
  series(...values: readonly string[]): Series;
}

interface Node {
  readonly next: Map<string, Node>;
  series: (Series & { flush(): void }) | undefined;
}

/**
 * A counter of Prometheus to which counts are handed when it is read. prom-client itself puts the labels together,
 * checks and hashes them with each count.
 * @param name with its prefix
 */
export function createTally(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly string[],
): Tally {
  const root: Node = { next: new Map(), series: undefined };
  const flushes: (() => void)[] = [];
  const counter = new Counter({
    name,
    help,
    labelNames: [...labelNames],
    registers: [registry],
    collect() {
      for (const flush of flushes) flush();
    },
  });

  function createSeries(values: readonly string[]): Series & { flush(): void } {
    const labels = Object.fromEntries(labelNames.map((label, i) => [label, values[i] ?? '']));
    let counted = false;
    let pending = 0;
    return {
      add(amount) {
        if (!(amount >= 0 && amount < Infinity)) throw new RangeError(`no amount: ${amount}`);
        counted = true;
        pending += amount;
      },
      flush() {
        if (!counted) return;
        // Not before it is taken: what is counted twice is worse than what is lost.
        const amount = pending;
        [counted, pending] = [false, 0];
        counter.inc(labels, amount);
      },
    };
  }

  return {
    series(...values) {
      let node = root;
      for (const value of values) {
        let next = node.next.get(value);
        if (next === undefined)
          node.next.set(value, (next = { next: new Map(), series: undefined }));
        node = next;
      }
      if (node.series === undefined) {
        node.series = createSeries(values);
        flushes.push(node.series.flush);
      }
      return node.series;
    },
  };
}
