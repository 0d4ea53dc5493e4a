import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Storage } from '../../../src/storage/sql-storage.ts';
import { createSqliteStorage, type SqliteStorageOptions } from '../../../src/storage/sqlite.ts';

const CHILD = fileURLToPath(new URL('sqlite-child.ts', import.meta.url));

/** A folder for one test, with the storages over files in it. */
export interface SqliteHouse {
  readonly folder: string;
  readonly path: string;
  storage(options?: Partial<SqliteStorageOptions>): Storage;
  close(): Promise<void>;
}

export function sqliteHouse(): SqliteHouse {
  const folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-sqlite-'));
  const path = join(folder, 'gateway.sqlite');
  const storages: Storage[] = [];
  return {
    folder,
    path,
    storage(options) {
      const storage = createSqliteStorage({
        path,
        firstMembers: ['ADMIN'],
        wallClock: Date.now,
        randomBytes,
        onError: (error) => {
          throw error;
        },
        ...options,
      });
      storages.push(storage);
      return storage;
    },
    async close() {
      for (const storage of storages) await storage.close();
      rmSync(folder, { recursive: true });
    },
  };
}

export interface ChildResult {
  readonly lines: readonly string[];
  readonly exit: number | NodeJS.Signals | null;
  readonly stderr: string;
}

/**
 * Runs sqlite-child.ts to its end.
 * @param killedAfter lines after which it is killed with SIGKILL
 * @param fileLimit blocks of 512 bytes that a file may have, beyond which writing fails
 */
export function runChild(
  what: string,
  path: string,
  { killedAfter = Infinity, fileLimit }: { killedAfter?: number; fileLimit?: number } = {},
): Promise<ChildResult> {
  const args = [CHILD, what, path];
  const child =
    fileLimit === undefined
      ? spawn(process.execPath, args)
      : spawn('sh', [
          '-c',
          // Without the signal a write beyond the limit fails, and nothing more.
          `trap '' XFSZ; ulimit -f ${fileLimit}; exec "$@"`,
          'sh',
          process.execPath,
          ...args,
        ]);
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => {
    stdout += chunk.toString();
    if (stdout.split('\n').length > killedAfter) child.kill('SIGKILL');
  });
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      // The last line counts only when it is whole.
      resolve({ lines: stdout.split('\n').slice(0, -1), exit: code ?? signal, stderr });
    });
  });
}
