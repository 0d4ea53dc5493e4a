import type { EngineKind } from '../config/config.ts';
import type { BypassReason } from '../reasons.ts';
import { classifyDiscover } from './discover-policy.ts';
import { classifyProperties } from './property-policy.ts';
import { classifyStatement } from './statement-policy.ts';
import type { ExecuteRequest, XmlaRequest } from './xmla-request.ts';

type Check = (request: XmlaRequest, kind: EngineKind) => BypassReason | undefined;

/** In the order in which they are asked; the first that answers is the reason. */
const CHECKS: readonly Check[] = [
  ({ session }) => (session.kind === 'none' ? undefined : 'session'),
  ({ security }) => (security ? 'security' : undefined),
  ({ unexpected }) => (unexpected === undefined ? undefined : 'unknown-shape'),
  ({ properties }) => classifyProperties(properties),
  (request, kind) =>
    request.method === 'Discover' ? classifyDiscover(request, kind) : classifyExecute(request),
];

/**
 * Why the answer to a request may not be looked up or stored; undefined when it may. What the request's own
 * data says, and nothing of headers, configuration or the state of the cache.
 */
export function classify(request: XmlaRequest, kind: EngineKind): BypassReason | undefined {
  for (const check of CHECKS) {
    const reason = check(request, kind);
    if (reason !== undefined) {
      return reason;
    }
  }
  return undefined;
}

function classifyExecute({ commands, statement }: ExecuteRequest): BypassReason | undefined {
  return commands.length === 1 && commands[0] === 'Statement'
    ? classifyStatement(statement)
    : 'not-a-query';
}
