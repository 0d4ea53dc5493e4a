import { pino, type DestinationStream, type Logger } from 'pino';
import type { LogConfig } from './config.ts';
import type { EventOf, GatewayEvent } from '../common/events.ts';
import { type EventRow, type EventRows, fieldsOf } from './event-rows.ts';

export const LINE_FORM = {
  timestamp: createTimestamp(),
  formatters: { level: (level: string) => ({ level }) },
} as const;

/** ISO 8601, kept for lines of one moment: spelling it took a third of a line. */
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
 * Writes a JSON line for each event. No event carries credentials; errors are told by type,
 * message, code and stack. Levels: error = a person must act; warn = the gateway works less well;
 * info = what happened; debug = hits too.
 * @param base members of every line
 */
export function createLog(
  rows: EventRows,
  config: LogConfig,
  destination: DestinationStream,
  base: object | null = null,
) {
  const form = { ...LINE_FORM, base: base as null, serializers: WITH_STACK };
  const log = pino({ ...form, level: config.level }, destination);
  let current = config;
  return {
    log,
    on: (event: GatewayEvent): void => tell(log, rows[event.type] as Told, current, event),
    configure(next: LogConfig): void {
      current = next;
      log.level = next.level;
    },
  };
}

type Answered = EventOf<'xmla-answered'>;
const isSlow = ({ milliseconds }: Answered, { slow }: LogConfig) =>
  slow > 0 && milliseconds >= slow;

export function levelOfAnswer(event: Answered, config: LogConfig) {
  if (isSlow(event, config)) return 'warn';
  return event.outcome.kind === 'hit' && event.complete ? 'debug' : 'info';
}

const LONGEST_STATEMENT = 2_000;

export function fieldsOfAnswer(event: Answered, config: LogConfig): object {
  const { outcome, engine, statement } = event;
  const { statements } = config;
  const slow = isSlow(event, config);
  const isTold = statement !== '' && (statements === 'all' || (statements === 'slow' && slow));
  // Undefined members are left out. Joining parts takes longer.
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
    slow: slow || undefined,
    why: event.why || undefined,
    trace: event.trace || undefined,
    statement: isTold ? statement.slice(0, LONGEST_STATEMENT) : undefined,
  };
}

type Told = EventRow<GatewayEvent>;

/** Tells audit lines: what a user changed, purged or looked into. */
export const auditLines =
  (rows: EventRows) =>
  (message = '', line: object = {}): boolean =>
    (rows as Readonly<Record<string, Told | undefined>>)[message]?.isAudit?.(line as never) ===
    true;

function tell(log: Logger, row: Told, config: LogConfig, event: GatewayEvent): void {
  const level = typeof row.level === 'function' ? row.level(event, config) : row.level;
  if (!log.isLevelEnabled(level)) return;
  const fields = row.fields ? row.fields(event, config) : fieldsOf(event);
  const message = row.message?.(event) ?? event.type;
  (row.withoutStack ? log.child({}, WITHOUT_STACK) : log)[level](fields, message);
}

const WITH_STACK = { err: (error: unknown) => describe(error, true) };
const WITHOUT_STACK = { serializers: { err: (error: unknown) => describe(error, false) } };

/**
 * Type, message, code and stack of an error and its causes, and nothing else: drivers hang commands
 * on errors, with passwords and keys. Errors of the program itself always have their stack.
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
const withoutArguments = (text: string) =>
  text.replace(/,? with args beginning with: [^\n]*/gu, '');
