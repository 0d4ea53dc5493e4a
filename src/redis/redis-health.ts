import { ReplyError } from 'ioredis';
import { unknownAuthority } from '../common/errors.ts';
import { ConnectionProblem, isDeadline } from './redis-client.ts';

/** Redis is not asked after so many failures in a row, or one silence, until a probe succeeds. */
const FAILURES = 5;
/** Between two probes. */
const PROBES_MS = 1_000;
/** Between two looks whether an outage is over. */
const PAUSE_MS = 500;
/** Trouble of a connection that ended without a word. */
const LOST: Trouble = { why: 'the connection was lost', code: undefined };

/** Redis is left alone. */
export class CircuitOpenError extends Error {
  override readonly name = 'CircuitOpenError';
}

/** Runs what a request asks of Redis, or throws {@link CircuitOpenError} at once. */
export type RunAtRedis = <T>(operation: () => Promise<T>) => Promise<T>;

/** Why Redis cannot be used; never with a secret. */
export interface Trouble {
  readonly why: string;
  /** Such as ECONNREFUSED or WRONGPASS. */
  readonly code: string | undefined;
}

/**
 * Whether Redis can be used, and why not: joins what connections and commands tell. While no cause is known, it is waited
 * a moment for the one that a try to connect finds. No request waits for more than one deadline: after the first
 * silence, or so many failures in a row, nothing is asked for any request until a probe was answered.
 */
export function createRedisHealth(options: {
  /** Whether commands can be sent. */
  isConnected: () => boolean;
  /** Asks Redis for nothing; rejects when it did not answer in time. */
  probe: () => Promise<unknown>;
  sleep: (milliseconds: number) => Promise<void>;
  /** Is told the cause when an outage begins, and undefined when it is over. */
  onChange: (trouble: Trouble | undefined) => void;
}) {
  const { isConnected, probe, sleep, onChange } = options;
  let cause: Trouble | undefined;
  let told = false;
  let watching = false;
  const closing = new AbortController();
  const { signal } = closing;
  /** In a row. */
  let failures = 0;
  /** Whether Redis is left alone until a probe succeeds, and whether one failed already. */
  let left: 'no' | 'yes' | 'away' = 'no';
  const known = () => cause ?? LOST;
  const isUp = () => isConnected() && left !== 'away';

  /** Tells whether Redis can be used now, if that is not what was told. */
  function look(): void {
    if (signal.aborted) return;
    const up = isUp();
    if (up) cause = undefined;
    if (told !== up) return;
    told = !up;
    onChange(up ? undefined : known());
  }

  async function watch(): Promise<void> {
    if (watching) return;
    watching = true;
    do {
      await sleep(PAUSE_MS);
      look();
    } while (!signal.aborted && told);
    watching = false;
  }

  /** A connection failed; unless Redis can be used all the same an outage begins. @param partial: others may serve */
  function failed(error: unknown, partial = false): void {
    if (signal.aborted) return;
    cause = readTrouble(error) ?? cause;
    if (!partial && cause !== undefined && !isUp()) look();
    void watch();
  }

  function unanswered(error: unknown): true {
    const isFirst = left === 'yes';
    left = 'away';
    if (isFirst) failed(error);
    return true;
  }

  async function leaveAlone(): Promise<void> {
    left = 'yes';
    while (!signal.aborted && (await probe().then(() => false, unanswered))) await sleep(PROBES_MS);
    failures = 0;
    left = 'no';
    if (isUp()) look();
  }

  return {
    /** Through which requests ask Redis. */
    async run<T>(operation: () => Promise<T>): Promise<T> {
      if (left !== 'no') throw new CircuitOpenError('Redis is not asked for now');
      try {
        const result = await operation();
        failures = 0;
        return result;
      } catch (error) {
        failures += 1;
        const enough = failures >= FAILURES || isDeadline(error);
        if (enough && left === 'no' && !signal.aborted) void leaveAlone();
        throw error;
      }
    },
    state: () => (isUp() ? ('up' as const) : ('down' as const)),
    /** The trouble of the outage that lasts; undefined during none. */
    trouble: () => (told ? known() : undefined),
    /** The cause of a failure: what it tells itself, else what was found out of the connections. */
    causeOf: (error: unknown) => readTrouble(error) ?? known(),
    failed,
    close: () => closing.abort(),
  };
}

/** Undefined where the error tells no cause: all other errors of the client only say that there is no connection. */
function readTrouble(error: unknown): Trouble | undefined {
  if (typeof error !== 'object' || error === null || !('message' in error)) {
    return { why: String(error), code: undefined };
  }
  const { message, code, errors, lastNodeError } = error as Partial<Record<string, unknown>>;
  // Of a cluster none of whose nodes answered: the last one tells.
  if ('lastNodeError' in error) return lastNodeError ? readTrouble(lastNodeError) : undefined;
  // Of a host with several addresses none of which answered.
  if (message === '' && Array.isArray(errors)) return readTrouble(errors[0]);
  const isCause =
    typeof code === 'string' ||
    error instanceof ReplyError ||
    error instanceof ConnectionProblem ||
    isDeadline(error);
  if (!isCause) return undefined;
  // A server that does not know a command says with which arguments it came, also of AUTH.
  const text = String(message).replace(/,? with args beginning with: [^\n]*/gu, '');
  if (typeof code === 'string') {
    return { why: unknownAuthority(code, 'cache.redis.ca') ?? text, code };
  }
  // Not of a sentinel, whose password stands in its URL.
  const hint = text.startsWith('NOAUTH') ? ' Set cache.redis.password.' : '';
  // Of what a server says the first word in capitals is the code (RESP).
  return { why: text + hint, code: /\b[A-Z]{4,}\b(?= )/u.exec(text)?.[0] };
}
