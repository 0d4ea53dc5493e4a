import type { StoredAnswer } from './stored-answer.ts';

/** One fill that is under way, from before its engine request until nothing of it is left to be kept. */
export interface OrderedFill {
  /**
   * Notes that its answer is whole and may be kept.
   * @param began when its engine request began, by the clock that never steps back (ms)
   */
  landed(answer: StoredAnswer, began: number): void;
  /**
   * Of this answer and those of other fills of the key that landed while it was under way, the one whose engine
   * request began last; undefined when none of them landed. Another one than its own has been kept by its own fill,
   * as far as the tiers let it.
   */
  latest(): StoredAnswer | undefined;
  end(): void;
}

export interface FillOrder {
  enter(key: string): OrderedFill;
}

/** When an engine request began; those of one moment in the order in which they were entered. */
interface Landed {
  readonly answer: StoredAnswer;
  readonly began: number;
  readonly sequence: number;
}

/**
 * The order of the fills of each key within this process. The wall clock cannot tell it: it is set back, and two fills
 * can begin in one millisecond. What other processes do is not seen here.
 *
 * A fill that is entered after another one ended began later; so only those that are under way are held.
 */
export function createFillOrder(): FillOrder {
  const underWay = new Map<string, Set<{ latest: Landed | undefined }>>();
  let entered = 0;

  return {
    enter(key) {
      const sequence = (entered += 1);
      const own: { latest: Landed | undefined } = { latest: undefined };
      const all = underWay.get(key) ?? new Set();
      underWay.set(key, all.add(own));
      return {
        landed(answer, began) {
          const landed = { answer, began, sequence };
          for (const one of all) if (isLater(landed, one.latest)) one.latest = landed;
        },
        latest: () => own.latest?.answer,
        end() {
          all.delete(own);
          if (all.size === 0) underWay.delete(key);
        },
      };
    },
  };
}

/** One that is told again takes its own place. */
function isLater(landed: Landed, than: Landed | undefined): boolean {
  if (than === undefined) return true;
  return (landed.began - than.began || landed.sequence - than.sequence) >= 0;
}
