/** The thread of one connection: node:sqlite waits for the disk, and nobody else shall wait with it. */
import { statSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { StorageUnavailable } from '../../errors.ts';
import { isBusy, OperatorError } from './failures.ts';
import { openDatabase } from './open-database.ts';
import { createOperations, type Operations } from './operations.ts';
import type { Beginning } from './schema.ts';

/** What the thread is started with. */
export interface WorkerSetup {
  readonly path: string;
  readonly beginning: Beginning;
}

/** To the thread. */
export type Call =
  | { readonly close: true }
  | {
      readonly number: number;
      readonly name: keyof Operations;
      readonly args: readonly unknown[];
    };

/** From the thread, one for each call but `close`, after which it ends. */
export type Reply = { readonly number: number } & (
  | { readonly value: unknown }
  | { readonly failure: Failure }
);

export type Failure =
  | {
      readonly kind: 'unavailable';
      readonly outcome: StorageUnavailable['outcome'];
      readonly cause: unknown;
    }
  | { readonly kind: 'operator'; readonly message: string }
  | { readonly kind: 'bug'; readonly error: unknown };

interface Opened {
  readonly database: DatabaseSync;
  readonly operations: Operations;
  /** Which file it is, whatever its name. */
  readonly file: string;
}

/** How long a call waits for the lock of another process (ms). */
const PATIENCE = 1_500;

const { path, beginning } = workerData as WorkerSetup;
const port = parentPort ?? fail('runs as a thread only');
let opened: Opened | undefined;

port.on('message', (call: Call) => {
  const busy = answer(call, PATIENCE);
  if (!busy) return;
  // Who came while this one waited for the lock has waited already.
  for (
    let next = receiveMessageOnPort(port);
    next !== undefined;
    next = receiveMessageOnPort(port)
  ) {
    answer(next.message as Call, 0);
  }
});

/** @returns whether the call failed because another process held its lock for too long */
function answer(call: Call, patience: number): boolean {
  if ('close' in call) {
    close();
    return false;
  }
  const { number, name, args } = call;
  try {
    const { database, operations } = open(patience);
    database.exec(`PRAGMA busy_timeout = ${patience}`);
    const operation = operations[name] as (...args: readonly unknown[]) => unknown;
    const value = operation(...args);
    reply({ number, value }, documentIn(value));
    return false;
  } catch (error) {
    reply({ number, failure: failureOf(error) });
    return error instanceof StorageUnavailable && isBusy(error.cause);
  }
}

function open(patience: number): Opened {
  if (opened?.database.isOpen !== true) {
    const database = openDatabase(path, beginning, patience);
    opened = { database, operations: createOperations(database), file: fileAt(path) };
  } else if (fileAt(path) !== opened.file) {
    // What is written to a file that has no name any more is lost with this process.
    throw new OperatorError(
      `storage.path: ${path} was moved, removed or replaced while it was in use; it must stay, or this program be started again`,
    );
  }
  return opened;
}

function fileAt(path: string): string {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found === undefined ? 'none' : `${found.dev}:${found.ino}`;
}

/** The last connection to close writes everything from the WAL into the file. */
function close(): void {
  try {
    if (opened?.database.isOpen === true) opened.database.close();
  } finally {
    port.close();
  }
}

function reply(message: Reply, transferred: ArrayBuffer[] = []): void {
  port.postMessage(message, transferred);
}

/** A document is handed over, not copied. */
function documentIn(value: unknown): ArrayBuffer[] {
  if (typeof value !== 'object' || value === null || !('document' in value)) return [];
  const { document } = value;
  return document instanceof Uint8Array && document.buffer instanceof ArrayBuffer
    ? [document.buffer]
    : [];
}

function failureOf(error: unknown): Failure {
  if (error instanceof StorageUnavailable) {
    return { kind: 'unavailable', outcome: error.outcome, cause: withCode(error.cause) };
  }
  if (error instanceof OperatorError) return { kind: 'operator', message: error.message };
  return { kind: 'bug', error: withCode(error) };
}

/** Properties of an error do not cross to another thread, its message does. */
function withCode(error: unknown): unknown {
  if (error instanceof Error && 'errcode' in error) {
    error.message = `${error.message} (SQLite ${String(error.errcode)})`;
  }
  return error;
}

function fail(message: string): never {
  throw new Error(message);
}
