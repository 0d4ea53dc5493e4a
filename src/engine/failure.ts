import { GatewayError } from '../common/errors.ts';
import type { Emit } from '../common/events.ts';
import { reasonOf, Silence } from '../proxy/upstream.ts';

/** What a client is told when the engine failed. Host names and error codes stay in the log. */
export function engineFailure(error: unknown): GatewayError {
  const cause = reasonOf(error);
  if (cause instanceof GatewayError) return cause;
  return cause instanceof Silence
    ? new GatewayError('engine-timeout', 'The engine did not answer in time.', { cause })
    : new GatewayError('engine-unreachable', 'The engine cannot be reached.', { cause });
}

/** Tells of a failure of the engine, unless its client is at fault. */
export function reportFailure(emit: Emit, project: string, error: unknown): void {
  const { reason } = engineFailure(error);
  if (reason !== 'client-gone') {
    emit({ type: 'engine-failed', project, reason, error: reasonOf(error) });
  }
}
