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

/** Inspects the answers of many clients. */
export interface Inspections {
  /**
   * @param how.announced how long the body will be (bytes), if that is known
   * @param how.atOnce whether all of it is inspected as it comes
   * @param refused called in any turn with what the inspector refused, and no more after `stop`
   */
  begin(
    inspector: Pick<AnswerInspector, 'write' | 'refusal'>,
    how: { readonly announced: number | undefined; readonly atOnce: boolean },
    refused: (reason: NonNullable<AnswerInspector['refusal']>) => void,
  ): Inspection;
  /** Resolves when there is room for more; undefined when there is. */
  room(): Promise<void> | undefined;
}

/**
 * A client need not wait for the inspection of a long answer, which takes several times as long as to hand it on. What
 * waits is inspected in the order in which it came, some 64 KiB of all answers together in a turn of the event loop, so
 * that other requests never wait for longer than that. A turn in which more of some answer came is left to those who
 * wait for it.
 */
export function createInspections(): Inspections {
  /** Each inspects its slice, and returns the bytes that this was worth: 0 of an answer that was given up. */
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
    begin(inspector, { announced = 0, atOnce }, refused) {
      let leftAtOnce = atOnce ? Infinity : announced > AT_ONCE ? 0 : AT_ONCE;
      let slices = 0;
      let stopped = false;
      let failure: { readonly error: unknown } | undefined;
      let end: PromiseWithResolvers<void> | undefined;

      function inspect(slice: Buffer): void {
        inspector.write(slice);
        if (inspector.refusal !== undefined) refused(inspector.refusal);
      }

      function inspectLater(slice: Buffer): number {
        const isWanted = !stopped;
        slices -= 1;
        waiting -= slice.length;
        try {
          if (isWanted) inspect(slice);
        } catch (error) {
          stopped = true;
          failure = { error };
        }
        if (slices === 0) end?.resolve();
        return isWanted ? slice.length : 0;
      }

      return {
        write(piece) {
          if (stopped) return;
          if (slices === 0 && piece.length <= leftAtOnce) {
            leftAtOnce -= piece.length;
            return inspect(piece);
          }
          leftAtOnce = 0;
          for (let at = 0; at < piece.length; at += INSPECTION_SLICE) {
            const slice = piece.subarray(at, at + INSPECTION_SLICE);
            slices += 1;
            waiting += slice.length;
            queue.push(() => inspectLater(slice));
          }
          moreCame = true;
          plan();
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
