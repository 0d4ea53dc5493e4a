import { randomUUID } from 'node:crypto';
import { createReadStream, existsSync, lstatSync, statSync } from 'node:fs';
import { rename, rm, writeFile } from 'node:fs/promises';
import { addAbortSignal, type Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { StorageUnavailable } from '../common/errors.ts';
import type { PostgresConfig, SqliteConfig, StorageConfig } from '../storage/config.ts';
import { fromLines, toLines } from '../storage/dump.ts';
import type { StorageRecord } from '../storage/sql-database.ts';
import type { Storage } from '../storage/sql-storage.ts';

export interface StoreCommandParts {
  readonly config: StorageConfig;
  readonly createStorage: (config: SqliteConfig | PostgresConfig) => Promise<Storage>;
  /** Used where no file is named. */
  readonly input: Readable;
  readonly output: Writable;
  readonly prompts: { readonly isTTY?: boolean | undefined; write(text: string): unknown };
  /** Monotonic milliseconds. */
  readonly now: () => number;
  readonly stopped: AbortSignal;
}

/** Writes everything in the storage, of one moment; gateways may use it meanwhile. */
export function exportStore(file: string | undefined, parts: StoreCommandParts): Promise<number> {
  const { config, output, stopped } = parts;
  return runStoreCommand('export-store', parts, async (storage, progress) => {
    // The driver would make it, and nothing would show that nothing was exported.
    if (config.driver === 'sqlite' && !existsSync(config.path)) {
      throw new Error(`storage.path: ${config.path} does not exist, so there is nothing to export`);
    }
    await storage.open();
    const records = counted(storage.dump(), countRecord(progress));
    const lines = counted(toLines(records), ({ length: bytes }) => {
      stopped.throwIfAborted();
      progress.add({ bytes });
    });
    await (file === undefined ? pipeline(lines, output) : writeNewFile(file, lines));
    return `written to ${file ?? 'standard output'}`;
  });
}

/** Fills a storage that is still empty from an export, with all of it or with nothing. */
export function importStore(file: string | undefined, parts: StoreCommandParts): Promise<number> {
  return runStoreCommand('import-store', parts, async (storage, progress) => {
    await storage.open();
    if (file !== undefined) progress.expect({ bytes: sizeOf(file) });
    const input = file === undefined ? parts.input : createReadStream(file);
    addAbortSignal(parts.stopped, input);
    const read = counted<Uint8Array>(input, ({ length }) => progress.add({ bytes: length }));
    await storage.restore(counted(fromLines(read), countRecord(progress)));
    return 'everything is imported; now clear the cache of the gateways that serve this storage (clearCache)';
  });
}

/** @param work opens the storage, and resolves to a line that says what was done */
async function runStoreCommand(
  command: string,
  { config, createStorage, prompts, now, stopped }: StoreCommandParts,
  work: (storage: Storage, progress: Progress) => Promise<string>,
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
    const done = await work(storage, progress);
    progress.end(true);
    say(done);
    return 0;
  } catch (error) {
    progress.end(false);
    say(stopped.aborted ? 'stopped' : reasonOf(error as Error));
    return 1;
  } finally {
    await storage.close();
  }
}

/** The file appears when it is whole, and only its owner may read it. */
async function writeNewFile(file: string, lines: AsyncIterable<Buffer>): Promise<void> {
  refuseExisting(file);
  const temporary = `${file}.${randomUUID()}.part`;
  try {
    await writeFile(temporary, lines, { flag: 'wx', mode: 0o600, flush: true });
    refuseExisting(file);
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

function refuseExisting(file: string): void {
  const isThere = lstatSync(file, { throwIfNoEntry: false }) !== undefined;
  if (isThere) throw new Error(`${file} exists already; name a new file`);
}

function sizeOf(file: string): number {
  const stats = statSync(file, { throwIfNoEntry: false });
  if (stats === undefined) throw new Error(`${file} does not exist`);
  return stats.size;
}

/** Counts each item when the next one is asked for, since it is dealt with then. */
async function* counted<T>(items: AsyncIterable<T>, count: (item: T) => void) {
  for await (const item of items) {
    yield item;
    count(item);
  }
}

const countRecord = (progress: Progress) => (record: StorageRecord) => {
  if (record.kind === 'head') progress.expect({ records: record.roles + record.datasets });
  else progress.add({ records: 1 });
};

/** A storage that is away says why in its cause. */
function reasonOf(error: Error): string {
  const { message, cause } = error;
  const isAway = error instanceof StorageUnavailable && error.outcome === 'nothing-done';
  const said = isAway ? 'the storage cannot be reached' : message;
  return cause instanceof Error && cause.message !== '' ? `${said} (${cause.message})` : said;
}

type Prompts = StoreCommandParts['prompts'];
type Amounts = Readonly<{ records?: number; bytes?: number }>;
type Progress = ReturnType<typeof createProgress>;

export function createProgress(command: string, output: Prompts, now: () => number) {
  const terminal = output.isTTY === true;
  /** Milliseconds; a terminal's line is rewritten, but a log should not be filled. */
  const every = terminal ? 100 : 5_000;
  const done = { records: 0, bytes: 0 };
  let total: Amounts = {};
  let last = now();
  let shown = false;

  function show(): void {
    const records = `${done.records}${of(total.records)} records`;
    const bytes = `${mebibytes(done.bytes)}${of(total.bytes, mebibytes)} MiB`;
    const line = `mdx-gateway ${command}: ${records}, ${bytes}`;
    // No line is shorter than the one that it covers: all numbers grow.
    output.write(terminal ? `\r${line}` : `${line}\n`);
    shown = true;
    last = now();
  }

  return {
    expect: (what: Amounts) => void (total = { ...total, ...what }),
    add({ records = 0, bytes = 0 }: Amounts): void {
      done.records += records;
      done.bytes += bytes;
      if (now() - last >= every) show();
    },
    /** Leaves the line, so that something else can be written. */
    end(isDone: boolean): void {
      if (isDone) show();
      if (terminal && shown) output.write('\n');
    },
  };
}

const of = (total: number | undefined, inWords: (amount: number) => string = String) =>
  total === undefined ? '' : ` of ${inWords(total)}`;
const mebibytes = (bytes: number) => (bytes / 1024 / 1024).toFixed(1);
