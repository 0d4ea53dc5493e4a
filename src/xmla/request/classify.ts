import type { EngineTraits } from '../../engine-kinds.ts';
import type { BypassReason } from '../../reasons.ts';
import { classifyDiscover } from './discover-policy.ts';
import { classifyProperties } from './property-policy.ts';
import { normalizeStatement } from '../mdx/statement-policy.ts';
import { readStatement } from './read-statement.ts';
import type { StatementReading } from './read-statement.ts';
import type { ExecuteRequest, XmlaRequest } from './xmla-request.ts';

type Check = (
  request: XmlaRequest,
  engine: EngineTraits,
  statement: StatementReading,
) => BypassReason | undefined;

/** In the order in which they are asked; the first that answers is the reason. */
const CHECKS: readonly Check[] = [
  ({ security }) => (security ? 'security' : undefined),
  ({ unexpected }) => (unexpected === undefined ? undefined : 'unknown-shape'),
  ({ properties }) => classifyProperties(properties),
  (request, engine, { bypass }) =>
    request.method === 'Discover' ? classifyDiscover(request, engine) : bypass,
];

/**
 * Why the answer to a request may not be looked up or stored; undefined when it may. What the request's own
 * data says, and nothing of headers, sessions, configuration or the state of the cache.
 * @param statement that of the request, where it has been read already
 */
export function classify(
  request: XmlaRequest,
  engine: EngineTraits,
  statement: StatementReading = readStatement(request),
): BypassReason | undefined {
  for (const check of CHECKS) {
    const reason = check(request, engine, statement);
    if (reason !== undefined) {
      return reason;
    }
  }
  return undefined;
}

/**
 * Whether the request may leave something behind in the session in which it runs: everything that is executed
 * and not on the allow-list, and everything of which it is not plain what it says. An empty statement is how
 * clients begin a session and keep it alive.
 * @param statement that of the request, where it has been read already
 */
export function leavesState(
  request: XmlaRequest,
  statement: StatementReading = readStatement(request),
): boolean {
  if (request.unexpected !== undefined || request.security || request.sessionToken) return true;
  const ofProperties = classifyProperties(request.properties);
  if (ofProperties === 'identity-property' || ofProperties === 'duplicate-property') return true;
  return (
    request.method === 'Execute' && statement.bypass !== undefined && !isEmptyStatement(request)
  );
}

function isEmptyStatement({ commands, statement }: ExecuteRequest): boolean {
  return (
    commands.length === 1 && commands[0] === 'Statement' && normalizeStatement(statement) === ''
  );
}
