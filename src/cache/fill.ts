import type { BodyAccount } from '../common/body-account.ts';
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

/** What a piece needs beside its bytes, however few these are (bytes; measured, rounded up). */
const PIECE_OVERHEAD = 256;
/** A short answer is held back until it is whole, so that its head can say whether it was stored … */
const HOLD_BYTES = 64 * 1024;
/** … but never for longer than a person would notice (ms). */
const HOLD_TIME = 50;

export type Verdict =
  /** `began`: when its engine request began, by the clock that never steps back (ms). */
  | { readonly kind: 'answer'; readonly answer: StoredAnswer; readonly began: number }
  | { readonly kind: 'refused'; readonly reason: RefusalReason }
  /** The engine gave no answer, or broke it off. */
  | { readonly kind: 'failed'; readonly error: unknown };

/**
 * Asks the engine, streams its answer to the client that leads, whatever its inspection says, and
 * inspects it (a long one without keeping that client waiting). When the client goes away, the fill
 * goes on for the others, as long as its answer may be shared. What is kept has its room in the
 * account; where there is none, the answer passes unstored.
 * @param lifetime the ttl with its jitter (ms)
 * @returns begins one; `bypass` is said instead of `miss`. One that must wait for the engine leaves its queue once no client
 *   waits any more (`unwanted`)
 */
export function createFills(
  parts: {
    readonly memory: Pick<MemoryTier, 'hold'>;
    readonly account: Pick<BodyAccount, 'open'>;
    /** Of a body, now (bytes). */
    readonly maxEntry: () => number;
    readonly clock: Clock;
    readonly emit: Emit;
    readonly holdTime?: number | undefined;
  },
  lifetime: (ttl: number) => number,
) {
  const { account, clock, emit, holdTime = HOLD_TIME } = parts;
  const inspections = createInspections();
  const readers: TagReaders = [];

  return (
    query: Query,
    client: Client,
    unwanted: () => AbortSignal,
    bypass: Outcome | undefined,
  ) => {
    const verdict = Promise.withResolvers<Verdict>();
    const finishing = Promise.withResolvers<boolean>();
    const abort = new AbortController();
    const share = account.open('fill');

    async function run(): Promise<void> {
      try {
        await relay(await query.ask(abort.signal, unwanted));
      } catch (error) {
        verdict.resolve({ kind: 'failed', error });
        client.fail(error);
      } finally {
        // What a slow client has not taken yet are the very pieces that were kept.
        void client.over().then(share.release);
      }
    }

    async function relay({ head, body, length, began }: EngineAnswer): Promise<void> {
      const { errorsAsData, successHeader } = query.engineTraits;
      const contentType = head.headers['content-type'];
      const { method } = query.parts.asked;
      const inspector = inspectAnswer({ contentType, method, errorsAsData, readers });
      const announced = Number(head.headers['content-length'] ?? 0);
      const text = keepText(settle);
      // What a fresh answer takes the place of would be found in memory until it is kept.
      const inspection = inspections.begin(inspect, { announced, atOnce: query.fresh });
      // Also where the answer is not kept: the client may go on in a session that the engine began by itself.
      const tellOf = query.session
        ? undefined
        : tellSessions(head, (...ids) => query.began(...ids));
      const out = holdBack(client, head, outcome, holdTime, clock);
      const maxEntry = parts.maxEntry();
      let refusal: RefusalReason | undefined;
      let size = 0;
      /** What is left of the inspection when the client has everything. */
      let behind: Promise<void> | undefined;

      function outcome(isWhole: boolean): Outcome {
        if (bypass !== undefined) return bypass;
        if (refusal !== undefined) return { kind: 'miss', detail: refusal, stored: false };
        return isWhole && behind === undefined ? { kind: 'miss', stored: true } : { kind: 'miss' };
      }

      /** Bytes that were inspected are kept. */
      function inspect(slice: Buffer): void {
        inspector.write(slice);
        if (inspector.refusal === undefined) text.write(slice);
        else refuse(inspector.refusal);
      }

      function refuse(reason: RefusalReason): void {
        refusal = reason;
        giveUp();
        emit({ type: 'not-stored', project: query.project, reason });
        if (bypass === undefined) client.notStored(reason);
        verdict.resolve({ kind: 'refused', reason });
      }

      function giveUp(): void {
        inspection.stop();
        text.stop();
      }

      function keep(piece: Buffer): void {
        size += piece.length;
        if (size > maxEntry) return refuse('too-large');
        if (!share.grow(piece.length + PIECE_OVERHEAD)) return refuse('no-room');
        inspection.write(piece);
      }

      /** Of a long text, what was compressed and what the client has taken needs no room any more. */
      function settle(): void {
        const { done, made } = text.usage();
        if (refusal === undefined) share.shrinkTo(Math.max(size - done, client.backlog()) + made);
      }

      /** What may be kept of the whole answer, or why nothing may. */
      async function judge() {
        if (size !== length()) return 'truncated';
        const found = inspector.end();
        if (!found.ok) return found.reason;
        const cut = sessionCut(query.session, head, found.session);
        if (cut === undefined) return 'session-in-answer';
        // The pieces stay until the client has them; where a session is cut out, there are two copies for a moment.
        const copies = cut.cut === undefined ? 1 : 2;
        const { made } = text.usage();
        if (!share.grow(made === 0 ? copies * size : made)) return 'no-room';
        const body = await text.end(cut.cut);
        // After the last byte: whatever made the session another one before that may have shaped the answer.
        if (query.session && !(await query.session.confirm())) return 'session-changed';
        return { body, ...cut.shown };
      }

      const unfit =
        refuseByHead(head, successHeader) ??
        refuseBySessionHeader(query.session, head) ??
        (announced > maxEntry ? 'too-large' : undefined);
      if (unfit !== undefined) refuse(unfit);
      try {
        // From here on the body is listened to: nothing may be awaited before.
        for await (const piece of body) {
          if (refusal === undefined) keep(piece);
          const telling = tellOf?.(piece);
          if (telling !== undefined) await telling;
          const isTaken = out.write(piece);
          if (refusal === undefined) {
            const room = inspections.room();
            if (room !== undefined) await room;
            continue;
          }
          // What no other waits for moves at the pace of this client, and ends when it goes away.
          if (!isTaken) await client.drained();
          share.release();
          if (client.signal.aborted) abort.abort(client.signal.reason);
        }
      } catch (error) {
        giveUp();
        const isTold = error instanceof GatewayError || abort.signal.aborted;
        const brokenOff = 'The engine broke its answer off.';
        const failure = isTold
          ? error
          : new GatewayError('engine-unreachable', brokenOff, { cause: error });
        if (refusal === undefined) {
          emit({ type: 'not-stored', project: query.project, reason: 'truncated' });
          verdict.resolve({ kind: 'failed', error: failure });
        }
        return out.fail(failure);
      }
      await tellOf?.();
      if (refusal === undefined) behind = inspection.done();
      if (behind !== undefined) {
        out.end(length());
        await behind;
      }
      const shared = refusal === undefined ? await judge() : refusal;
      if (typeof shared !== 'string') {
        const answer: StoredAnswer = {
          ...shared,
          contentType: contentType ?? '',
          contentLanguage: head.headers['content-language'],
          requestedAt: began.wall,
          lifetime: lifetime(query.ttl),
          engineMilliseconds: clock.now() - began.now,
        };
        // From here on the body counts for those who need it, and here what the client has not taken yet.
        share.shrinkTo(Buffer.isBuffer(answer.body) ? size : client.backlog());
        const letGo = parts.memory.hold(answer.body);
        verdict.resolve({ kind: 'answer', answer, began: began.now });
        // By then those who waited for the flight hold it by themselves, and so does tier 2.
        if (await finishing.promise) setImmediate(letGo);
        else letGo();
      } else if (refusal === undefined) refuse(shared);
      if (behind === undefined) out.end(length());
    }

    const over = run();
    return {
      /** As soon as it is known: a refused answer may go on for a while. Never rejects. */
      verdict: verdict.promise,
      /**
       * Gives the client the end of a short answer, when it is kept: a client that asks again must
       * find it. Resolves when all is over. Never rejects. `isNeeded`: by others, or by tier 2.
       */
      finish(isNeeded: boolean): Promise<void> {
        finishing.resolve(isNeeded);
        return over;
      },
    };
  };
}

