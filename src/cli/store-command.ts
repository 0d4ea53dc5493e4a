/** What the commands that copy a storage have in common. */

import type { PostgresConfig, SqliteConfig, StorageConfig } from '../config/config.ts';
import { StorageUnavailable } from '../errors.ts';
import type { Storage, StorageRecord } from '../storage/storage.ts';
import { createProgress, type Progress, type ProgressOutput } from './progress.ts';

export interface StoreCommandParts {
  readonly config: StorageConfig;
  readonly createStorage: (config: SqliteConfig | PostgresConfig) => Promise<Storage>;
  /** Standard error: takes progress and complaints. */
  readonly prompts: ProgressOutput;
  /** Milliseconds of a clock that never steps back. */
  readonly now: () => number;
  /** Aborted when the command is asked to stop. */
  readonly stopped: AbortSignal;
}

/**
 * Works with the storage, and closes it.
 * @param work resolves to what was done, in one line
 * @param before what is checked before the storage is opened, which makes it when it is not there
 * @returns the exit status: 0 when it was done, 1 when not; `prompts` then has one line with the reason
 */
export async function runStoreCommand(
  command: string,
  { config, createStorage, prompts, now, stopped }: StoreCommandParts,
  work: (storage: Storage, progress: Progress) => Promise<string>,
  before: () => Promise<void> = async () => {},
): Promise<number> {
  const say = (line: string) =>
    void prompts.write(`mdx-gateway ${command}: ${line.replace(/\s*[\r\n]+\s*/g, ' ')}\n`);
  if (config.driver === 'http') {
    say('storage.driver is http: roles and datasets are at the remote server; run it there');
    return 1;
  }
  const progress = createProgress(command, prompts, now);
  const storage = await createStorage(config);
  try {
    await before();
    await storage.open();
    const done = await work(storage, progress);
    progress.show();
    progress.leave();
    say(done);
    return 0;
  } catch (error) {
    progress.leave();
    say(stopped.aborted ? 'stopped' : reasonOf(error));
    return 1;
  } finally {
    await storage.close();
  }
}

/** Passes records on, and counts each when the next one is asked for: it is dealt with then. */
export async function* countRecords(
  records: AsyncIterable<StorageRecord>,
  progress: Progress,
): AsyncGenerator<StorageRecord, undefined> {
  for await (const record of records) {
    if (record.kind === 'head') progress.expectRecords(record.roles + record.datasets);
    yield record;
    if (record.kind !== 'head') progress.add({ records: 1 });
  }
  return undefined;
}

/** What an operator needs to know of a failure: a storage that is away says why in its cause. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  const message =
    error instanceof StorageUnavailable && error.outcome === 'nothing-done'
      ? 'the storage cannot be reached'
      : error.message;
  return cause instanceof Error && cause.message !== '' ? `${message} (${cause.message})` : message;
}
