import { constants, fstatSync, openSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { pino, type DestinationStream } from 'pino';
import type { Clock } from '../common/clock.ts';
import { LINE_FORM } from './log.ts';

/**
 * Bytes of one write at most: so many a pipe takes in one piece, so that lines of several processes do not run into
 * each other (POSIX, PIPE_BUF). A longer line goes by itself.
 */
const MAX_WRITE = 4_096;
/** Bytes of lines that wait at most for a reader that stalls; with audit lines twice as many. */
const ROOM = 1_024 * 1_024;
/** A write that finds no room is tried again so soon, and later and later, but at least so often (ms). */
const FIRST_RETRY = 1;
const LONGEST_RETRY = 100;
/** For so long a process that ends waits for its reader, and looks so often whether it reads (ms). */
const LAST_WAIT = 1_000;
const LAST_PAUSE = 10;

interface Line {
  readonly text: string;
  /** Bytes. */
  readonly size: number;
  readonly audit: boolean;
}

/** Whether a line is dropped last, by its message and its fields. */
type IsAudit = (message: string | undefined, fields: object | undefined) => boolean;

/** As text where it is whole: the system call takes it as it is. */
type Piece = string | Buffer;

/**
 * The standard output, to which lines are written without ever waiting for its reader. Those of one callback of the event
 * loop, which may tell all events of a turn, are written together behind it, in their order. What finds no room waits in
 * memory. Lines for which there is none either are dropped, until half of it is free again; then one line says how many.
 * Audit lines are dropped last. The callback ends before anything can end the process in good order; for the rest there
 * is `onExit`.
 *
 * @param options.write takes text as UTF-8; returns how many bytes it took; throws where it takes none, with the code
 *   EAGAIN if it may later
 * @param options.onExit calls back when the process ends, whatever ends it
 * @param options.pause stands still for so many milliseconds
 */
export function createLogOutput(options: {
  write: (piece: Piece) => number;
  isAudit: IsAudit;
  onExit: (flush: () => void) => void;
  clock: Pick<Clock, 'now'>;
  pause: (milliseconds: number) => void;
}): DestinationStream {
  let queue: Line[] = [];
  /** What is still to be written of the last piece: no line may be dropped of which a part is written. */
  let rest: Buffer | undefined;
  /** Bytes of all that waits. */
  let waiting = 0;
  let dropped = { lines: 0, audit: 0 };
  let planned = false;
  let retry: NodeJS.Timeout | undefined;
  let delay = FIRST_RETRY;

  /** Whatever the level of the log is: what is missing in it is told. */
  const teller = pino({ ...LINE_FORM, base: null }, { write: (text) => put(lineOf(text, true)) });

  const output = {
    // So pino says beside each line what it was made of.
    [Symbol.for('pino.metadata')]: true,
    lastMsg: undefined,
    lastObj: undefined,
    write(text: string) {
      const line = lineOf(text, options.isAudit(output.lastMsg, output.lastObj));
      if (!hasRoom(line)) return drop(line);
      put(line);
      if (retry !== undefined) return;
      if (waiting >= MAX_WRITE) return writeOut();
      if (planned) return;
      planned = true;
      queueMicrotask(() => {
        planned = false;
        if (retry === undefined) writeOut();
      });
    },
  };
  options.onExit(writeLast);
  return output;

  function put(line: Line): void {
    queue.push(line);
    waiting += line.size;
  }

  function hasRoom({ audit, size }: Line): boolean {
    // What is dropped is missing in one place, where it is told.
    if (!audit) return dropped.lines === 0 && (waiting === 0 || waiting + size <= ROOM);
    if (waiting + size > 2 * ROOM) dropOthers();
    return waiting + size <= 2 * ROOM;
  }

  /** All that waits but audit lines. */
  function dropOthers(): void {
    for (const line of queue) {
      if (line.audit) continue;
      waiting -= line.size;
      drop(line);
    }
    queue = queue.filter(({ audit }) => audit);
  }

  function drop({ audit }: Line): void {
    dropped.lines += 1;
    if (audit) dropped.audit += 1;
  }

  /** The lines that go with the next write. */
  function nextLines(): readonly Line[] {
    let together = 0;
    const end = queue.findIndex(({ size }, index) => {
      together += size;
      return index > 0 && together > MAX_WRITE;
    });
    return end < 0 ? queue : queue.slice(0, end);
  }

  /** Writes what there is room for. @returns why it is not all; undefined when it is */
  function write(): NodeJS.ErrnoException | undefined {
    for (;;) {
      if (dropped.lines > 0 && waiting <= ROOM / 2) {
        const told = dropped;
        dropped = { lines: 0, audit: 0 };
        teller.warn(told, 'log-lines-dropped');
      }
      const lines = rest === undefined ? nextLines() : [];
      const piece = rest ?? lines.map(({ text }) => text).join('');
      if (piece.length === 0) return undefined;
      try {
        const size = lines.reduce((sum, line) => sum + line.size, rest?.length ?? 0);
        const written = options.write(piece);
        waiting -= written;
        queue.splice(0, lines.length);
        rest = written < size ? bytesOf(piece).subarray(written) : undefined;
      } catch (error) {
        return error as NodeJS.ErrnoException;
      }
    }
  }

  /** Whatever the problem is, it may be over later: a disk that is full, a reader that is gone. */
  function writeOut(): void {
    const before = waiting;
    const isDone = write() === undefined;
    delay = isDone || waiting < before ? FIRST_RETRY : Math.min(delay * 2, LONGEST_RETRY);
    if (isDone) return;
    retry = setTimeout(() => {
      retry = undefined;
      writeOut();
    }, delay).unref();
  }

  function writeLast(): void {
    const end = options.clock.now() + LAST_WAIT;
    while (write()?.code === 'EAGAIN' && options.clock.now() < end) options.pause(LAST_PAUSE);
  }
}

const lineOf = (text: string, audit: boolean): Line => ({
  text,
  size: Buffer.byteLength(text),
  audit,
});

const bytesOf = (piece: Piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece);

/** The same to a descriptor. @param onExit calls back when the process ends, whatever ends it */
export function openLogOutput(
  fd: number,
  isAudit: IsAudit,
  onExit: (flush: () => void) => void,
): DestinationStream {
  const still = new Int32Array(new SharedArrayBuffer(4));
  return createLogOutput({
    write: (piece) => writeSync(fd, piece as string),
    isAudit,
    onExit,
    clock: performance,
    pause: (milliseconds) => void Atomics.wait(still, 0, 0, milliseconds),
  });
}

const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants;

/**
 * Has writes to a pipe or a socket fail with EAGAIN where they would wait for its reader. That counts for all
 * processes that share it, and for both outputs where they are one. What a process has as its descriptors 0 to 2 is made
 * blocking again when it starts (`uv_spawn`), and set as it was then when it ends (`ResetStdio` in `node.cc`).
 */
export function unblock(fd: number): void {
  const kind = fstatSync(fd);
  if (!kind.isFIFO() && !kind.isSocket()) return;
  try {
    // `uv_pipe_open` and `uv_tcp_open` do it. It is not used for anything else.
    void new Socket({ fd, readable: false, writable: true });
  } catch {
    // A kind of socket that Node.js does not know stays as it is.
  }
}

/**
 * The same for this process alone, where the system allows it: pipes and terminals in Linux can be opened once more.
 * @returns the descriptor to write to; `fd` itself where there is no other, as for files, which keep nothing waiting
 */
export function openUnblocked(fd: number): number {
  if (fstatSync(fd).isFile()) return fd;
  try {
    return openSync(`/proc/self/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY);
  } catch {
    return fd;
  }
}
