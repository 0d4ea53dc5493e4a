/** The command that fills an empty storage from a file. */

import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { addAbortSignal, type Readable } from 'node:stream';
import { fromLines } from '../storage/dump-lines.ts';
import type { Progress } from './progress.ts';
import { countRecords, runStoreCommand, type StoreCommandParts } from './store-command.ts';

export interface ImportStoreParts extends StoreCommandParts {
  /** Standard input; read when no file is named. */
  readonly input: Readable;
}

/**
 * Reads what export-store wrote, from a file or from `input`, into a storage that holds nothing yet. Either all
 * of it is there afterwards, or nothing.
 * @returns the exit status, as {@link runStoreCommand}
 */
export function importStore(file: string | undefined, parts: ImportStoreParts): Promise<number> {
  return runStoreCommand('import-store', parts, async (storage, progress) => {
    const input = file === undefined ? parts.input : await openFile(file, progress);
    addAbortSignal(parts.stopped, input);
    const records = fromLines(countBytes(input, progress));
    await storage.restore(countRecords(records, progress));
    return 'everything is imported; a gateway that serves this storage must now be told to clear its cache (clearCache)';
  });
}

async function openFile(file: string, progress: Progress): Promise<Readable> {
  const { size } = await stat(file).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'ENOENT' ? new Error(`${file} does not exist`) : error;
  });
  progress.expectBytes(size);
  return createReadStream(file);
}

async function* countBytes(
  chunks: AsyncIterable<Uint8Array>,
  progress: Progress,
): AsyncGenerator<Uint8Array, undefined> {
  for await (const chunk of chunks) {
    progress.add({ bytes: chunk.length });
    yield chunk;
  }
  return undefined;
}
