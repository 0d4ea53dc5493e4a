import type { ServerResponse } from 'node:http';
import { clientGone, GatewayError } from '../common/errors.ts';
import type { Principal } from '../common/principal.ts';
import { createSemaphore, type Semaphore } from '../common/semaphore.ts';
import { sendHead } from '../http/answers.ts';

const LIMITS = {
  /** Documents read or written at one time, each up to five times in memory. */
  slots: 4,
  /** Documents being received or written, each once in memory until it is written. */
  received: 8,
  /** Documents held for clients that take them, each once in memory. */
  sent: 8,
  own: 2,
  /** Waiting requests of one user; they keep no other user from waiting. */
  queue: 256,
  /** Longest wait for each slot (ms), below the usual patience of clients. */
  wait: 30_000,
};

type Asker = Readonly<{ principal: Principal; response: ServerResponse }>;
type Work<T> = (leaveLast?: () => void) => Promise<T>;

export type DocumentGate = ReturnType<typeof createDocumentGate>;

/**
 * Bounds the documents held, by one user and by all. A slow client holds only slots for receiving
 * or sending, or of its user: reading and writing documents never waits for a client.
 * @param changed for tests, and {@link slotsBeside}
 */
export function createDocumentGate(changed: Partial<typeof LIMITS> = {}) {
  const { slots, received, sent, own, queue, wait } = { ...LIMITS, ...changed };
  const held = createSemaphore(slots);
  const receiving = createSemaphore(received);
  const sending = createSemaphore(sent);
  const users = new Map<string, Semaphore>();

  /** @param work gets what leaves the last gate early */
  async function inSlots<T>({ response }: Asker, gates: readonly Semaphore[], work: Work<T>) {
    let leaveLast: (() => void) | undefined;
    using slots = new DisposableStack();
    const patience = new AbortController();
    const goAway = () => patience.abort(clientGone());
    const timer = setTimeout(() => patience.abort(overloaded()), wait);
    response.once('close', goAway);
    if (response.destroyed) goAway();
    try {
      for (const gate of gates) slots.defer((leaveLast = await gate.acquire(patience.signal)));
      // The client may have gone in the turn in which its slot came.
      patience.signal.throwIfAborted();
    } finally {
      clearTimeout(timer);
      response.off('close', goAway);
    }
    return await work(leaveLast);
  }

  /** Enters the user's gate first: a request that waits there holds no slot of others. */
  async function within<T>(asker: Asker, gates: readonly Semaphore[], work: Work<T>): Promise<T> {
    const user = asker.principal.owner;
    const mine = users.get(user) ?? createSemaphore(own);
    if (mine.usage().waiting >= queue) throw overloaded();
    users.set(user, mine);
    try {
      return await inSlots(asker, [mine, ...gates], work);
    } finally {
      if (mine.usage().held === 0) users.delete(user);
    }
  }

  return {
    /** @throws GatewayError `client-gone`; `overloaded`: too many wait, or no slot came in time */
    receive: <R, T>(asker: Asker, receive: () => Promise<R>, write: (received: R) => Promise<T>) =>
      within(asker, [receiving], async () => {
        const document = await receive();
        return inSlots(asker, [held], () => write(document));
      }),
    pass: (asker: Asker, read: () => Promise<Buffer>, send: (document: Buffer) => Promise<void>) =>
      within(asker, [sending, held], async (leaveHeld) => {
        const document = await read();
        leaveHeld?.();
        await send(document);
      }),
  };
}

/** Each piece of a document takes a connection; one stays free for short work, if there are two. */
export function slotsBeside(connections: number): number {
  return Math.max(1, Math.min(LIMITS.slots, connections - 1));
}

const TOO_MANY =
  'Too many datasets are received, read, written or sent at one time; nothing was done. Try again.';
const overloaded = () => new GatewayError('overloaded', TOO_MANY, { retryAfter: 5 });

/** Bytes. Encrypting and copying one blocks no other request. */
const PIECE = 64 * 1024;
const WINDOW_MS = 10_000;

/**
 * Resolves when the connection has taken the document. It is broken off if it takes less than a
 * piece in a window, even of another answer before this one.
 * @throws GatewayError `client-gone`
 */
export async function sendDocument(response: ServerResponse, document: Buffer): Promise<void> {
  sendHead(response, 'application/json', document.length);
  const { socket, method } = response.req;
  if (method === 'HEAD') return void response.end();
  // Counts a piece when it is handed to the connection, after the last one was taken.
  let before = socket.bytesWritten;
  const pace = setInterval(() => {
    if (socket.bytesWritten === before) response.destroy();
    before = socket.bytesWritten;
  }, WINDOW_MS);
  const gone = Promise.withResolvers<void>();
  gone.promise.catch(() => {});
  const leave = () => gone.reject(clientGone('does not read on'));
  response.once('close', leave);
  try {
    for (let from = 0; from < document.length; from += PIECE) {
      const taken = Promise.withResolvers<void>();
      const piece = document.subarray(from, from + PIECE);
      response.write(piece, (error) => (error ? leave() : taken.resolve()));
      await Promise.race([taken.promise, gone.promise]);
    }
  } finally {
    clearInterval(pace);
    response.off('close', leave);
  }
  response.end();
}
