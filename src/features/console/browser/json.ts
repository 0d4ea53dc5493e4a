/** Answers of /admin (docs/openapi.yaml), by what makes them. */
import type { PurgeRecord } from '../../../cache/purge/purge-log.ts';
import type { SharedStatistics } from '../../statistics/shared-statistics.ts';
import type { WarmUp as Warming } from '../../warm/warm-up.ts';
import type { Compared } from '../../compare/compare.ts';
import type { tellHooks } from '../../hooks/hooks.ts';
import type { createConsole } from '../shown.ts';

type Json<T> = T extends Date
  ? string
  : T extends object
    ? { readonly [Name in keyof T]: Json<T[Name]> }
    : T;
type Told<F extends (...given: never[]) => Promise<unknown>> = Json<Awaited<ReturnType<F>>>;

type Console = ReturnType<typeof createConsole>;
export type Status = Told<Console['status']>;
export type Overview = Told<Console['overview']>;
export type System = Told<Console['system']> & { readonly redis: { readonly mode: string } };
export type Statistics = Told<SharedStatistics['statistics']>;
export type Requests = Told<SharedStatistics['requests']>;
export type Entries = Told<SharedStatistics['entries']>;
export type Purges = Json<{
  complete: boolean;
  purges: readonly (Omit<PurgeRecord, 'at'> & { at: string })[];
}>;
export type WarmUp = Told<Warming['tell']>;
type Texts<Names extends string> = Readonly<Record<Names, string>>;
export type Comparison = Json<Compared>;
export interface Watches {
  readonly watches: readonly (Texts<'project' | 'kind' | 'state' | 'why' | 'signature'> &
    Readonly<Record<'every_ms', number>> &
    Readonly<Record<'seen_at' | 'changed_at' | 'purged_at', string | null>>)[];
  readonly hooks: Told<typeof tellHooks>;
}
export interface Reasons {
  readonly reasons: readonly (Texts<'word' | 'outcome' | 'meaning'> & { remedy?: string })[];
}
