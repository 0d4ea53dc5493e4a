import { GatewayError } from '../../common/errors.ts';
import type { Line } from '../feature.ts';

export const OVERTAKEN = new GatewayError('client-gone', 'A user needed the place at the engine.');

/** Slot at the engine for one request, which a user may take meanwhile. */
export class Slot {
  /** Aborted when the request is given up, as when its client goes away. */
  readonly gone = new AbortController();
  /** Ends the stay; undefined once the slot was given up. */
  leave: (() => void) | undefined;
  /** Aborted when the request was given up and no user has joined it. */
  unwanted: AbortSignal | undefined;
  isOvertaken = false;

  /** Gives the slot up for a user. @returns whether it is free at once */
  overtake(): boolean {
    this.isOvertaken = true;
    this.gone.abort(OVERTAKEN);
    const isFree = this.unwanted?.aborted ?? true;
    if (isFree) this.leave = undefined;
    return isFree;
  }
}

export type Slots = ReturnType<typeof createSlots>;

/** Takes one slot after the other. */
export function createSlots(admitBackground: Line['admitBackground']) {
  let current: Slot | undefined;
  return {
    /** Ends the stay in the slot that is held. */
    leave: () => current?.leave,
    /** @throws what `use` throws, and the reason of the signal */
    async within<T>(until: AbortSignal, use: (slot: Slot) => Promise<T>): Promise<T> {
      const slot = new Slot();
      const end = () => slot.gone.abort(until.reason);
      until.addEventListener('abort', end, { once: true });
      try {
        const leave = await admitBackground(() => slot.overtake(), until);
        slot.leave = leave;
        current = slot;
        return await use(slot).finally(leave);
      } finally {
        until.removeEventListener('abort', end);
        current = undefined;
      }
    },
  };
}
