import { ReplyError } from 'ioredis';
import { createCircuitBreaker, type CircuitBreaker } from './circuit-breaker.ts';
import { ConnectionProblem, isDeadline } from './redis-connections.ts';

/** Redis is not asked after so many failures in a row, or one silence, until a probe succeeds; tried in such pauses (ms). */
const BREAKER = { failures: 5, pause: 1_000 };
/** How often it is looked, during an outage, whether it is over (ms). */
const PAUSE = 500;
/** Of a connection that ended without a word. */
const LOST = 'the connection was lost';

/** Why Redis cannot be used; never with a secret. */
export interface Trouble {
  readonly why: string;
  /** Such as ECONNREFUSED or WRONGPASS. */
  readonly code: string | undefined;
}

/** Whether Redis can be used, and why not. */
export interface RedisHealth {
  /** Through which requests ask Redis. */
  readonly breaker: CircuitBreaker;
  state(): 'up' | 'down';
  /** Of the outage that lasts; undefined during none. */
  trouble(): Trouble | undefined;
  /** The cause of a failure: what it tells itself, or what was found out of the connections where it tells nothing. */
  causeOf(error: unknown): Trouble;
  /**
   * Takes note of a failed connection; it begins an outage unless Redis can be used all the same.
   * @param partial whether others may serve in the place of what failed
   */
  failed(error: unknown, partial?: boolean): void;
  close(): void;
}

/**
 * Joins what connections and commands tell. Failures that only say that there is no connection are no cause: while none
 * is known, it is waited a moment for the one that a try to connect finds.
 */
export function createRedisHealth(options: {
  /** Whether commands can be sent. */
  isConnected: () => boolean;
  /** Asks Redis for nothing; rejects when it did not answer in time. */
  probe: () => Promise<unknown>;
  sleep: (milliseconds: number) => Promise<void>;
  /** Is told the cause when an outage begins, and undefined when it is over. */
  onChange: (trouble: Trouble | undefined) => void;
}): RedisHealth {
  const { isConnected, sleep, onChange } = options;
  let cause: Trouble | undefined;
  let told = false;
  let watching = false;
  const closing = new AbortController();

  const breaker = createCircuitBreaker({
    ...BREAKER,
    probe: options.probe,
    sleep,
    isSilence: isDeadline,
    onChange(open, error) {
      if (open) failed(error);
      else look();
    },
  });
  const isUp = () => isConnected() && !breaker.open;

  function begin(): void {
    if (told) return;
    told = true;
    onChange(cause ?? { why: LOST, code: undefined });
  }

  function look(): void {
    if (closing.signal.aborted || !isUp()) return;
    cause = undefined;
    if (!told) return;
    told = false;
    onChange(undefined);
  }

  async function watch(): Promise<void> {
    if (watching) return;
    watching = true;
    do {
      await sleep(PAUSE);
      look();
      if (!closing.signal.aborted && !isUp()) begin();
    } while (!closing.signal.aborted && told);
    watching = false;
  }

  function failed(error: unknown, partial = false): void {
    if (closing.signal.aborted) return;
    cause = readTrouble(error) ?? cause;
    if (!partial && cause !== undefined && !isUp()) begin();
    void watch();
  }

  const known = () => cause ?? { why: LOST, code: undefined };
  return {
    breaker,
    state: () => (isUp() ? 'up' : 'down'),
    trouble: () => (told ? known() : undefined),
    causeOf: (error) => readTrouble(error) ?? known(),
    failed,
    close() {
      closing.abort();
      breaker.close();
    },
  };
}

/** Undefined where the error tells no cause: all other errors of the client only say that there is no connection. */
function readTrouble(error: unknown): Trouble | undefined {
  if (!isErrorLike(error)) return { why: String(error), code: undefined };
  const { message, code, errors, lastNodeError } = error;
  // Of a cluster none of whose nodes answered: the last one tells.
  if ('lastNodeError' in error) {
    return isErrorLike(lastNodeError) ? readTrouble(lastNodeError) : undefined;
  }
  // Of a host with several addresses none of which answered.
  if (message === '' && Array.isArray(errors)) return readTrouble(errors[0]);
  const isCause =
    typeof code === 'string' ||
    error instanceof ReplyError ||
    error instanceof ConnectionProblem ||
    isDeadline(error);
  if (!isCause) return undefined;
  // A server that does not know a command says with which arguments it came, also of AUTH.
  const why = message.replace(/,? with args beginning with: [^\n]*/gu, '');
  // Of what a server says the first word in capitals is the code (RESP).
  return { why, code: typeof code === 'string' ? code : /\b[A-Z]{4,}\b(?= )/u.exec(why)?.[0] };
}

interface ErrorLike {
  readonly message: string;
  readonly code?: unknown;
  readonly errors?: unknown;
  readonly lastNodeError?: unknown;
}

function isErrorLike(error: unknown): error is ErrorLike {
  return typeof error === 'object' && error !== null && 'message' in error;
}
