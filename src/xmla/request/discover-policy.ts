import type { EngineTraits } from '../../engine-kinds.ts';
import type { BypassReason } from '../../reasons.ts';
import { foldName } from '../fold-name.ts';
import { IGNORED_PROPERTIES, namesIdentity } from './property-policy.ts';
import type { DiscoverRequest } from './xmla-request.ts';

type Condition = (request: DiscoverRequest) => boolean;

const always: Condition = () => true;

/**
 * Only with names, in the one form that every engine reads, so that it is plain what is asked for: never Catalog
 * (Kylin reads datasets and permissions anew when asked for it), nothing that tells who asks, and no property whose
 * value is not in the key, since engines tell the values that properties have in this very request.
 */
const harmlessPropertyNames: Condition = ({ restrictions }) =>
  restrictions.length > 0 &&
  restrictions.every(
    ({ name, form, values }) =>
      name === 'PropertyName' && form === 'plain' && values.every(isHarmlessPropertyName),
  );

/**
 * The request types that may be cached, exactly so spelt (XMLA 1.1 and [MS-SSAS] §3.1.4.2.2). All others are
 * passed through: what they tell is momentary (sessions, connections, locks, memory, traces) or unknown.
 */
const CACHEABLE: ReadonlyMap<string, Condition> = new Map([
  ['DISCOVER_LITERALS', always],
  ['DISCOVER_KEYWORDS', always],
  ['DISCOVER_ENUMERATORS', always],
  ['DISCOVER_SCHEMA_ROWSETS', always],
  ['DISCOVER_DATASOURCES', always],
  ['DISCOVER_PROPERTIES', harmlessPropertyNames],
  ['DBSCHEMA_CATALOGS', always],
  ['DBSCHEMA_TABLES', always],
  ['DBSCHEMA_COLUMNS', always],
  ['DBSCHEMA_PROVIDER_TYPES', always],
  ['DBSCHEMA_SCHEMATA', always],
  ['MDSCHEMA_CUBES', always],
  ['MDSCHEMA_DIMENSIONS', always],
  ['MDSCHEMA_HIERARCHIES', always],
  ['MDSCHEMA_LEVELS', always],
  ['MDSCHEMA_MEASURES', always],
  ['MDSCHEMA_MEASUREGROUPS', always],
  ['MDSCHEMA_MEASUREGROUP_DIMENSIONS', always],
  ['MDSCHEMA_MEMBERS', always],
  ['MDSCHEMA_PROPERTIES', always],
  ['MDSCHEMA_SETS', always],
  ['MDSCHEMA_KPIS', always],
  ['MDSCHEMA_ACTIONS', always],
  ['MDSCHEMA_FUNCTIONS', always],
  ['MDSCHEMA_INPUT_DATASOURCES', always],
]);

/** Why the answer to a Discover may not be cached; undefined when it may. */
export function classifyDiscover(
  request: DiscoverRequest,
  engine: Pick<EngineTraits, 'forwardedDiscovers'>,
): BypassReason | undefined {
  const { requestType } = request;
  if (engine.forwardedDiscovers.includes(requestType)) return 'discover-type';
  const condition = CACHEABLE.get(requestType);
  return condition?.(request) === true ? undefined : 'discover-type';
}

const VALUES_NOT_KEYED: ReadonlySet<string> = new Set([...IGNORED_PROPERTIES].map(foldName));

/** No letters beyond ASCII, which engines may take for others, and none that may stand for several names. */
const PLAIN_NAME = /^[a-z\d]+$/i;

function isHarmlessPropertyName(text: string): boolean {
  const name = text.trim();
  const folded = foldName(name);
  return (
    PLAIN_NAME.test(name) &&
    !folded.includes('catalog') &&
    !VALUES_NOT_KEYED.has(folded) &&
    !namesIdentity(name)
  );
}
