import type { BodyAccount, Reservation } from '../common/body-account.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit, Outcome } from '../common/events.ts';
import type { RefusalReason } from '../common/reasons.ts';
import type { TagReaders } from '../xml/start-tag.ts';
import { inspectAnswer, INSPECTION_SLICE, refuseByHead } from '../xmla/answer/inspect-answer.ts';
import { refuseBySessionHeader, sessionCut, tellSessions } from './answer-sessions.ts';
import { keepText, type StoredAnswer } from './stored-answer.ts';
import type { MemoryTier } from './memory-tier.ts';
import type { AnswerHead, Client, EngineAnswer, Query } from './query.ts';

/** Bytes of a piece beside its content (measured, rounded up). */
const PIECE_OVERHEAD = 256;
/** Short answers are held back until they are whole: the head says whether they were stored … */
const HOLD_BYTES = 64 * 1024;
/** … but never for longer than a person would notice. */
const HOLD_MS = 50;
const BROKEN_OFF = 'The engine broke its answer off.';

export type Verdict =
  /** `began`: of the engine request, monotonic (ms). */
  | { readonly kind: 'answer'; readonly answer: StoredAnswer; readonly began: number }
  | { readonly kind: 'refused'; readonly reason: RefusalReason }
  | { readonly kind: 'failed'; readonly error: unknown };

export interface FillParts {
  readonly memory: Pick<MemoryTier, 'hold'>;
  readonly account: Pick<BodyAccount, 'open'>;
  readonly maxEntry: () => number;
  readonly clock: Clock;
  readonly emit: Emit;
  readonly holdMs?: number | undefined;
}

/**
 * Asks the engine, streams the answer to the client that leads, and inspects a copy of it. When the
 * client goes away, the fill goes on for the others while the answer may be shared. What is kept
 * has its room in the account; without room the answer passes unstored.
 * @param lifetime ttl with its jitter (ms)
 * @returns begins a fill; its head says `bypass` instead of `miss`; it leaves the queue for the
 *   engine once it is `unwanted`; `failed` tells its client why nothing came
 */
export function createFills(parts: FillParts, lifetime: (ttl: number) => number) {
  const { clock } = parts;
  const inspections = createInspections();
  const readers: TagReaders = [];

  return (
    query: Query,
    client: Client,
    unwanted: () => AbortSignal,
    bypass: Outcome | undefined,
    failed: (error: unknown) => void | Promise<void> = client.fail.bind(client),
  ) => {
    const finishing = Promise.withResolvers<boolean>();
    const abort = new AbortController();
    const room = parts.account.open('fill');
    const state = createState(query, client, bypass, parts.emit);

    async function run(): Promise<void> {
      try {
        await relay(await query.ask(abort.signal, unwanted));
      } catch (error) {
        state.fail(error);
        await failed(error);
      } finally {
        // A slow client still holds the pieces that were kept.
        void client.over().then(room.release);
      }
    }

    async function relay(answer: EngineAnswer): Promise<void> {
      const { head, length } = answer;
      const fill = { query, client, room, state };
      const copy = createCopy(answer, fill, inspections, readers, parts.maxEntry());
      // Also where nothing is kept: the client may go on in the new session.
      const tell = query.session ? undefined : tellSessions(head, (...ids) => query.began(...ids));
      const out = holdBack(client, head, state.outcome, clock, parts.holdMs);
      copy.refuseUnfit();
      try {
        // Nothing may be awaited before: the body is listened to from here on.
        for await (const piece of answer.body) {
          if (!state.isRefused()) copy.write(piece);
          const telling = tell?.(piece);
          if (telling !== undefined) await telling;
          const isTaken = out.write(piece);
          if (!state.isRefused()) {
            const roomier = inspections.room();
            if (roomier !== undefined) await roomier;
            continue;
          }
          // No other waits for it: it moves at the pace of this client and ends with it.
          if (!isTaken) await client.drained();
          room.release();
          if (client.signal.aborted) abort.abort(client.signal.reason);
        }
      } catch (error) {
        copy.giveUp();
        return out.fail(state.breakOff(error, abort.signal.aborted));
      }
      await tell?.();
      // Inspection still to be done when the client has everything.
      const behind = state.isRefused() ? undefined : copy.inspected();
      if (behind !== undefined) {
        out.end(length());
        await behind;
      }
      if (!state.isRefused()) await keep(copy, answer);
      if (behind === undefined) out.end(length());
    }

    async function keep(copy: Copy, { began }: EngineAnswer): Promise<void> {
      const kept = await copy.judge();
      if (typeof kept === 'string') return copy.refuse(kept);
      const [requestedAt, engineMilliseconds] = [began.wall, clock.now() - began.now];
      const answer = { ...kept, requestedAt, lifetime: lifetime(query.ttl), engineMilliseconds };
      copy.handOver(answer.body);
      const letGo = parts.memory.hold(answer.body);
      state.keep(answer, began.now);
      // By then those who waited, and tier 2, hold it themselves.
      if (await finishing.promise) setImmediate(letGo);
      else letGo();
    }

    const over = run();
    return {
      /** Resolves early: a refused answer may go on for a while. Never rejects. */
      verdict: state.verdict,
      /**
       * Ends a short answer only when it is kept: a client that asks again must find it. Resolves
       * when all is over. Never rejects. @param isNeeded by others, or tier 2
       */
      finish(isNeeded: boolean): Promise<void> {
        finishing.resolve(isNeeded);
        return over;
      },
    };
  };
}

