import type { EngineTraits } from '../../engine-kinds.ts';
import type { BypassReason } from '../../reasons.ts';
import { foldName } from '../fold-name.ts';
import { namesIdentity } from './property-policy.ts';
import type { DiscoverRequest, Restriction } from './xmla-request.ts';

type Condition = (request: DiscoverRequest) => boolean;

const always: Condition = () => true;

/**
 * Only with names, so that it is plain what is asked for: never Catalog (Kylin reads datasets and permissions
 * anew when asked for it) and nothing that tells who asks.
 */
const harmlessPropertyNames: Condition = ({ restrictions }) => {
  const names = restrictions.filter(isPropertyName).flatMap(({ values }) => values);
  return names.length > 0 && names.every(isHarmlessPropertyName);
};

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

function isPropertyName({ name }: Restriction): boolean {
  return name === 'PropertyName';
}

function isHarmlessPropertyName(name: string): boolean {
  return name.trim() !== '' && !foldName(name).includes('catalog') && !namesIdentity(name);
}
