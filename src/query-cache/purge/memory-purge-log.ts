import { MAX_PURGES, type PurgeLog, type PurgeRecord } from './purge-log.ts';

/** The log of a gateway that is alone: kept in its memory. */
export function createMemoryPurgeLog(): PurgeLog {
  const purges: PurgeRecord[] = [];
  return {
    async add(record) {
      purges.push(record);
      if (purges.length > MAX_PURGES) purges.shift();
    },
    async latest(most) {
      return { complete: true, purges: latestOf(purges, most) };
    },
  };
}

/** The latest first. @param purges in the order in which they were made, as far as that is known */
export function latestOf(purges: readonly PurgeRecord[], most: number): PurgeRecord[] {
  return purges
    .toReversed()
    .sort((one, other) => other.at - one.at)
    .slice(0, most);
}
