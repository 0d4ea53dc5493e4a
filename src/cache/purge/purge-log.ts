import { type GatewayEvent, PURGE_CAUSES, PURGE_RESULTS } from '../../common/events.ts';

type Purged = Extract<GatewayEvent, { readonly type: 'purged' }>;
/** `at`: when asked for, or, if it was pending, done (wall clock, ms). */
export type PurgeRecord = Omit<Purged, 'type' | 'milliseconds'> & { readonly at: number };
export const MAX_PURGES = 1_000;

/** Port: the shared log, oldest first. Rejects when it cannot be reached. */
export interface PurgeLines {
  /** Forgets all but the `most` that were added last. */
  add(line: string, most: number): Promise<void>;
  all(): Promise<readonly string[]>;
}

export type PurgeLog = ReturnType<typeof createPurgeLog>;
/** The latest purges: of all gateways while `lines` can be reached. Alone without it. */
export function createPurgeLog(lines?: PurgeLines, onError: (error: unknown) => void = () => {}) {
  const own: PurgeRecord[] = [];

  return {
    async add(record: PurgeRecord): Promise<void> {
      own.push(record);
      if (own.length > MAX_PURGES) own.shift();
      await lines?.add(JSON.stringify(record), MAX_PURGES).catch(onError);
    },
    /** Latest first. `complete`: those of other gateways could be read. */
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

const LATEST = 8.64e15;
/** Undefined for none: another version may have written it. */
export function readPurgeRecord(line: string): PurgeRecord | undefined {
  try {
    const read = JSON.parse(line) as PurgeRecord;
    // Older versions lack it.
    const said = { ...read, known: (read.known as boolean | undefined) ?? true };
    const { id, principal, cause, scope, result } = said;
    const texts = [id, principal, scope === 'everything' ? scope : scope.project];
    const counts = [said.at, said.replicas, said.waited, said.engine_calls];
    const isOne =
      texts.every((text) => typeof text === 'string') &&
      typeof said.known === 'boolean' &&
      counts.every((count) => Number.isFinite(count) && count >= 0 && count <= LATEST) &&
      PURGE_CAUSES.includes(cause) &&
      PURGE_RESULTS.includes(result);
    return isOne ? said : undefined;
  } catch {
    return undefined;
  }
}
