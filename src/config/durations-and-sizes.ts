/** How the configuration spells spans of time and amounts of bytes. */

interface Unit {
  readonly suffix: string;
  readonly factor: number;
}

/** Milliseconds, from the largest unit to the smallest. */
const DURATION_UNITS: readonly Unit[] = [
  { suffix: 'd', factor: 86_400_000 },
  { suffix: 'h', factor: 3_600_000 },
  { suffix: 'm', factor: 60_000 },
  { suffix: 's', factor: 1000 },
  { suffix: 'ms', factor: 1 },
];

/** Bytes. The units of two that `formatSize` writes stand first. */
const SIZE_UNITS: readonly Unit[] = [
  { suffix: 'GiB', factor: 1024 ** 3 },
  { suffix: 'MiB', factor: 1024 ** 2 },
  { suffix: 'KiB', factor: 1024 },
  { suffix: 'GB', factor: 1000 ** 3 },
  { suffix: 'MB', factor: 1000 ** 2 },
  { suffix: 'kB', factor: 1000 },
];

const WRITTEN_SIZE_UNITS = SIZE_UNITS.filter(({ suffix }) => suffix.endsWith('iB'));

const AMOUNT = /^(\d{1,16})([A-Za-z]*)$/;

function readAmount(text: string, units: readonly Unit[], bare: number | undefined) {
  const [, digits, suffix] = AMOUNT.exec(text) ?? [];
  if (digits === undefined) return undefined;
  const amount = Number(digits);
  const factor =
    suffix === '' ? bare : units.find((candidate) => candidate.suffix === suffix)?.factor;
  if (factor === undefined) return amount === 0 && suffix === '' ? 0 : undefined;
  return Number.isSafeInteger(amount * factor) ? amount * factor : undefined;
}

function writeAmount(amount: number, units: readonly Unit[]): string {
  const unit = units.find(({ factor }) => amount >= factor && amount % factor === 0);
  return unit === undefined ? String(amount) : `${amount / unit.factor}${unit.suffix}`;
}

/**
 * Reads a whole number with one of the units `ms`, `s`, `m`, `h`, `d`. Only 0 may stand without a unit,
 * because a bare 30 might mean seconds or minutes.
 * @returns milliseconds; undefined when the text is no duration, or too large to be exact.
 */
export function parseDuration(text: string): number | undefined {
  return readAmount(text, DURATION_UNITS, undefined);
}

/** Writes whole milliseconds in the largest unit that keeps them exact, as `parseDuration` reads it. */
export function formatDuration(milliseconds: number): string {
  return writeAmount(milliseconds, DURATION_UNITS);
}

/**
 * Reads a whole number of bytes, bare or with one of the units `KiB`, `MiB`, `GiB` (of 1024) or `kB`, `MB`,
 * `GB` (of 1000). The spelling counts: `KB` and `mb` are refused, because people mean different things by them.
 * @returns bytes; undefined when the text is no size, or too large to be exact.
 */
export function parseSize(text: string): number | undefined {
  return readAmount(text, SIZE_UNITS, 1);
}

/** Writes whole bytes in the largest unit of 1024 that keeps them exact, as `parseSize` reads it. */
export function formatSize(bytes: number): string {
  return writeAmount(bytes, WRITTEN_SIZE_UNITS);
}
