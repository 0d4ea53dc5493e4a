import { ReplyError } from 'ioredis';
import { unknownAuthority } from '../common/errors.ts';
import { ConnectionProblem, isDeadline } from './redis-connections.ts';

/** Redis is not asked after this many failures in a row, or one silence, until a probe succeeds. */
const FAILURES = 5;
const PROBES_MS = 1_000;
const PAUSE_MS = 500;
const LOST: Trouble = { why: 'the connection was lost', code: undefined };

export class CircuitOpenError extends Error {
  override readonly name = 'CircuitOpenError';
}

export type RunAtRedis = <T>(operation: () => Promise<T>) => Promise<T>;

export interface Trouble {
  readonly why: string;
  readonly code: string | undefined;
}

/**
 * Circuit breaker for Redis, with the cause of an outage. While no cause is known, it waits a
 * moment for the one that a try to connect finds. A request waits for one deadline at most.
 */
export function createRedisHealth(options: {
  isConnected: () => boolean;
  probe: () => Promise<unknown>;
  sleep: (milliseconds: number) => Promise<void>;
  onChange: (trouble: Trouble | undefined) => void;
}) {
  const { isConnected, probe, sleep, onChange } = options;
  let cause: Trouble | undefined;
  let told = false;
  let watching = false;
  const closing = new AbortController();
  const { signal } = closing;
  let failures = 0;
  /** Requests are kept from Redis (`yes`), and a probe failed since (`away`). */
  let left: 'no' | 'yes' | 'away' = 'no';
  const known = () => cause ?? LOST;
  const isUp = () => isConnected() && left !== 'away';

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

  /** Begins an outage if nothing else serves. @param partial another node may serve */
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
    trouble: () => (told ? known() : undefined),
    causeOf: (error: unknown) => readTrouble(error) ?? known(),
    failed,
    close: () => closing.abort(),
  };
}

/** Undefined if the error tells no cause, but only that the client is not connected. */
function readTrouble(error: unknown): Trouble | undefined {
  if (typeof error !== 'object' || error === null || !('message' in error)) {
    return { why: String(error), code: undefined };
  }
  const { message, code, errors, lastNodeError } = error as Partial<Record<string, unknown>>;
  if ('lastNodeError' in error) return lastNodeError ? readTrouble(lastNodeError) : undefined;
  if (message === '' && Array.isArray(errors)) return readTrouble(errors[0]);
  const isCause =
    typeof code === 'string' ||
    error instanceof ReplyError ||
    error instanceof ConnectionProblem ||
    isDeadline(error);
  if (!isCause) return undefined;
  // A server echoes the arguments of an unknown command, also of AUTH.
  const text = String(message).replace(/,? with args beginning with: [^\n]*/gu, '');
  if (typeof code === 'string') {
    return { why: unknownAuthority(code, 'cache.redis.ca') ?? text, code };
  }
  // Errors of sentinels begin otherwise; their password stands in the URL.
  const hint = text.startsWith('NOAUTH') ? ' Set cache.redis.password.' : '';
  // RESP: an error begins with a code in capitals.
  return { why: text + hint, code: /\b[A-Z]{4,}\b(?= )/u.exec(text)?.[0] };
}
