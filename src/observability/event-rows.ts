import type { EventOf, EventType, GatewayEvent } from '../common/events.ts';
import type { LogConfig } from './config.ts';

type Level = 'debug' | 'info' | 'warn' | 'error';
export type Labels = Readonly<Record<string, string>>;

/** A counter, or with `buckets` a histogram. `mdx_gateway_` stands before its name. */
export interface Count {
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly string[];
  /** Series that begin at 0: Prometheus sees no increase in a count that begins with 1. */
  readonly zeros?: readonly Labels[];
  readonly buckets?: readonly number[];
}

export interface Move<E> {
  readonly count: Count;
  readonly labels: (event: E) => Labels;
  /** How much is added or observed. A counter with 0 stays as it is. */
  readonly by: (event: E) => number;
}

/** Says what log, metrics and statistics make of one event. */
export interface EventRow<E> {
  readonly level: Level | ((event: E, config: LogConfig) => Level);
  /** Fields of the line. Without it: all of the event but its type, by `fieldsOf`. */
  readonly fields?: (event: E, config: LogConfig) => object;
  /** Message of the line. Without it: the type. */
  readonly message?: (event: E) => string;
  /** Errors are told without their stack: it is not the gateway that failed. */
  readonly withoutStack?: boolean;
  /** Says what a user changed, purged or looked into: the line is dropped last. */
  readonly isAudit?: (event: E) => boolean;
  /** Names what the last hour counts, by kind and name; mostly a word in the place of a reason. */
  readonly noted?: (event: E) => readonly [kind: string, name: string] | undefined;
  readonly moves?: readonly Move<E>[];
  /** Counts that the metrics move by themselves, for speed. */
  readonly summed?: readonly Count[];
}

export type EventRows<T extends EventType = EventType> = {
  readonly [K in T]: EventRow<EventOf<K>>;
};

export function fieldsOf({
  type: _type,
  milliseconds,
  error,
  ...rest
}: Pick<GatewayEvent, 'type'> & { readonly milliseconds?: number; readonly error?: unknown }) {
  return { ...rest, ms: milliseconds && Math.round(milliseconds), err: error };
}

export const asItIs = (event: object) => event;
export const REASON = 'reason';
export const always = () => true;
const noLabels = (): Labels => ({});
const one = () => 1;

export const move = <E>(
  count: Count,
  labels: (event: E) => Labels = noLabels,
  by: (event: NoInfer<E>) => number = one,
): Move<E> => ({ count, labels, by });

export const closed = (
  name: string,
  help: string,
  label: string,
  words: readonly string[],
): Count => ({ name, help, labels: [label], zeros: words.map((word) => ({ [label]: word })) });

/** Counts events by one of their fields, which holds closed words. */
export const byWord = <F extends string>(
  name: string,
  help: string,
  field: F,
  words: readonly string[],
): Move<Readonly<Record<F, string>>> => ({
  count: closed(name, help, field, words),
  labels: ({ [field]: word }) => ({ [field]: word }),
  by: one,
});

export const bySeconds = (name: string, help: string, buckets: readonly number[]) =>
  move<{ readonly milliseconds: number }>(
    { name, help, buckets },
    noLabels,
    ({ milliseconds }) => milliseconds / 1000,
  );
