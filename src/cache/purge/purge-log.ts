import { type GatewayEvent, PURGE_CAUSES, PURGE_RESULTS } from '../../common/events.ts';

type Purged = Extract<GatewayEvent, { readonly type: 'purged' }>;

/**
 * What is remembered of one purge. A purge that was pending has a second record when it was done at last.
 * `at`: when it was asked for; of one that was pending, when it was done (wall clock, ms).
 */
export type PurgeRecord = Omit<Purged, 'type' | 'why' | 'milliseconds'> & { readonly at: number };

/** So many purges are remembered, the latest. */
export const MAX_PURGES = 1_000;

/**
 * Port: where gateways keep the log that they share, each record a text. Every method rejects when it cannot be reached;
 * then nothing is known of what it did.
 */
export interface PurgeLines {
  /** Adds one, and forgets all but the `most` that were added last. */
  add(line: string, most: number): Promise<void>;
  /** All, oldest first. */
  all(): Promise<readonly string[]>;
}

/** The latest purges of all gateways. Bounded: the oldest are forgotten. */
export type PurgeLog = ReturnType<typeof createPurgeLog>;

/**
 * @param lines the log that gateways share; while it cannot be reached this gateway knows its own purges only. Undefined
 *   where it is alone
 */
export function createPurgeLog(lines?: PurgeLines, onError: (error: unknown) => void = () => {}) {
  const own: PurgeRecord[] = [];

  return {
    /** Never rejects: what cannot be kept where all see it is told on standard output only. */
    async add(record: PurgeRecord): Promise<void> {
      own.push(record);
      if (own.length > MAX_PURGES) own.shift();
      await lines?.add(JSON.stringify(record), MAX_PURGES).catch(onError);
    },
    /**
     * The latest first.
     * @returns `complete` false when those of other gateways could not be read
     */
    async latest(most: number) {
      let complete = true;
      let purges: readonly PurgeRecord[] = own;
      try {
        if (lines) purges = (await lines.all()).flatMap((line) => readPurgeRecord(line) ?? []);
      } catch (error) {
        onError(error);
        complete = false;
      }
      const sorted = purges.toReversed().sort((one, other) => other.at - one.at);
      return { complete, purges: sorted.slice(0, most) };
    },
  };
}

/** What a date can hold (ms). */
const LATEST = 8.64e15;

/** Reads a line of the log, which other versions of the gateway may have written. Undefined when it is none. */
export function readPurgeRecord(line: string): PurgeRecord | undefined {
  try {
    const said = JSON.parse(line) as PurgeRecord;
    const { id, principal, cause, scope, result } = said;
    const texts = [id, principal, scope === 'everything' ? scope : scope.project];
    const counts = [said.at, said.replicas, said.waited, said.engine_calls];
    const isOne =
      texts.every((text) => typeof text === 'string') &&
      counts.every((count) => Number.isFinite(count) && count >= 0 && count <= LATEST) &&
      PURGE_CAUSES.includes(cause) &&
      PURGE_RESULTS.includes(result);
    return isOne ? said : undefined;
  } catch {
    return undefined;
  }
}
