import type { Figure } from './figures.ts';

/** One server under one load. */
export interface SubjectReport {
  readonly name: string;
  /** Answers a second, as the client counted them. */
  readonly perSecond: Figure;
  /** CPU time of all its processes for one answer (µs). */
  readonly cpu: Figure;
  /** Until the last byte of an answer (ms). */
  readonly p50: Figure;
  readonly p99: Figure;
}

/** One line of the table. */
export interface Row {
  readonly title: string;
  /** What the figure is counted in: `× bare`, `ms`, `KiB`. */
  readonly unit: string;
  readonly figure: Figure;
  /** The same ratio by CPU time for one answer, which other load on the machine disturbs less. */
  readonly byCpu?: Figure;
  /** What it may be at most. */
  readonly most?: number;
}

export interface Findings {
  readonly subjects?: readonly SubjectReport[];
  readonly rows: readonly Row[];
  /** What a reader must know beside the figures: counts, versions, settings. */
  readonly notes?: readonly string[];
}

export interface ScenarioReport extends Findings {
  readonly name: string;
  readonly title: string;
  readonly seconds: number;
  /** Answers that were compared byte by byte with what the engine says. */
  readonly compared: number;
  /** Why there is no figure. */
  readonly failed?: string;
}

export interface BenchReport {
  readonly machine: Readonly<Record<string, string | number>>;
  readonly settings: Readonly<Record<string, string | number | boolean>>;
  readonly scenarios: readonly ScenarioReport[];
}

/** Undefined where nothing was promised. */
export const isMet = ({ figure, most }: Row): boolean | undefined =>
  most === undefined ? undefined : figure.median <= most;

export const targetText = ({ most, unit }: Row): string =>
  most === undefined ? '' : `≤ ${shortNumber(most)} ${unit}`;

/** Three digits, whatever the size. */
export function shortNumber(value: number): string {
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en-US');
  return Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export function spreadText({ least, most }: Figure): string {
  return `${shortNumber(least)}–${shortNumber(most)}`;
}
