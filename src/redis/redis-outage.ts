/** How often it is looked, during an outage, whether it is over (ms). */
const PAUSE = 500;
/** Of a connection that ended without a word. */
const LOST = 'the connection was lost';

/** Why Redis cannot be used, in the words of whoever found it out; never with a secret. */
export interface Trouble {
  readonly why: string;
  /** Such as ECONNREFUSED or WRONGPASS. */
  readonly code: string | undefined;
}

/** What is told once for each time in which Redis cannot be used. */
export interface RedisOutage {
  /**
   * Takes note of a failure; it begins an outage unless Redis can be used all the same.
   * @param partial whether others may serve in the place of what failed
   */
  failed(error: unknown, partial?: boolean): void;
  /** Looks whether the outage is over. */
  look(): void;
  /** The cause of a failure: what it tells itself, or what was found out of the connections where it tells nothing. */
  causeOf(error: unknown): Trouble;
  /** Of the outage that lasts; undefined during none. */
  trouble(): Trouble | undefined;
  close(): void;
}

/**
 * Joins what connections and commands tell. Failures that only say that there is no connection are no cause: while none
 * is known, it is waited a moment for the one that a try to connect finds.
 */
export function createRedisOutage(options: {
  /** Whether commands can be sent, and are answered. */
  isUp: () => boolean;
  sleep: (milliseconds: number) => Promise<void>;
  /** Is told the cause when an outage begins, and undefined when it is over. */
  onChange: (trouble: Trouble | undefined) => void;
}): RedisOutage {
  let cause: Trouble | undefined;
  let told = false;
  let watching = false;
  const closing = new AbortController();

  function begin(): void {
    if (told) return;
    told = true;
    options.onChange(cause ?? { why: LOST, code: undefined });
  }

  function look(): void {
    if (closing.signal.aborted || !options.isUp()) return;
    cause = undefined;
    if (!told) return;
    told = false;
    options.onChange(undefined);
  }

  async function watch(): Promise<void> {
    if (watching) return;
    watching = true;
    do {
      await options.sleep(PAUSE);
      look();
      if (!closing.signal.aborted && !options.isUp()) begin();
    } while (!closing.signal.aborted && told);
    watching = false;
  }

  return {
    failed(error, partial = false) {
      if (closing.signal.aborted) return;
      cause = readTrouble(error) ?? cause;
      if (!partial && cause !== undefined && !options.isUp()) begin();
      void watch();
    },
    look,
    causeOf: (error) => readTrouble(error) ?? cause ?? { why: LOST, code: undefined },
    trouble: () => (told ? (cause ?? { why: LOST, code: undefined }) : undefined),
    close() {
      closing.abort();
    },
  };
}

/** What ioredis, or the breaker, says of a command when there is no connection. */
const CONSEQUENCE =
  /^(?:Stream isn't writeable|Connection is closed|Redis is not asked|All sentinels are unreachable|Cluster isn't ready|Command aborted)/u;

/** A server that does not know a command says with which arguments it came, also of AUTH. */
function withoutArguments(message: string): string {
  return message.replace(/,? with args beginning with: [^\n]*/gu, '');
}

/** Undefined where the error tells no cause. */
function readTrouble(error: unknown): Trouble | undefined {
  if (!isErrorLike(error)) return { why: String(error), code: undefined };
  const { message, code, errors, lastNodeError } = error;
  // Of a cluster none of whose nodes answered: the last one tells.
  if ('lastNodeError' in error)
    return isErrorLike(lastNodeError) ? readTrouble(lastNodeError) : undefined;
  if (CONSEQUENCE.test(message)) return undefined;
  // Of a host with several addresses none of which answered.
  if (message === '' && Array.isArray(errors) && isErrorLike(errors[0]))
    return readTrouble(errors[0]);
  const why = withoutArguments(message);
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
