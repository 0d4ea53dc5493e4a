import { once } from 'node:events';
import type { Worker } from 'node:worker_threads';
import { inTime } from '../common/clock.ts';
import { StorageUnavailable } from '../common/errors.ts';
import { type Dialect, OperatorError, type Row, type Session, type Value } from './sql-database.ts';
import type { Call, Failure, Reply } from './sqlite-worker.ts';

/** How long a statement may take. Only a disk that hangs takes so long. */
const LONGEST_STATEMENT_MS = 60_000;

/** Another process held its lock too long. */
export class Busy extends StorageUnavailable {}

export type Connection = ReturnType<typeof startConnection>;

/**
 * A connection to the file in a thread of its own. Its statements are run one after another. While none waits for it,
 * the thread does not keep the process.
 */
export function startConnection(
  worker: Worker,
  path: string,
  dialect: Dialect,
  onError: (error: unknown) => void,
) {
  let waits = false;
  let closing = false;
  /** Aborted when the thread has broken down. */
  const end = new AbortController();
  const fail = (error: unknown) => {
    if (!end.signal.aborted && !waits && !closing) onError(error);
    end.abort(error);
  };
  worker.on('error', fail);
  const exit = new Promise<void>((resolve) => {
    worker.once('exit', (code) => {
      fail(new Error(`the thread of the storage ended with code ${code}`));
      resolve();
    });
  });

  async function ask(text: string, values?: readonly Value[]): Promise<readonly Row[]> {
    if (end.signal.aborted) throw new StorageUnavailable('nothing-done', end.signal.reason);
    const answer = once(worker, 'message', { signal: end.signal });
    waits = true;
    worker.ref();
    worker.postMessage({ text, values } as Call, (values ?? []).flatMap(givenAway));
    let reply: Reply;
    try {
      [reply] = (await inTime(answer, LONGEST_STATEMENT_MS, diskHangs)) as [Reply];
    } catch (error) {
      end.abort(error);
      void worker.terminate();
      const outcome = text === 'COMMIT' ? 'unknown' : 'nothing-done';
      throw new StorageUnavailable(outcome, end.signal.reason);
    } finally {
      waits = false;
      if (!closing) worker.unref();
    }
    if ('failure' in reply) throw errorOf(reply, path);
    return reply.rows;
  }

  const rows: Session['rows'] = (text, values = []) => ask(text, values);
  const script = async (text: string) => void (await ask(text));
  return {
    session: { dialect, rows, script } satisfies Session,
    /** Whether it can no longer be used; what was not committed is undone. */
    hasEnded: () => closing || end.signal.aborted,
    close() {
      closing = true;
      worker.ref();
      worker.postMessage({} satisfies Call, []);
      return exit;
    },
  };
}

function errorOf({ failure, cause }: Failure, path: string): unknown {
  if (failure === 'bug') return cause;
  if (failure === 'busy') return new Busy('nothing-done', cause);
  if (failure !== 'operator') return new StorageUnavailable(failure, cause);
  return new OperatorError(`storage.path: ${path} ${(cause as Error).message}`);
}

/** A document, which is copied for the thread; all other bytes are buffers of Node.js. */
const givenAway = (value: Value): ArrayBuffer[] =>
  value instanceof Uint8Array && !Buffer.isBuffer(value) ? [value.buffer as ArrayBuffer] : [];

const diskHangs = () => new Error('the disk hangs');
