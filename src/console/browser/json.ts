/** What /admin tells (docs/openapi.yaml), by what makes it. */
import type { PurgeRecord } from '../../cache/purge/purge-log.ts';
import type { Compared } from '../../line/compare.ts';
import type { SharedStatistics } from '../../statistics/shared-statistics.ts';
import type { createConsole } from '../overview.ts';
import type { createSystem } from '../system.ts';

/** What is left of a value when it was JSON. */
type Json<T> = T extends Date
  ? string
  : T extends object
    ? { readonly [Name in keyof T]: Json<T[Name]> }
    : T;
type Told<F extends (...given: never[]) => Promise<unknown>> = Json<Awaited<ReturnType<F>>>;

type Console = ReturnType<typeof createConsole>;
export type Status = Told<Console['status']>;
export type Overview = Told<Console['overview']>;
export type System = Told<ReturnType<typeof createSystem>> & {
  readonly redis: Readonly<Record<'state' | 'mode', string>> & {
    readonly why?: string;
    readonly conditions: readonly string[];
  };
  readonly storage: Readonly<Record<'driver' | 'state', string>>;
};
export type Statistics = Told<SharedStatistics['statistics']>;
export type Requests = Told<SharedStatistics['requests']>;
export type Entries = Told<SharedStatistics['entries']>;
export type Purges = Json<{
  complete: boolean;
  purges: readonly (Omit<PurgeRecord, 'at'> & { at: string })[];
}>;
export type Comparison = Json<Compared>;

export interface Reasons {
  readonly reasons: readonly {
    readonly word: string;
    readonly outcome: string;
    readonly meaning: string;
    readonly remedy?: string;
  }[];
}
