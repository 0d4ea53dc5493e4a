import type { PurgeCause, PurgeResult } from '../events.ts';
import type { Stale } from '../invalidation.ts';
import type { PurgeLine, PurgeRecord } from '../query-cache/purge/purge-log.ts';

/* Records, so that a word that is added to the types must be added here. */
const CAUSES: Readonly<Record<PurgeCause, true>> = {
  'clear-cache': true,
  repeat: true,
  change: true,
  statement: true,
};
const RESULTS: Readonly<Record<PurgeResult, true>> = {
  cleared: true,
  'engine-failed': true,
  owed: true,
};

/** Reads a line of the log, which other versions of the gateway may have written. Undefined when it is none. */
export function readPurgeLine(text: string | undefined): PurgeLine | undefined {
  if (text === undefined) return undefined;
  try {
    const said: unknown = JSON.parse(text);
    if (!isObject(said) || typeof said['line'] !== 'string') return undefined;
    const record = recordOf(said['record']);
    return record && { line: said['line'], record };
  } catch {
    return undefined;
  }
}

function recordOf(said: unknown): PurgeRecord | undefined {
  if (!isObject(said)) return undefined;
  const { id, at, principal, cause, result, replicas, waited, engine_calls } = said;
  const scope = scopeOf(said['scope']);
  if (typeof id !== 'string' || typeof principal !== 'string' || scope === undefined)
    return undefined;
  if (!isWord(cause, CAUSES) || !isWord(result, RESULTS)) return undefined;
  if (!isMoment(at) || !isCount(replicas) || !isCount(waited) || !isCount(engine_calls)) {
    return undefined;
  }
  return { id, at, principal, cause, scope, result, replicas, waited, engine_calls };
}

function scopeOf(said: unknown): Stale | undefined {
  if (said === 'everything') return said;
  if (!isObject(said) || typeof said['project'] !== 'string') return undefined;
  return { project: said['project'] };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

function isWord<T extends string>(value: unknown, words: Readonly<Record<T, true>>): value is T {
  return typeof value === 'string' && Object.hasOwn(words, value);
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

/** What a date can hold. */
function isMoment(value: unknown): value is number {
  return isCount(value) && value <= 8.64e15;
}
