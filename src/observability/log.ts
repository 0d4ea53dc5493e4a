import { pino, type DestinationStream, type Logger } from 'pino';
import type { LogConfig } from './config.ts';
import type { GatewayEvent } from '../common/events.ts';

/** How a line tells its time and its level (a word). */
export const LINE_FORM = {
  timestamp: createTimestamp(),
  formatters: { level: (level: string) => ({ level }) },
} as const;

/** As ISO 8601. Many lines have one moment, and to spell it took a third of a line. */
function createTimestamp(): () => string {
  let last = NaN;
  let text = '';
  return () => {
    const now = Date.now();
    if (now !== last) text = `,"time":"${new Date(now).toISOString()}"`;
    last = now;
    return text;
  };
}

export type Log = ReturnType<typeof createLog>;

/**
 * The log: one JSON line for each event that may have to be found later. Hits are told at debug only. Credentials never
 * come here: no event carries any, and errors are told by type, message, code and stack; failures of engines without
 * the stack. Levels: error = a person must act; warn = the gateway helps itself, but works less well; info = what
 * happened.
 * @param base what every line says
 */
export function createLog(
  config: LogConfig,
  destination: DestinationStream,
  base: object | null = null,
) {
  const form = { ...LINE_FORM, base: base as null, serializers: { err: describeError } };
  const log = pino({ ...form, level: config.level }, destination);
  let current = config;
  return {
    log,
    /** Subscribes the log to the events. */
    on: (event: GatewayEvent): void => tell(log, current, event),
    /** Goes over to another configuration. */
    configure(next: LogConfig): void {
      current = next;
      log.level = next.level;
    },
  };
}

/** Of what a user purged or tried to purge, or was told of others. */
const AUDIT = /^(?:purged|purge-refused|explained|compared|diagnosis-saved)$/;

/** Whether a line says what a user changed, purged or looked into. */
export function isAuditLine(msg: string | undefined, line: object | undefined): boolean {
  if (msg === 'api-answered') return (line as { changes?: unknown } | undefined)?.changes === true;
  return AUDIT.test(msg ?? '');
}

function tell(log: Logger, config: LogConfig, event: GatewayEvent): void {
  const { type } = event;
  switch (type) {
    case 'xmla-answered': {
      const isSlow = config.slow > 0 && event.milliseconds >= config.slow;
      const isHit = event.outcome.kind === 'hit' && event.complete;
      const level = isSlow ? 'warn' : isHit ? 'debug' : 'info';
      if (log.isLevelEnabled(level))
        log[level](requestLine(event, config.statements, isSlow), type);
      return;
    }
    case 'api-answered':
      if (event.status >= 500) return log.warn(lineOf(event), type);
      return log[event.changes || event.status >= 400 ? 'info' : 'debug'](lineOf(event), type);
    case 'purged':
      if (event.result !== 'cleared') return log.error(lineOf(event), type);
      // Most likely a misspelt name. What a change or a statement names may be new.
      if (/^(?:clear-cache|hook)$/.test(event.cause) && !event.known)
        return log.warn(lineOf(event), type);
      return log.info(lineOf(event), type);
    case 'redis-state':
    case 'engine-state':
      // Without a stack: it is not the gateway that failed.
      return log[event.state === 'up' ? 'info' : 'warn'](lineOf(event), type);
    case 'watch-state':
      return log[event.state === 'seeing' ? 'info' : 'warn'](lineOf(event), type);
    case 'login-refused':
      return log.info({ ...lineOf(event), user: undefined, principal: event.user }, type);
    case 'not-stored':
    case 'stored':
    case 'engine-answered':
    case 'shared-flight':
    case 'connection-closed':
      return log.debug(event, type);
    case 'warmed':
    case 'redis-failed':
      return log.debug(lineOf(event), type);
    case 'warm-run':
    case 'swept':
    case 'users-loaded':
    case 'explained':
    case 'compared':
    case 'diagnosis-saved':
      return log.info(lineOf(event), type);
    case 'purge-refused':
    case 'entry-rejected':
      return log.warn(lineOf(event), type);
    case 'hook-called':
      return log[/^(?:refused|failed)$/.test(event.result) ? 'warn' : 'info'](lineOf(event), type);
    case 'engine-failed':
      return log.child({}, ERRORS_OF_ENGINES).warn(lineOf(event), type);
    case 'warning':
      return log.warn({ err: event.error }, event.message);
    case 'internal-error':
      return log.error(lineOf(event), type);
  }
}

/** Of a statement so much is told (characters). */
const LONGEST_STATEMENT = 2_000;

function requestLine(
  event: Extract<GatewayEvent, { type: 'xmla-answered' }>,
  statements: LogConfig['statements'],
  isSlow: boolean,
): object {
  const { outcome, engine, statement } = event;
  const isTold = statement !== '' && (statements === 'all' || (statements === 'slow' && isSlow));
  // What is undefined is left out. Parts that are put together take longer.
  return {
    id: event.id,
    principal: event.principal,
    address: event.address,
    program: event.program,
    project: event.project,
    catalogs: event.catalogs,
    cubes: event.cubes,
    digest: event.digest,
    subject: event.subject,
    status: event.status,
    bytes: event.bytes,
    saved: Math.round(event.saved),
    complete: event.complete,
    kind: outcome.kind,
    detail: outcome.detail,
    stored: outcome.kind === 'miss' ? outcome.stored : undefined,
    ms: Math.round(event.milliseconds),
    waited_ms: engine && Math.round(engine.waited),
    engine_first_ms: engine?.first && Math.round(engine.first),
    engine_ms: engine?.last && Math.round(engine.last),
    slow: isSlow || undefined,
    why: event.why || undefined,
    trace: event.trace || undefined,
    statement: isTold ? statement.slice(0, LONGEST_STATEMENT) : undefined,
  };
}

type Told = { readonly type: string; readonly milliseconds?: number; readonly error?: unknown };

/** An event as it is told, but its type, which is the message. */
function lineOf({ type: _type, milliseconds, error, ...rest }: Told): object {
  return { ...rest, ms: milliseconds && Math.round(milliseconds), err: error };
}

const describeError = (error: unknown) => describe(error, true);
const ERRORS_OF_ENGINES = { serializers: { err: (error: unknown) => describe(error, false) } };

/**
 * Type, message, code and stack of an error and of its causes. Nothing else: drivers hang whole commands on their
 * errors, with passwords and keys among the arguments.
 * @param withStack without it an error of the program itself has its stack all the same
 */
function describe(error: unknown, withStack: boolean): unknown {
  if (!Error.isError(error)) return error === undefined ? undefined : String(error);
  const { name, message, stack, code, cause }: Error & { readonly code?: unknown } = error;
  const isFault = (error instanceof TypeError || error instanceof RangeError) && code === undefined;
  const stacks = withStack || isFault;
  return {
    type: name,
    message: withoutArguments(message),
    code,
    stack: stacks && stack !== undefined ? withoutArguments(stack) : undefined,
    cause: cause && describe(cause, stacks),
  };
}

/** A Redis that does not know a command says with which arguments it came, also of AUTH. */
function withoutArguments(text: string): string {
  return text.replace(/,? with args beginning with: [^\n]*/gu, '');
}
