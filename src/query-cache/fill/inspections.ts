import { INSPECTION_SLICE, type AnswerInspector } from '../../xmla/answer/inspect-answer.ts';

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
 * waits is inspected in the order in which it came, some 64 KiB in a turn of the event loop whoever's they are: others are
 * never kept waiting for longer than that. A turn in which more of some answer came is left to those who wait for it.
 */
export function createInspections(): Inspections {
  const queue: { readonly slice: Buffer; readonly inspect: (slice: Buffer) => boolean }[] = [];
  let waiting = 0;
  let moreCame = false;
  let isPlanned = false;
  let roomier: PromiseWithResolvers<void> | undefined;

  function plan(): void {
    if (isPlanned || queue.length === 0) return;
    isPlanned = true;
    setImmediate(look);
  }

  function look(): void {
    isPlanned = false;
    if (moreCame && waiting <= AT_LEISURE) {
      moreCame = false;
      return plan();
    }
    moreCame = false;
    for (let inspected = 0; inspected < INSPECTION_SLICE;) {
      const next = queue.shift();
      if (next === undefined) break;
      waiting -= next.slice.length;
      if (next.inspect(next.slice)) inspected += next.slice.length;
    }
    plan();
    if (waiting > MOST_WAITING) return;
    roomier?.resolve();
    roomier = undefined;
  }

  function later(slice: Buffer, inspect: (slice: Buffer) => boolean): void {
    waiting += slice.length;
    moreCame = true;
    queue.push({ slice, inspect });
    plan();
  }

  return {
    begin(inspector, { announced = 0, atOnce }, refused) {
      let leftAtOnce = atOnce ? Infinity : announced > AT_ONCE ? 0 : AT_ONCE;
      let slices = 0;
      let stopped = false;
      let failure: { readonly error: unknown } | undefined;
      let end: PromiseWithResolvers<void> | undefined;

      function inspect(slice: Buffer): void {
        if (stopped) return;
        inspector.write(slice);
        if (inspector.refusal !== undefined) refused(inspector.refusal);
      }

      /** False when nothing had to be done. */
      function inspectLater(slice: Buffer): boolean {
        const isWanted = !stopped;
        slices -= 1;
        try {
          inspect(slice);
        } catch (error) {
          stopped = true;
          failure ??= { error };
        }
        if (slices === 0) end?.resolve();
        return isWanted;
      }

      return {
        write(piece) {
          if (slices === 0 && piece.length <= leftAtOnce) {
            leftAtOnce -= piece.length;
            return inspect(piece);
          }
          leftAtOnce = 0;
          if (stopped) return;
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
