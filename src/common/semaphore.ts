import { type Clock, systemClock } from './clock.ts';
import { onlyOnce } from './in-turn.ts';

export type Semaphore = ReturnType<typeof createSemaphore>;

export function createSemaphore(permits: number, clock?: Pick<Clock, 'after'>) {
  let held = 0;
  const queue: WaitQueue<Waiter> = [];

  function release(): void {
    const [next] = queue;
    if (next === undefined) held -= 1;
    else next.enter();
  }

  return {
    async acquire(signal: AbortSignal, late?: Parameters<typeof waitIn>[3]): Promise<() => void> {
      signal.throwIfAborted();
      if (held < permits) held += 1;
      else await waitIn(queue, {}, signal, late, clock);
      return onlyOnce(release);
    },
    usage: () => ({ held, waiting: queue.length }),
  };
}

export interface Waiter {
  readonly enter: () => void;
}
/**
 * Not a Set: V8 makes its table anew with every few changes, and tables in old memory keep all
 * later ones and their waiters until the next full collection.
 */
export type WaitQueue<T extends Waiter> = T[];

/** Rejects when the signal aborts, or it is too `late`. */
export function waitIn<T extends object>(
  queue: WaitQueue<T & Waiter>,
  given: T,
  signal: AbortSignal,
  late?: { readonly after: number; readonly error: () => Error; readonly gaveUp?: () => void },
  clock: Pick<Clock, 'after'> = systemClock,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const waiter = { ...given, enter: () => leave(resolve) };
  const giveUp = (reason: unknown) => {
    leave(() => reject(reason));
    late?.gaveUp?.();
  };
  const onAbort = () => giveUp(signal.reason);
  const cancel = late && clock.after(late.after, () => giveUp(late.error()));
  function leave(settle: () => void): void {
    cancel?.();
    signal.removeEventListener('abort', onAbort);
    const at = queue.indexOf(waiter);
    if (at >= 0) queue.splice(at, 1);
    settle();
  }
  signal.addEventListener('abort', onAbort, { once: true });
  queue.push(waiter);
  return promise;
}
