/** Thrown instead of asking Redis while the breaker is open. */
export class CircuitOpenError extends Error {
  override readonly name = 'CircuitOpenError';
}

export interface CircuitBreaker {
  /** Runs the operation, or throws {@link CircuitOpenError} at once. */
  run<T>(operation: () => Promise<T>): Promise<T>;
  readonly open: boolean;
}

/**
 * Keeps requests from waiting, each for its own deadline, for a Redis that does not answer. After so many
 * failures in a row nothing is asked for a while; then one operation tries, and decides.
 */
export function createCircuitBreaker(options: {
  failures: number;
  /** Milliseconds between two tries while it is open. */
  pause: number;
  now: () => number;
  onChange: (open: boolean, error?: unknown) => void;
}): CircuitBreaker {
  let failures = 0;
  let retryAt = 0;
  const isOpen = () => failures >= options.failures;

  return {
    async run(operation) {
      if (isOpen()) {
        if (options.now() < retryAt) throw new CircuitOpenError('Redis is not asked for now');
        retryAt = options.now() + options.pause;
      }
      try {
        const result = await operation();
        if (isOpen()) options.onChange(false);
        failures = 0;
        return result;
      } catch (error) {
        failures += 1;
        if (isOpen()) retryAt = options.now() + options.pause;
        if (failures === options.failures) options.onChange(true, error);
        throw error;
      }
    },
    get open() {
      return isOpen();
    },
  };
}
