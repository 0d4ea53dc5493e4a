import { constants, fstatSync, openSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { pino, type DestinationStream } from 'pino';
import type { Clock } from '../common/clock.ts';
import { LINE_FORM } from './log.ts';

/**
 * Bytes of a write that a pipe takes in one piece, so that lines of several processes do not mix
 * (POSIX, PIPE_BUF). A longer line goes by itself.
 */
const MAX_WRITE = 4_096;
/** Bytes of lines that wait for a reader that stalls; twice as many with audit lines. */
const ROOM = 1_024 * 1_024;
/** Pauses before a write without room is tried again: from the first to the longest (ms). */
const FIRST_RETRY = 1;
const LONGEST_RETRY = 100;
/** Longest wait of an ending process for its reader, and pauses between looks (ms). */
const LAST_WAIT = 1_000;
const LAST_PAUSE = 10;

type Line = ReturnType<typeof lineOf>;
type IsAudit = (message: string | undefined, fields: object | undefined) => boolean;

/** A whole piece stays text: the system call takes it as it is. */
type Piece = string | Buffer;

/**
 * Lines that wait. Those without room are dropped until half of it is free; then one line says how
 * many. Audit lines are dropped last.
 */
function createLineQueue(writePiece: (piece: Piece) => number) {
  let queue: Line[] = [];
  /** Rest of a piece whose beginning is written: its lines can no longer be dropped. */
  let rest: Buffer | undefined;
  let waitingBytes = 0;
  let dropped = { lines: 0, audit: 0 };
  /** Tells what is missing in the log, at any level. */
  const teller = pino({ ...LINE_FORM, base: null }, { write: (text) => put(lineOf(text, true)) });

  function put(line: Line): void {
    queue.push(line);
    waitingBytes += line.size;
  }

  function hasRoom({ audit, size }: Line): boolean {
    // A gap stands in one place, where it is told.
    if (!audit) return dropped.lines === 0 && (waitingBytes === 0 || waitingBytes + size <= ROOM);
    if (waitingBytes + size > 2 * ROOM) dropOthers();
    return waitingBytes + size <= 2 * ROOM;
  }

  function dropOthers(): void {
    for (const line of queue) {
      if (line.audit) continue;
      waitingBytes -= line.size;
      drop(line);
    }
    queue = queue.filter(({ audit }) => audit);
  }

  function drop({ audit }: Line): void {
    dropped.lines += 1;
    if (audit) dropped.audit += 1;
  }

  function tellDropped(): void {
    if (dropped.lines === 0 || waitingBytes > ROOM / 2) return;
    const told = dropped;
    dropped = { lines: 0, audit: 0 };
    teller.warn(told, 'log-lines-dropped');
  }

  return {
    bytes: () => waitingBytes,
    add(line: Line): boolean {
      const fits = hasRoom(line);
      if (fits) put(line);
      else drop(line);
      return fits;
    },
    /** Writes what there is room for. @returns why something is left; undefined when nothing is */
    write(): NodeJS.ErrnoException | undefined {
      for (;;) {
        tellDropped();
        const lines = rest === undefined ? nextLines(queue) : [];
        const piece = rest ?? lines.map(({ text }) => text).join('');
        if (piece.length === 0) return undefined;
        try {
          const size = lines.reduce((sum, line) => sum + line.size, rest?.length ?? 0);
          const written = writePiece(piece);
          waitingBytes -= written;
          queue.splice(0, lines.length);
          rest = written < size ? bytesOf(piece).subarray(written) : undefined;
        } catch (error) {
          return error as NodeJS.ErrnoException;
        }
      }
    },
  };
}

function nextLines(queue: readonly Line[]): readonly Line[] {
  let together = 0;
  const end = queue.findIndex(({ size }, index) => {
    together += size;
    return index > 0 && together > MAX_WRITE;
  });
  return end < 0 ? queue : queue.slice(0, end);
}

/**
 * Standard output that never waits for its reader. Lines of one callback of the event loop are
 * written together behind it, before anything can end the process in good order.
 * @param options.write takes UTF-8 and returns how many bytes it took; throws EAGAIN for none yet
 * @param options.onExit calls back when the process ends, whatever ends it
 */
export function createLogOutput(options: {
  write: (piece: Piece) => number;
  isAudit: IsAudit;
  onExit: (flush: () => void) => void;
  clock: Pick<Clock, 'now'>;
  pause: (milliseconds: number) => void;
}): DestinationStream {
  const queue = createLineQueue(options.write);
  let planned = false;
  let retry: NodeJS.Timeout | undefined;
  let delayMs = FIRST_RETRY;

  const output = {
    // Has pino say beside each line what it was made of.
    [Symbol.for('pino.metadata')]: true,
    lastMsg: undefined,
    lastObj: undefined,
    write(text: string) {
      const line = lineOf(text, options.isAudit(output.lastMsg, output.lastObj));
      if (!queue.add(line) || retry !== undefined) return;
      if (queue.bytes() >= MAX_WRITE) return writeOut();
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

  /** Tries again whatever the problem: a full disk, or a reader that is gone, may come back. */
  function writeOut(): void {
    const before = queue.bytes();
    const isDone = queue.write() === undefined;
    delayMs = isDone || queue.bytes() < before ? FIRST_RETRY : Math.min(delayMs * 2, LONGEST_RETRY);
    if (isDone) return;
    retry = setTimeout(() => {
      retry = undefined;
      writeOut();
    }, delayMs).unref();
  }

  function writeLast(): void {
    const end = options.clock.now() + LAST_WAIT;
    while (queue.write()?.code === 'EAGAIN' && options.clock.now() < end) options.pause(LAST_PAUSE);
  }
}

const lineOf = (text: string, audit: boolean) => ({ text, size: Buffer.byteLength(text), audit });
const bytesOf = (piece: Piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece);

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
 * Has writes to a pipe or socket fail with EAGAIN where they would wait for its reader: for all
 * processes that share it. What a process has as descriptors 0 to 2 is made blocking when it starts
 * (`uv_spawn`), and set as it was then when it ends (`ResetStdio` in `node.cc`).
 */
export function unblock(fd: number): void {
  const kind = fstatSync(fd);
  if (!kind.isFIFO() && !kind.isSocket()) return;
  try {
    // `uv_pipe_open` and `uv_tcp_open` do it. The socket serves nothing else.
    void new Socket({ fd, readable: false, writable: true });
  } catch {
    // A kind of socket that Node.js does not know stays as it is.
  }
}

/**
 * Opens a pipe or terminal once more, unblocked for this process alone, where Linux allows it.
 * @returns the descriptor to write to: `fd` itself where there is no other, as for files
 */
export function openUnblocked(fd: number): number {
  if (fstatSync(fd).isFile()) return fd;
  try {
    return openSync(`/proc/self/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY);
  } catch {
    return fd;
  }
}
