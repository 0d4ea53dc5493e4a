import { writeSync } from 'node:fs';
import { pino, type DestinationStream } from 'pino';
import { systemClock, type Clock } from '../common/clock.ts';
import { isAuditLine } from './log.ts';

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
  readonly bytes: number;
  readonly audit: boolean;
}

/**
 * The standard output, to which lines are written without ever waiting for its reader. Those of one turn of the event
 * loop are written together when it ends, in their order. What finds no room waits in memory. Lines for which there is
 * none either are dropped, until half of it is free again; then one line says how many. Audit lines are dropped last.
 * The turn ends before anything can end the process in good order; for the rest there is `onExit`.
 *
 * @param options.write returns how many bytes it took; throws where it takes none, with the code EAGAIN if it may later
 * @param options.onExit calls back when the process ends, whatever ends it
 * @param options.pause stands still for so many milliseconds
 */
export function createLogOutput(options: {
  write: (bytes: Buffer) => number;
  onExit: (flush: () => void) => void;
  clock: Pick<Clock, 'now'>;
  pause: (milliseconds: number) => void;
}): DestinationStream {
  let queue: Line[] = [];
  /** Of a piece that was written in part. */
  let rest: Buffer = Buffer.alloc(0);
  /** Of all that waits. */
  let bytes = 0;
  let dropped = { lines: 0, audit: 0 };
  let planned = false;
  let retry: NodeJS.Timeout | undefined;
  let delay = FIRST_RETRY;

  /** Whatever the level of the log is: what is missing in it is told. */
  const teller = pino({ base: null }, { write: (text) => put(lineOf(text, true)) });

  const output = {
    // So pino says beside each line what it was made of.
    [Symbol.for('pino.metadata')]: true,
    lastMsg: undefined,
    lastObj: undefined,
    write(text: string) {
      const line = lineOf(text, isAuditLine(output.lastMsg, output.lastObj));
      if (!hasRoom(line)) return drop(line);
      put(line);
      if (retry !== undefined) return;
      if (bytes >= MAX_WRITE) return writeOut();
      if (planned) return;
      planned = true;
      setImmediate(() => {
        planned = false;
        if (retry === undefined) writeOut();
      });
    },
  };
  options.onExit(writeLast);
  return output;

  function put(line: Line): void {
    queue.push(line);
    bytes += line.bytes;
  }

  function hasRoom(line: Line): boolean {
    // What is dropped is missing in one place, where it is told.
    if (!line.audit) return dropped.lines === 0 && (bytes === 0 || bytes + line.bytes <= ROOM);
    if (bytes + line.bytes > 2 * ROOM) dropOthers();
    return bytes + line.bytes <= 2 * ROOM;
  }

  /** All that waits but audit lines, and what is written in part. */
  function dropOthers(): void {
    const all = queue;
    queue = all.filter(({ audit }) => audit);
    for (const line of all) {
      if (line.audit) continue;
      bytes -= line.bytes;
      drop(line);
    }
  }

  function drop({ audit }: Line): void {
    dropped.lines += 1;
    if (audit) dropped.audit += 1;
  }

  /** How many lines go with the next write. */
  function nextLines(): number {
    let size = 0;
    let count = 0;
    for (const line of queue) {
      size += line.bytes;
      if (count > 0 && size > MAX_WRITE) break;
      count += 1;
    }
    return count;
  }

  /** Writes what there is room for. @returns why it is not all; undefined when it is */
  function write(): unknown {
    for (;;) {
      if (dropped.lines > 0 && bytes <= ROOM / 2) {
        const told = dropped;
        dropped = { lines: 0, audit: 0 };
        teller.warn(told, 'log-lines-dropped');
      }
      const count = rest.length > 0 ? 0 : nextLines();
      const texts = queue.slice(0, count).map(({ text }) => text);
      const piece = count === 0 ? rest : Buffer.from(texts.join(''));
      if (piece.length === 0) return undefined;
      try {
        const written = options.write(piece);
        queue.splice(0, count);
        bytes -= written;
        rest = piece.subarray(written);
      } catch (error) {
        return error;
      }
    }
  }

  /** Whatever the problem is, it may be over later: a disk that is full, a reader that is gone. */
  function writeOut(): void {
    const before = bytes;
    if (write() === undefined) {
      delay = FIRST_RETRY;
      return;
    }
    delay = bytes < before ? FIRST_RETRY : Math.min(delay * 2, LONGEST_RETRY);
    retry = setTimeout(() => {
      retry = undefined;
      writeOut();
    }, delay).unref();
  }

  function writeLast(): void {
    const { clock, pause } = options;
    const end = clock.now() + LAST_WAIT;
    while (isFull(write()) && clock.now() < end) pause(LAST_PAUSE);
  }
}

/** The same to a descriptor. @param onExit calls back when the process ends, whatever ends it */
export function openLogOutput(fd: number, onExit: (flush: () => void) => void): DestinationStream {
  const still = new Int32Array(new SharedArrayBuffer(4));
  return createLogOutput({
    write: (bytes) => writeSync(fd, bytes),
    onExit,
    clock: systemClock,
    pause: (milliseconds) => void Atomics.wait(still, 0, 0, milliseconds),
  });
}

function lineOf(text: string, audit: boolean): Line {
  return { text, bytes: Buffer.byteLength(text), audit };
}

function isFull(problem: unknown): boolean {
  return problem instanceof Error && 'code' in problem && problem.code === 'EAGAIN';
}
