/** Pause between two tries (ms). */
const PAUSE = 500;

interface Renewal {
  readonly scopes: readonly string[];
  readonly retry: () => Promise<unknown>;
}

/**
 * Renewals that the store did not confirm. Until one is, this gateway uses nothing of its scopes; other gateways go on,
 * so it is tried in the background until it is done.
 */
export interface Pending {
  /**
   * In the place of what is pending of the same scopes.
   * @param retry renews them; resolves when that was confirmed
   */
  add(scopes: readonly string[], retry: () => Promise<unknown>): void;
  /** Each once. */
  scopes(): ReadonlySet<string>;
  /** Nothing is tried any more. */
  close(): void;
}

/** @param onError told of every try that failed */
export function createPending(onError: (error: unknown) => void): Pending {
  const renewals = new Map<string, Renewal>();
  let scopes: ReadonlySet<string> = new Set();
  /** From when a try is planned until it is over. */
  let trying = false;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  function change(key: string, renewal: Renewal | undefined): void {
    if (renewal === undefined) renewals.delete(key);
    else renewals.set(key, renewal);
    scopes = new Set([...renewals.values()].flatMap((one) => one.scopes));
  }

  async function tryOne(key: string, renewal: Renewal): Promise<void> {
    try {
      await renewal.retry();
      // One that came meanwhile stays.
      if (renewals.get(key) === renewal) change(key, undefined);
    } catch (error) {
      onError(error);
    }
  }

  function tryLater(): void {
    if (trying || closed || renewals.size === 0) return;
    trying = true;
    timer = setTimeout(() => {
      const tries = [...renewals].map(([key, renewal]) => tryOne(key, renewal));
      void Promise.all(tries).then(() => {
        trying = false;
        tryLater();
      });
    }, PAUSE);
    timer.unref();
  }

  return {
    add(added, retry) {
      change(JSON.stringify(added), { scopes: added, retry });
      tryLater();
    },
    scopes: () => scopes,
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}
