/** The commands that write everything of a storage into a file, and fill an empty storage from it. */

import { randomUUID } from 'node:crypto';
import { createReadStream, existsSync, lstatSync } from 'node:fs';
import { open, rename, rm, stat } from 'node:fs/promises';
import { addAbortSignal, type Readable, type Writable } from 'node:stream';
import type { PostgresConfig, SqliteConfig, StorageConfig } from '../config/config.ts';
import { StorageUnavailable } from '../common/errors.ts';
import { fromLines, toLines } from '../storage/dump.ts';
import type { Storage, StorageRecord } from '../storage/storage.ts';

/** Standard error. */
export interface ProgressOutput {
  readonly isTTY?: boolean | undefined;
  write(text: string): unknown;
}

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
 * Writes the lines of {@link toLines} into a new file, or to `output` (standard output) when no file is named. They
 * hold everything in the storage, of one moment; gateways may use it meanwhile.
 * @returns the exit status, as {@link runStoreCommand}
 */
export function exportStore(
  file: string | undefined,
  parts: StoreCommandParts & { readonly output: Writable },
): Promise<number> {
  const { config, output, stopped } = parts;

  return runStoreCommand('export-store', parts, async (storage, progress) => {
    // The driver would make it, and nothing would show that nothing was exported.
    if (config.driver === 'sqlite' && !existsSync(config.path)) {
      throw new Error(`storage.path: ${config.path} is not there to be exported`);
    }
    await storage.open();
    const records = counted(storage.dump(), countRecord(progress));
    const lines = counted(toLines(records), ({ length }) => {
      stopped.throwIfAborted();
      progress.add({ bytes: length });
    });
    if (file === undefined) {
      await writeStream(output, lines);
      return 'written to standard output';
    }
    await writeNewFile(file, lines);
    return `written to ${file}`;
  });
}

/**
 * Reads what export-store wrote, from a file, or from `input` (standard input) when none is named, into a storage that
 * holds nothing yet. Either all of it is there afterwards, or nothing.
 * @returns the exit status, as {@link runStoreCommand}
 */
export function importStore(
  file: string | undefined,
  parts: StoreCommandParts & { readonly input: Readable },
): Promise<number> {
  return runStoreCommand('import-store', parts, async (storage, progress) => {
    await storage.open();
    const input = file === undefined ? parts.input : await openFile(file, progress);
    addAbortSignal(parts.stopped, input);
    const chunks: AsyncIterable<Uint8Array> = input;
    const read = counted(chunks, ({ length }) => progress.add({ bytes: length }));
    await storage.restore(counted(fromLines(read), countRecord(progress)));
    return 'everything is imported; a gateway that serves this storage must now be told to clear its cache (clearCache)';
  });
}

/**
 * Works with the storage, and closes it.
 * @param work opens the storage, and resolves to what was done, in one line
 * @returns the exit status: 0 when it was done, 1 when not; `prompts` then has one line with the reason
 */
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

/** The file is there when it is whole, and only its owner may read it. */
async function writeNewFile(file: string, lines: AsyncIterable<Buffer>): Promise<void> {
  refuseExisting(file);
  const temporary = `${file}.${randomUUID()}.part`;
  const handle = await open(temporary, 'wx', 0o600);
  try {
    try {
      await handle.writeFile(lines);
      await handle.sync();
    } finally {
      await handle.close();
    }
    refuseExisting(file);
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

function refuseExisting(file: string): void {
  if (lstatSync(file, { throwIfNoEntry: false }) === undefined) return;
  throw new Error(`${file} exists already; name a new file`);
}

/** Failures come to the callbacks of writes; without a listener they would end the process as well. */
const ignore = () => {};

/** Each line waits until the one before it is on its way. */
async function writeStream(output: Writable, lines: AsyncIterable<Buffer>): Promise<void> {
  output.on('error', ignore);
  try {
    for await (const line of lines) {
      await new Promise<void>((resolve, reject) => {
        output.write(line, (error) => (error ? reject(error) : resolve()));
      });
    }
  } finally {
    output.off('error', ignore);
  }
}

async function openFile(file: string, progress: Progress): Promise<Readable> {
  const { size } = await stat(file).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'ENOENT' ? new Error(`${file} does not exist`) : error;
  });
  progress.expectBytes(size);
  return createReadStream(file);
}

/** Passes everything on, and counts each when the next one is asked for: it is dealt with then. */
async function* counted<T>(
  items: AsyncIterable<T>,
  count: (item: T) => void,
): AsyncGenerator<T, undefined> {
  for await (const item of items) {
    yield item;
    count(item);
  }
  return undefined;
}

function countRecord(progress: Progress): (record: StorageRecord) => void {
  return (record) =>
    record.kind === 'head'
      ? progress.expectRecords(record.roles + record.datasets)
      : progress.add({ records: 1 });
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

/** How far a long command is. */
export type Progress = ReturnType<typeof createProgress>;

/** At most this often (ms): a terminal's line is rewritten, a log should not be filled. */
const EVERY = { terminal: 100, log: 5_000 } as const;

/** @param now milliseconds of a clock that never steps back */
export function createProgress(command: string, output: ProgressOutput, now: () => number) {
  const terminal = output.isTTY === true;
  const every = EVERY[terminal ? 'terminal' : 'log'];
  const records = { done: 0, total: undefined as number | undefined };
  const bytes = { done: 0, total: undefined as number | undefined };
  let last = now();
  let shown = false;

  function show(): void {
    const counted = records.total === undefined ? '' : ` of ${records.total}`;
    const sized = bytes.total === undefined ? '' : ` of ${mebibytes(bytes.total)}`;
    const line = `mdx-gateway ${command}: ${records.done}${counted} records, ${mebibytes(bytes.done)}${sized} MiB`;
    // No line is shorter than the one that it covers: all numbers grow.
    output.write(terminal ? `\r${line}` : `${line}\n`);
    shown = true;
    last = now();
  }

  return {
    expectRecords: (total: number) => void (records.total = total),
    expectBytes: (total: number) => void (bytes.total = total),
    /** Those that came to those before. */
    add(what: { readonly records?: number; readonly bytes?: number }): void {
      records.done += what.records ?? 0;
      bytes.done += what.bytes ?? 0;
      if (now() - last >= every) show();
    },
    /** Says how far it came in the end. */
    show,
    /** Leaves the line, so that something else can be written. */
    leave(): void {
      if (terminal && shown) output.write('\n');
    },
  };
}

const mebibytes = (bytes: number) => (bytes / 1024 / 1024).toFixed(1);