/**
 * The way of an answer to the client that leads. `outcome`: what its head says when it is opened.
 */
function holdBack(
  client: Client,
  head: AnswerHead,
  outcome: (isWhole: boolean) => Outcome,
  holdTime: number,
  clock: Clock,
) {
  let held: Buffer[] | undefined = [];
  let heldBytes = 0;
  // What has arrived by then counts: a process that was kept from running sees its end before it opens.
  const cancel = clock.after(holdTime, () => void setImmediate(open, false));

  function open(isWhole: boolean): boolean {
    cancel();
    if (held === undefined) return true;
    const chunks = held;
    held = undefined;
    client.open(head, outcome(isWhole), isWhole ? heldBytes : undefined);
    return chunks.map((chunk) => client.write(chunk)).every(Boolean);
  }

  return {
    /** Passes the next bytes on, now or when the answer is opened. False when the client is slow. */
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
    /** The answer broke off: an error if it was still held back, else a broken connection. */
    fail(error: unknown): void {
      cancel();
      held = undefined;
      client.fail(error);
    },
  };
}

/** So much is inspected as it comes (bytes): as much as is held back, for what the head says. */
const AT_ONCE = 64 * 1024;
/** As long as more comes, so many bytes may wait until nothing does. */
const AT_LEISURE = 4 * 1024 * 1024;
/** Beyond so many bytes that wait, answers come only as fast as they are inspected. */
const MOST_WAITING = 16 * 1024 * 1024;

/**
 * What waits is inspected in the order in which it came, some 64 KiB of all answers together in a
 * turn of the event loop: no other request waits for longer. A turn in which more of some answer
 * came is left to those who wait for it.
 */
export function createInspections() {
  /** Each has its slice inspected, and returns the bytes that this was worth: 0 of an answer that was given up. */
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
    /**
     * @param inspect called in any turn, in order, and no more after `stop`
     * @param how.announced how long the body will be (bytes); 0 where that is not known
     * @param how.atOnce whether all of it is inspected as it comes
     */
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
        /** Takes the next bytes of the body, which must not be reused, and inspects them now or later. */
        write(piece: Buffer): void {
          if (stopped) return;
          if (slices === 0 && piece.length <= leftAtOnce) {
            leftAtOnce -= piece.length;
            return inspect(piece);
          }
          leftAtOnce = 0;
          end ??= Promise.withResolvers();
          // Of an answer that breaks off no one asks how its inspection went.
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
        /** Resolves when all is inspected; undefined when it is. Rejects with what `inspect` threw. */
        done: () => end?.promise,
        stop(): void {
          stopped = true;
        },
      };
    },
    /** Resolves when there is room for more; undefined when there is. */
    room(): Promise<void> | undefined {
      if (waiting <= MOST_WAITING) return undefined;
      roomier ??= Promise.withResolvers();
      return roomier.promise;
    },
  };
}
