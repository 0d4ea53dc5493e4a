import { INSPECTION_SLICE, type AnswerInspector } from '../xmla/answer/inspect-answer.ts';

/**
 * So much of an answer is inspected as it comes (bytes): the head of a short one, which is held back as long, says
 * whether it was stored.
 */
const AT_ONCE = 64 * 1024;
/** As long as more comes, so many bytes may wait until nothing does. */
const AT_LEISURE = 4 * 1024 * 1024;
/** Beyond so many bytes that wait, answers come only as fast as they are inspected. */
const MOST_WAITING = 16 * 1024 * 1024;

/** The inspection of one answer. */
export interface Inspection {
  /** Takes the next bytes of the body, which must not be reused, and inspects them now or later. */
  write(piece: Buffer): void;
  /**
   * Resolves when all that was written is inspected; undefined when it is. Rejects with what the inspector threw.
   */
  done(): Promise<void> | undefined;
  /** Inspects no more of it. */
  stop(): void;
}

/** Inspects the answers of many clients, a slice in each turn of the event loop. */
export interface Inspections {
  /**
   * @param announced how long the body will be (bytes), if that is known
   * @param refused called once, in any turn, with what the inspector refused
   */
  begin(
    inspector: Pick<AnswerInspector, 'write' | 'refusal'>,
    announced: number | undefined,
    refused: (reason: NonNullable<AnswerInspector['refusal']>) => void,
  ): Inspection;
  /** Resolves when there is room for more; undefined when there is. */
  room(): Promise<void> | undefined;
}

/**
 * A client need not wait for the inspection of a long answer, which takes several times as long as to hand it on. What
 * waits is inspected in the order in which it came, one slice in a turn of the event loop whoever's it is: others are
 * never kept waiting for longer than that. A turn in which more of some answer came is left to those who wait for that.
 */
export function createInspections(): Inspections {
  const queue: { readonly slice: Buffer; readonly inspect: (slice: Buffer) => void }[] = [];
  let waiting = 0;
  let moreCame = false;
  let roomier: PromiseWithResolvers<void> | undefined;

  function look(): void {
    if (moreCame && waiting <= AT_LEISURE) {
      moreCame = false;
      return void setImmediate(look);
    }
    moreCame = false;
    const next = queue.shift();
    if (next === undefined) return;
    if (queue.length > 0) setImmediate(look);
    waiting -= next.slice.length;
    next.inspect(next.slice);
    if (waiting > MOST_WAITING) return;
    roomier?.resolve();
    roomier = undefined;
  }

  function later(slice: Buffer, inspect: (slice: Buffer) => void): void {
    waiting += slice.length;
    moreCame = true;
    queue.push({ slice, inspect });
    if (queue.length === 1) setImmediate(look);
  }

  return {
    begin(inspector, announced = 0, refused) {
      let atOnce = announced > AT_ONCE ? 0 : AT_ONCE;
      let slices = 0;
      let stopped = false;
      let failure: { readonly error: unknown } | undefined;
      let end: PromiseWithResolvers<void> | undefined;

      function inspect(slice: Buffer): void {
        if (stopped) return;
        inspector.write(slice);
        if (inspector.refusal !== undefined) refused(inspector.refusal);
      }

      function inspectLater(slice: Buffer): void {
        slices -= 1;
        try {
          inspect(slice);
        } catch (error) {
          stopped = true;
          failure ??= { error };
        }
        if (slices === 0) end?.resolve();
      }

      return {
        write(piece) {
          if (slices === 0 && piece.length <= atOnce) {
            atOnce -= piece.length;
            return inspect(piece);
          }
          atOnce = 0;
          for (let at = 0; at < piece.length; at += INSPECTION_SLICE) {
            slices += 1;
            later(piece.subarray(at, at + INSPECTION_SLICE), inspectLater);
          }
        },
        done() {
          if (slices === 0 && failure === undefined) return undefined;
          end ??= Promise.withResolvers();
          if (slices === 0) end.resolve();
          return end.promise.then(() => {
            if (failure !== undefined) throw failure.error;
          });
        },
        stop() {
          stopped = true;
        },
      };
    },
    room() {
      if (waiting <= MOST_WAITING) return undefined;
      roomier ??= Promise.withResolvers();
      return roomier.promise;
    },
  };
}
