import type { ServerResponse } from 'node:http';
import { GatewayError } from '../common/errors.ts';
import type { Principal } from '../common/principal.ts';
import { createSemaphore, type Semaphore } from '../common/semaphore.ts';
import { sendHead } from '../http/answers.ts';

const LIMITS = {
  /** Documents that are read or written at one time; each may be there up to five times over for a moment. */
  slots: 4,
  /** Documents that come from their clients, or have come and are written; until then each is there once. */
  received: 8,
  /** Documents that are held for the clients that take them, or will be when they are read; each is there once. */
  sent: 8,
  /** Documents that one user may have received, read, written or sent at one time. */
  own: 2,
  /** Requests of one user that may wait for that; they keep no other user from waiting. */
  queue: 256,
  /** How long any request may wait (ms), each time: shorter than what clients usually wait for an answer. */
  wait: 30_000,
};

/** When the response is closed, the request waits no more. */
type Asker = Readonly<{ principal: Principal; response: ServerResponse }>;
type Work<T> = (leaveLast?: () => void) => Promise<T>;

/**
 * Bounds how many documents are held at one time, of one user and of all. A client that is slow to send or to take one
 * holds a slot that others need for the same, or of its user: what reads and writes documents never waits for a client.
 */
export type DocumentGate = ReturnType<typeof createDocumentGate>;

/** @param changed for tests, and {@link slotsBeside} */
export function createDocumentGate(changed: Partial<typeof LIMITS> = {}) {
  const { slots, received, sent, own, queue, wait } = { ...LIMITS, ...changed };
  const held = createSemaphore(slots);
  const receiving = createSemaphore(received);
  const sending = createSemaphore(sent);
  /** Users that hold or await a slot. */
  const users = new Map<string, Semaphore>();

  /** Works in a slot of each gate, entered in their order. @param work gets what leaves the last one early */
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
      // The client may have gone in the very turn in which its slot came.
      patience.signal.throwIfAborted();
    } finally {
      clearTimeout(timer);
      response.off('close', goAway);
    }
    return await work(leaveLast);
  }

  /** Enters the user's own gate first: a request that waits for others of its user holds no slot that others need. */
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
    /**
     * Receives a document in a slot that it holds to its end, and then writes it, which takes another one.
     * @throws GatewayError `client-gone`; `overloaded` when too many wait already, or no slot came in time
     */
    receive: <R, T>(asker: Asker, receive: () => Promise<R>, write: (received: R) => Promise<T>) =>
      within(asker, [receiving], async () => {
        const document = await receive();
        return inSlots(asker, [held], () => write(document));
      }),
    /** Serves a document that is read, which takes a slot, and then sent, which takes another one. */
    pass: (asker: Asker, read: () => Promise<Buffer>, send: (document: Buffer) => Promise<void>) =>
      within(asker, [sending, held], async (leaveHeld) => {
        const document = await read();
        leaveHeld?.();
        await send(document);
      }),
  };
}

/** Each piece of a document takes a connection; one is left for what is short, if there is more than one. */
export function slotsBeside(connections: number): number {
  return Math.max(1, Math.min(LIMITS.slots, connections - 1));
}

const TOO_MANY =
  'Too many datasets are received, read, written or sent at one time; nothing was done. Try again.';
const overloaded = () => new GatewayError('overloaded', TOO_MANY, { retryAfter: 5 });

const clientGone = (what = 'went away') => new GatewayError('client-gone', `The client ${what}.`);

/** Bytes. What is encrypted and copied for one of them keeps no other request waiting. */
const PIECE = 64 * 1024;
/** In each of these a reader must take one piece, beside what the connection holds anyway. */
const WINDOW_MS = 10_000;

/**
 * Sends a document and resolves when the connection has taken all of it: so long it is held. A connection that takes
 * less than one piece in a window is broken off, also while it takes another answer before this one, or waits for it.
 * @throws GatewayError `client-gone`
 */
export async function sendDocument(response: ServerResponse, document: Buffer): Promise<void> {
  sendHead(response, 'application/json', document.length);
  if (response.req.method !== 'HEAD') await sendPieces(response, document);
  response.end();
}

async function sendPieces(response: ServerResponse, document: Buffer): Promise<void> {
  const { socket } = response.req;
  // It counts a piece when that is handed to the connection, which is when the one before it was taken.
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
}