type State = ReturnType<typeof createState>;
function createState(query: Query, client: Client, bypass: Outcome | undefined, emit: Emit) {
  const { promise: verdict, resolve } = Promise.withResolvers<Verdict>();
  let state: Verdict | 'open' = 'open';
  function enter(next: Verdict): void {
    if (state !== 'open') return;
    state = next;
    resolve(next);
  }
  const refusal = () => (state !== 'open' && state.kind === 'refused' ? state.reason : undefined);
  const { project } = query;

  return {
    verdict,
    isRefused: () => refusal() !== undefined,
    outcome(isWhole: boolean): Outcome {
      if (bypass !== undefined) return bypass;
      const detail = refusal();
      if (detail !== undefined) return { kind: 'miss', detail, stored: false };
      const isKept = state !== 'open' && state.kind === 'answer';
      return isWhole && isKept ? { kind: 'miss', stored: true } : { kind: 'miss' };
    },
    keep: (answer: StoredAnswer, began: number) => enter({ kind: 'answer', answer, began }),
    refuse(reason: RefusalReason): void {
      enter({ kind: 'refused', reason });
      emit({ type: 'not-stored', project, reason });
      if (bypass === undefined) client.notStored(reason);
    },
    fail: (error: unknown) => enter({ kind: 'failed', error }),
    breakOff(error: unknown, isEnded: boolean): unknown {
      const isTold = error instanceof GatewayError || isEnded;
      const failure = isTold
        ? error
        : new GatewayError('engine-unreachable', BROKEN_OFF, { cause: error });
      if (state !== 'open') return failure;
      emit({ type: 'not-stored', project, reason: 'truncated' });
      enter({ kind: 'failed', error: failure });
      return failure;
    },
  };
}

type Copy = ReturnType<typeof createCopy>;
function createCopy(
  { head, length }: EngineAnswer,
  { query, client, room, state }: { query: Query; client: Client; room: Reservation; state: State },
  inspections: Inspections,
  readers: TagReaders,
  maxEntry: number,
) {
  const { errorsAsData, successHeader } = query.engineTraits;
  const contentType = head.headers['content-type'];
  const { method } = query.parts.asked;
  const { properties } = query;
  const inspector = inspectAnswer({ contentType, method, errorsAsData, properties, readers });
  const announced = Number(head.headers['content-length'] ?? 0);
  const text = keepText(settle);
  // Until it is kept, the entry that it replaces would be found.
  const inspection = inspections.begin(inspect, { announced, atOnce: query.fresh });
  let isGivenUp = false;
  let size = 0;

  function inspect(slice: Buffer): void {
    inspector.write(slice);
    if (inspector.refusal === undefined) text.write(slice);
    else refuse(inspector.refusal);
  }

  function giveUp(): void {
    isGivenUp = true;
    inspection.stop();
    text.stop();
  }

  function refuse(reason: RefusalReason): void {
    giveUp();
    state.refuse(reason);
  }

  /** Gives back the room of bytes that were compressed and that the client has taken. */
  function settle(): void {
    const { done, made } = text.usage();
    if (!isGivenUp) room.shrinkTo(Math.max(size - done, client.backlog()) + made);
  }

  return {
    giveUp,
    refuse,
    inspected: inspection.done,
    refuseUnfit(): void {
      const unfit =
        refuseByHead(head, successHeader) ??
        refuseBySessionHeader(query.session, head) ??
        (announced > maxEntry ? 'too-large' : undefined);
      if (unfit !== undefined) refuse(unfit);
    },
    write(piece: Buffer): void {
      size += piece.length;
      if (size > maxEntry) return refuse('too-large');
      if (!room.grow(piece.length + PIECE_OVERHEAD)) return refuse('no-room');
      inspection.write(piece);
    },
    async judge() {
      if (size !== length()) return 'truncated';
      const found = inspector.end();
      if (!found.ok) return found.reason;
      const cut = sessionCut(query.session, head, found.session);
      if (cut === undefined) return 'session-in-answer';
      // The pieces stay until the client has them; cutting makes two copies for a moment.
      const copies = cut.cut === undefined ? 1 : 2;
      const { made } = text.usage();
      if (!room.grow(made === 0 ? copies * size : made)) return 'no-room';
      const body = await text.end(cut.cut);
      // After the last byte: what changed the session before may have shaped the answer.
      if (query.session && !(await query.session.confirm())) return 'session-changed';
      const contentLanguage = head.headers['content-language'];
      return { body, ...cut.shown, contentType: contentType ?? '', contentLanguage };
    },
    /** The account goes on counting what the client has not taken yet. */
    handOver: (body: StoredAnswer['body']) =>
      room.shrinkTo(Buffer.isBuffer(body) ? size : client.backlog()),
  };
}

