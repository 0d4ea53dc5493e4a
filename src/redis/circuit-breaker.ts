/** Thrown instead of asking Redis while the breaker is open. */
export class CircuitOpenError extends Error {
  override readonly name = 'CircuitOpenError';
}

export interface CircuitBreaker {
  /** Runs the operation, or throws {@link CircuitOpenError} at once. */
  run<T>(operation: () => Promise<T>): Promise<T>;
  /** Whether Redis is known to be away. */
  readonly open: boolean;
  close(): void;
}

/**
 * Keeps requests from waiting for a Redis that does not answer. A request asks Redis more than once, so after the first
 * silence nothing is asked for any request: a probe in the background finds out whether Redis answers, and is repeated
 * until it does. So no request waits for more than one deadline. Failures that come at once cost no time; nothing
 * is asked after so many of them in a row.
 */
export function createCircuitBreaker(options: {
  failures: number;
  /** Milliseconds between two probes. */
  pause: number;
  /** Asks Redis for nothing; rejects when it did not answer in time. */
  probe: () => Promise<unknown>;
  sleep: (milliseconds: number) => Promise<void>;
  /** Whether a request waited for the failure. */
  isSilence: (error: unknown) => boolean;
  onChange: (open: boolean, error?: unknown) => void;
}): CircuitBreaker {
  let failures = 0;
  let resting = false;
  let open = false;
  const closing = new AbortController();

  function change(next: boolean, error?: unknown): void {
    if (open === next) return;
    open = next;
    options.onChange(next, error);
  }

  async function rest(): Promise<void> {
    resting = true;
    while (!closing.signal.aborted) {
      try {
        await options.probe();
        break;
      } catch (error) {
        change(true, error);
        await options.sleep(options.pause);
      }
    }
    failures = 0;
    resting = false;
    change(false);
  }

  return {
    async run(operation) {
      if (resting) throw new CircuitOpenError('Redis is not asked for now');
      try {
        const result = await operation();
        failures = 0;
        return result;
      } catch (error) {
        failures += 1;
        const enough = failures >= options.failures || options.isSilence(error);
        if (enough && !resting && !closing.signal.aborted) void rest();
        throw error;
      }
    },
    get open() {
      return open;
    },
    close() {
      closing.abort();
    },
  };
}
