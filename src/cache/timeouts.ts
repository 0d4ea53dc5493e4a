import type { Clock } from '../common/clock.ts';
import { EngineFailure, GatewayError } from '../common/errors.ts';
import type { TimedOutQuery } from '../common/events.ts';
import { createOwnedTable } from '../common/owned-table.ts';

/** Memory of a timeout, from the last one on (ms). */
const REMEMBERED = 60_000;
/** Pause until one request tries again (ms): the engine is asked three times a minute. */
const RETRY = 20_000;
const MAX_QUERIES = 1_000;

/** Monotonic (ms). */
type Remembered = Readonly<{
  query: TimedOutQuery;
  until: number;
  nextTry: number;
  refusal: typeof GatewayError;
}>;

/** Queries that timed out a short time ago. A purge gives them another key, and forgets them so. */
export function createTimeouts(clock: Clock) {
  const queries = createOwnedTable<Remembered>(MAX_QUERIES);
  const counts = ({ until }: Remembered) => until > clock.now();

  function known(key: string): Remembered | undefined {
    const found = queries.get(key);
    return found !== undefined && counts(found) ? found : undefined;
  }

  return {
    refuse(key: string): GatewayError | undefined {
      const found = known(key);
      if (found === undefined) return undefined;
      const left = found.nextTry - clock.now();
      if (left <= 0) return undefined;
      found.query.refused += 1;
      const retryAfter = Math.ceil(left / 1000);
      const message = `The engine has not answered this query in time since ${found.query.since}, and was not asked again; the next try is in ${retryAfter} s.`;
      return new found.refusal('query-times-out', message, { retryAfter });
    },
    note(
      key: string,
      owner: string,
      named: Pick<TimedOutQuery, 'digest' | 'project'>,
      error: GatewayError,
    ): void {
      const since = new Date(clock.wall()).toISOString();
      const query = known(key)?.query ?? { ...named, since, refused: 0 };
      const now = clock.now();
      // Silence in the middle of an answer is no failure of the engine.
      const refusal = error instanceof EngineFailure ? EngineFailure : GatewayError;
      queries.set(key, owner, { query, until: now + REMEMBERED, nextTry: now + RETRY, refusal });
    },
    forget: queries.delete,
    list: (): TimedOutQuery[] =>
      queries
        .values()
        .filter(counts)
        .map(({ query }) => query)
        .toArray(),
  };
}
