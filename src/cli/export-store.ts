/** The command that writes everything of a storage into a file. */

import { randomUUID } from 'node:crypto';
import { lstat, open, rename, rm, stat } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { toLines } from '../storage/dump-lines.ts';
import type { Storage } from '../storage/storage.ts';
import type { Progress } from './progress.ts';
import { countRecords, runStoreCommand, type StoreCommandParts } from './store-command.ts';

export interface ExportStoreParts extends StoreCommandParts {
  /** Standard output; takes the lines when no file is named. */
  readonly output: Writable;
}

/**
 * Writes the lines of {@link toLines} into a new file, or to `output`. They hold everything in the storage, of
 * one moment; whoever uses it meanwhile does not notice.
 * @returns the exit status, as {@link runStoreCommand}
 */
export function exportStore(file: string | undefined, parts: ExportStoreParts): Promise<number> {
  const { config, output, stopped } = parts;
  const refuseMistyped = async () => {
    if (config.driver === 'sqlite') await refuseMissing(config.path);
  };
  const work = async (storage: Storage, progress: Progress) => {
    const writeAll = async (write: (line: Buffer) => Promise<void>) => {
      for await (const line of toLines(countRecords(storage.dump(), progress))) {
        stopped.throwIfAborted();
        await write(line);
        progress.add({ bytes: line.length });
      }
    };
    if (file === undefined) {
      await writeStream(output, writeAll);
      return 'written to standard output';
    }
    await writeFile(file, writeAll);
    return `written to ${file}`;
  };
  return runStoreCommand('export-store', parts, work, refuseMistyped);
}

type WriteAll = (write: (line: Buffer) => Promise<void>) => Promise<void>;

/** The file is there when it is whole, and only its owner may read it. */
async function writeFile(file: string, writeAll: WriteAll): Promise<void> {
  await refuseExisting(file);
  const temporary = `${file}.${randomUUID()}.part`;
  const handle = await open(temporary, 'wx', 0o600);
  try {
    try {
      await writeAll((line) => handle.writeFile(line));
      await handle.sync();
    } finally {
      await handle.close();
    }
    await refuseExisting(file);
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** The driver would make it, and nobody would notice that nothing was exported. */
async function refuseMissing(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) throw new Error(`storage.path: ${path} is not there to be exported`);
}

async function refuseExisting(file: string): Promise<void> {
  const found = await lstat(file).catch(() => undefined);
  if (found !== undefined) throw new Error(`${file} exists already; name a new file`);
}

/** Failures come to the callbacks; without a listener they would end the process as well. */
function ignore(): void {}

/** Each line waits until the one before it is on its way. */
async function writeStream(output: Writable, writeAll: WriteAll): Promise<void> {
  output.on('error', ignore);
  try {
    await writeAll(
      (line) =>
        new Promise((resolve, reject) => {
          output.write(line, (error) => (error ? reject(error) : resolve()));
        }),
    );
  } finally {
    output.off('error', ignore);
  }
}
