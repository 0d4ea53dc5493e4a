/** How much of an answer may lie here before its connection is held up (bytes); as much as node holds. */
const ENOUGH = 64 * 1024;

/** The body of an answer between the connection that it comes from and whoever reads it, once. */
export interface AnswerBody extends AsyncIterable<Buffer> {
  /** Why it broke off. */
  readonly errored: Error | null;
  /** Ends its request, unless it came whole. */
  destroy(error?: Error): void;
  /** Whether something lies here that nobody has read yet. */
  hasUnread(): boolean;
  /** The next bytes. False when the connection is to be held up. */
  push(chunk: Buffer): boolean;
  /** There are no more. */
  end(): void;
  /** It broke off: what lies here is not read any more. Does nothing after the first, or after its end was read. */
  fail(error: Error): void;
}

/** How a read of it ends that waits. */
interface Waiting {
  readonly resolve: (result: IteratorResult<Buffer, undefined>) => void;
  readonly reject: (error: Error) => void;
}

const DONE: IteratorResult<Buffer, undefined> = { done: true, value: undefined };

/**
 * A list and one promise a piece: of a `Readable` and its iterator, which do the same, the 2 KB answer of an engine
 * costs ten times as much (10 µs).
 *
 * @param told.more a connection that was held up may go on
 * @param told.left nobody reads on, before its end came
 * @param told.over its end was read, it broke off, or nobody reads on; told once
 */
export function answerBody(told: { more(): void; left(): void; over(): void }): AnswerBody {
  let chunks: Buffer[] = [];
  let size = 0;
  let heldUp = false;
  let ended = false;
  let over = false;
  let waiting: Waiting | undefined;

  function finish(): void {
    if (over) return;
    over = true;
    chunks = [];
    size = 0;
    told.over();
  }

  function fail(error: Error): void {
    if (over) return;
    body.errored = error;
    finish();
    waiting?.reject(error);
    waiting = undefined;
  }

  function leave(error?: Error): void {
    if (over) return;
    body.errored = error ?? null;
    finish();
    waiting?.resolve(DONE);
    waiting = undefined;
    if (!ended) told.left();
  }

  function next(): Promise<IteratorResult<Buffer, undefined>> {
    const value = chunks.shift();
    if (value !== undefined) {
      size -= value.length;
      if (heldUp && size === 0) {
        heldUp = false;
        told.more();
      }
      return Promise.resolve({ done: false, value });
    }
    if (body.errored !== null) return Promise.reject(body.errored);
    if (ended) finish();
    if (over) return Promise.resolve(DONE);
    return new Promise((resolve, reject) => {
      waiting = { resolve, reject };
    });
  }

  // No getter: an object literal with one makes a class of its own each time, which V8 keeps, with all that the getter
  // sees, until the next full collection.
  const body: AnswerBody & { errored: Error | null } = {
    errored: null,
    destroy: leave,
    hasUnread: () => size > 0,
    push(chunk) {
      if (over) return true;
      if (waiting !== undefined) {
        const { resolve } = waiting;
        waiting = undefined;
        resolve({ done: false, value: chunk });
        return true;
      }
      chunks.push(chunk);
      size += chunk.length;
      heldUp ||= size >= ENOUGH;
      return !heldUp;
    },
    end() {
      ended = true;
      if (waiting === undefined) return;
      const { resolve } = waiting;
      waiting = undefined;
      finish();
      resolve(DONE);
    },
    fail,
    [Symbol.asyncIterator]: () => ({
      next,
      async return() {
        leave();
        return DONE;
      },
    }),
  };
  return body;
}
