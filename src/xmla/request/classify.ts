import type { EngineTraits } from '../../common/engine-kinds.ts';
import type { BypassReason } from '../../common/reasons.ts';
import { foldName } from '../fold-name.ts';
import { mdxTokens } from '../mdx/mdx-tokens.ts';
import type { MdxTokens } from '../mdx/mdx-tokens.ts';
import { classifyStatement, MAX_STATEMENT, normalizeStatement } from '../mdx/statement-policy.ts';
import { DISCOVER_TYPES } from './discover-types.ts';
import { classifyProperties, IGNORED_PROPERTIES, namesIdentity } from './property-policy.ts';
import type { DiscoverRequest, ExecuteRequest, XmlaRequest } from './xmla-request.ts';

/** What is asked of a statement more than once, so that it is read only once. */
export interface StatementReading {
  /** Undefined where there is no statement to be read, and for one longer than MAX_STATEMENT. */
  readonly tokens: MdxTokens | undefined;
  /** Why the answer to what is executed may not be cached; undefined when it may, and for a Discover. */
  readonly bypass: BypassReason | undefined;
}

/** Reads the statement of a request. */
export function readStatement(request: XmlaRequest): StatementReading {
  if (request.method === 'Discover') return { tokens: undefined, bypass: undefined };
  const { statement } = request;
  const tokens = statement.length > MAX_STATEMENT ? undefined : mdxTokens(statement);
  const bypass = isOneStatement(request) ? classifyStatement(statement, tokens) : 'not-a-query';
  return { tokens, bypass };
}

function isOneStatement({ commands }: ExecuteRequest): boolean {
  return commands.length === 1 && commands[0] === 'Statement';
}

/**
 * Why the answer to a request may not be looked up or stored; undefined when it may. What the request's own
 * data says, and nothing of headers, sessions, configuration or the state of the cache.
 * @param statement that of the request, where it has been read already
 */
export function classify(
  request: XmlaRequest,
  engine: Pick<EngineTraits, 'forwardedDiscovers'>,
  statement: StatementReading = readStatement(request),
): BypassReason | undefined {
  if (request.security) return 'security';
  if (request.unexpected !== undefined) return 'unknown-shape';
  const ofProperties = classifyProperties(request.properties);
  if (ofProperties !== undefined || request.method === 'Execute') {
    return ofProperties ?? statement.bypass;
  }
  return mayDiscover(request, engine) ? undefined : 'discover-type';
}

function mayDiscover(
  request: DiscoverRequest,
  engine: Pick<EngineTraits, 'forwardedDiscovers'>,
): boolean {
  const { requestType } = request;
  if (engine.forwardedDiscovers.includes(requestType)) return false;
  if (requestType === 'DISCOVER_PROPERTIES') return asksForHarmlessProperties(request);
  return DISCOVER_TYPES.has(requestType);
}

/**
 * Only with names, in the one form that every engine reads, so that it is plain what is asked for: never Catalog
 * (Kylin reads datasets and permissions anew when asked for it), nothing that tells who asks, and no property whose
 * value is not in the key, since engines tell the values that properties have in this very request.
 */
function asksForHarmlessProperties({ restrictions }: DiscoverRequest): boolean {
  return (
    restrictions.length > 0 &&
    restrictions.every(
      ({ name, form, values }) =>
        name === 'PropertyName' && form === 'plain' && values.every(isHarmlessProperty),
    )
  );
}

const VALUES_NOT_KEYED: ReadonlySet<string> = new Set([...IGNORED_PROPERTIES].map(foldName));

/** No letters beyond ASCII, which engines may take for others, and none that may stand for several names. */
function isHarmlessProperty(text: string): boolean {
  const name = text.trim();
  const folded = foldName(name);
  if (!/^[a-z\d]+$/i.test(name) || folded.includes('catalog')) return false;
  return !VALUES_NOT_KEYED.has(folded) && !namesIdentity(name);
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
  if (request.method === 'Discover' || statement.bypass === undefined) return false;
  return !isOneStatement(request) || normalizeStatement(request.statement) !== '';
}