/** Withholds the head until the answer is whole, long or late. @param outcome for the head */
function holdBack(
  client: Client,
  head: AnswerHead,
  outcome: (isWhole: boolean) => Outcome,
  clock: Clock,
  holdMs = HOLD_MS,
) {
  let held: Buffer[] | undefined = [];
  let heldBytes = 0;
  // One more turn: a busy process first sees what has arrived.
  const cancel = clock.after(holdMs, () => void setImmediate(open, false));

  function open(isWhole: boolean): boolean {
    cancel();
    if (held === undefined) return true;
    const chunks = held;
    held = undefined;
    client.open(head, outcome(isWhole), isWhole ? heldBytes : undefined);
    return chunks.map((chunk) => client.write(chunk)).every(Boolean);
  }

  return {
    write(chunk: Buffer): boolean {
      if (held === undefined) return client.write(chunk);
      held.push(chunk);
      heldBytes += chunk.length;
      return heldBytes < HOLD_BYTES || open(false);
    },
    end(length: number): void {
      const last = held?.pop();
      open(true);
      client.end(length, last);
    },
    /** Sends an error if the head was still withheld, else breaks the connection. */
    fail(error: unknown): void {
      cancel();
      held = undefined;
      client.fail(error);
    },
  };
}

/** Bytes inspected as they come: those that are held back for the head. */
const AT_ONCE = 64 * 1024;
/** Bytes that may wait while more comes. */
const AT_LEISURE = 4 * 1024 * 1024;
/** Above this (bytes) answers come only as fast as they are inspected. */
const MOST_WAITING = 16 * 1024 * 1024;

type Inspections = ReturnType<typeof createInspections>;
/**
 * Inspects answers in the order in which they came, some 64 KiB of all together in a turn of the
 * event loop, so that no other request waits for longer. A turn in which more of some answer came
 * is left to those who wait for it.
 */
export function createInspections() {
  /** Each returns the bytes that it inspected: 0 for an answer given up. */
  const queue: (() => number)[] = [];
  let waiting = 0;
  let moreCame = false;
  let isPlanned = false;
  let roomier: PromiseWithResolvers<void> | undefined;

  function plan(): void {
    if (isPlanned || queue.length === 0) return;
    isPlanned = true;
    setImmediate(work);
  }

  function work(): void {
    isPlanned = false;
    const isLeftToOthers = moreCame && waiting <= AT_LEISURE;
    moreCame = false;
    for (let left = isLeftToOthers ? 0 : INSPECTION_SLICE; left > 0;) {
      const next = queue.shift();
      if (next === undefined) break;
      left -= next();
    }
    plan();
    if (waiting > MOST_WAITING) return;
    roomier?.resolve();
    roomier = undefined;
  }

  return {
    /** @param inspect called in any turn, in order, never after `stop` */
    begin(
      inspect: (slice: Buffer) => void,
      { announced, atOnce }: { announced: number; atOnce: boolean },
    ) {
      let leftAtOnce = atOnce ? Infinity : announced > AT_ONCE ? 0 : AT_ONCE;
      let slices = 0;
      let stopped = false;
      let end: PromiseWithResolvers<void> | undefined;

      function inspectLater(slice: Buffer): number {
        const isWanted = !stopped;
        slices -= 1;
        waiting -= slice.length;
        try {
          if (isWanted) inspect(slice);
        } catch (error) {
          stopped = true;
          end?.reject(error);
        }
        if (slices === 0) end?.resolve();
        if (slices === 0 && !stopped) end = undefined;
        return isWanted ? slice.length : 0;
      }

      return {
        write(piece: Buffer): void {
          if (stopped) return;
          if (slices === 0 && piece.length <= leftAtOnce) {
            leftAtOnce -= piece.length;
            return inspect(piece);
          }
          leftAtOnce = 0;
          end ??= Promise.withResolvers();
          // No caller asks how the inspection of a broken answer went.
          end.promise.catch(() => {});
          for (let at = 0; at < piece.length; at += INSPECTION_SLICE) {
            const slice = piece.subarray(at, at + INSPECTION_SLICE);
            slices += 1;
            waiting += slice.length;
            queue.push(() => inspectLater(slice));
          }
          moreCame = true;
          plan();
        },
        /** Resolves when all is inspected; undefined when it is. Rejects as `inspect` threw. */
        done: () => end?.promise,
        stop(): void {
          stopped = true;
        },
      };
    },
    room(): Promise<void> | undefined {
      if (waiting <= MOST_WAITING) return undefined;
      roomier ??= Promise.withResolvers();
      return roomier.promise;
    },
  };
}
