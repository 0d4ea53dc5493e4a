/** How far a long command is, for whoever watches it. */

import type { TextOutput } from './read-password.ts';

/** Standard error. */
export interface ProgressOutput extends TextOutput {
  readonly isTTY?: boolean | undefined;
}

export interface Progress {
  /** How many records there will be. */
  expectRecords(total: number): void;
  /** How many bytes there will be. */
  expectBytes(total: number): void;
  /** Those that came to those before. */
  add(what: { readonly records?: number; readonly bytes?: number }): void;
  /** Says how far it came in the end. */
  show(): void;
  /** Leaves the line, so that something else can be written. */
  leave(): void;
}

/** At most this often (ms): a terminal's line is rewritten, a log should not be filled. */
const EVERY = { terminal: 100, log: 5_000 } as const;

/** @param now milliseconds of a clock that never steps back */
export function createProgress(
  command: string,
  output: ProgressOutput,
  now: () => number,
): Progress {
  const terminal = output.isTTY === true;
  const every = EVERY[terminal ? 'terminal' : 'log'];
  const records = { done: 0, total: undefined as number | undefined };
  const bytes = { done: 0, total: undefined as number | undefined };
  let last = now();
  let shown = false;

  function show(): void {
    const counted = records.total === undefined ? '' : ` of ${records.total}`;
    const sized = bytes.total === undefined ? '' : ` of ${mebibytes(bytes.total)}`;
    const line = `mdx-gateway ${command}: ${records.done}${counted} records, ${mebibytes(bytes.done)}${sized} MiB`;
    // No line is shorter than the one that it covers: all numbers grow.
    output.write(terminal ? `\r${line}` : `${line}\n`);
    shown = true;
    last = now();
  }

  return {
    expectRecords: (total) => (records.total = total),
    expectBytes: (total) => (bytes.total = total),
    add(what) {
      records.done += what.records ?? 0;
      bytes.done += what.bytes ?? 0;
      if (now() - last >= every) show();
    },
    show,
    leave() {
      if (terminal && shown) output.write('\n');
    },
  };
}

const mebibytes = (bytes: number) => (bytes / 1024 / 1024).toFixed(1);
