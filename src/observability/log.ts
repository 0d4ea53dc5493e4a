import { pino, type DestinationStream, type Logger } from 'pino';
import type { LogConfig } from '../config/config.ts';
import type { Emit } from '../common/events.ts';

/**
 * The log: one JSON line for each event that may have to be found later. Hits are told at debug only. Credentials never
 * come here: no event carries any, and errors are told by type, message, code and stack; failures of engines without
 * the stack. Levels: error = a person must act; warn = the gateway helps itself, but works less well; info = what
 * happened.
 */
export function createLog(config: LogConfig, destination?: DestinationStream): Logger {
  const options = {
    level: config.level,
    base: null,
    serializers: { err: describeError },
  };
  return destination === undefined ? pino(options) : pino(options, destination);
}

/** Whether a line says what a user changed, or tried to purge. */
export function isAuditLine(msg: string | undefined, line: object | undefined): boolean {
  if (msg === 'api-answered')
    return line !== undefined && 'changes' in line && line.changes === true;
  return msg === 'purged' || msg === 'purge-refused';
}

/** Subscribes the log to the events. */
export function logEvents(log: Logger): Emit {
  return function on(event) {
    switch (event.type) {
      case 'xmla-answered': {
        if (!log.isLevelEnabled('debug') && event.outcome.kind === 'hit' && event.complete) return;
        const { type, outcome, why, id, principal, project, subject, status, bytes } = event;
        const { saved, complete } = event;
        const ms = Math.round(event.milliseconds);
        const about = { id, principal, project, subject, status, bytes, saved, complete, ms };
        const line = { ...about, ...outcome, ...(why !== '' && { why }) };
        return log[outcome.kind === 'hit' && complete ? 'debug' : 'info'](line, type);
      }
      case 'api-answered': {
        const { type, error, milliseconds, ...rest } = event;
        const line = { ...rest, ms: Math.round(milliseconds), err: error };
        if (rest.status >= 500) return log.warn(line, type);
        return log[rest.changes || rest.status >= 400 ? 'info' : 'debug'](line, type);
      }
      case 'purged': {
        const { type, milliseconds, ...rest } = event;
        const line = { ...rest, ms: Math.round(milliseconds) };
        return log[rest.result === 'cleared' ? 'info' : 'error'](line, type);
      }
      case 'purge-refused':
        return log.warn({ principal: event.principal, why: event.why }, event.type);
      case 'login-refused':
        return log.info(
          { reason: event.reason, principal: event.user, address: event.address },
          event.type,
        );
      case 'not-stored':
      case 'stored':
      case 'engine-answered':
      case 'shared-flight':
      case 'connection-closed':
        return log.debug(event, event.type);
      case 'engine-failed':
        return log.child({}, { serializers: { err: describeFailure } }).warn(
          {
            project: event.project,
            replica: event.replica,
            reason: event.reason,
            err: event.error,
          },
          event.type,
        );
      case 'redis-failed':
        return log.debug({ operation: event.operation, err: event.error }, event.type);
      case 'redis-state':
        if (event.state === 'up') return log.info({ state: event.state }, event.type);
        // Without a stack: it is not the gateway that failed.
        return log.warn({ state: event.state, why: event.why, code: event.code }, event.type);
      case 'swept':
        return log.info({ scanned: event.scanned, unlinked: event.unlinked }, event.type);
      case 'entry-rejected':
        return log.warn({ why: event.why }, event.type);
      case 'users-loaded':
        return log.info({ count: event.count }, event.type);
      case 'warning':
        return log.warn({ err: event.error }, event.message);
      case 'internal-error':
        return log.error({ id: event.id, err: event.error }, event.type);
    }
  };
}

const describeError = (error: unknown) => describe(error, true);
const describeFailure = (error: unknown) => describe(error, false);

/**
 * Type, message, code and stack of an error and of its causes. Nothing else: drivers hang whole commands on their
 * errors, with passwords and keys among the arguments.
 * @param withStack without it an error of the program itself has its stack all the same
 */
function describe(error: unknown, withStack: boolean): unknown {
  if (!isErrorLike(error)) return error === undefined ? undefined : String(error);
  const { name, message, stack, code, cause } = error;
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

interface ErrorLike {
  readonly name: string;
  readonly message: string;
  readonly stack?: string;
  readonly code?: unknown;
  readonly cause?: unknown;
}

function isErrorLike(error: unknown): error is ErrorLike {
  return typeof error === 'object' && error !== null && 'name' in error && 'message' in error;
}
