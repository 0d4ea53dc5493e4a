/** What the answers to a Discover of one type hold. */
export interface DiscoverType {
  /** The restriction that narrows it to one catalog, 'none' where it holds nothing of any; undefined: it spans them. */
  readonly catalog?: string;
  /** Whether each row belongs to one cube, which the restriction CUBE_NAME selects; 'none' where no row does. */
  readonly cube?: 'each' | 'none';
}

const ENGINE: DiscoverType = { catalog: 'none', cube: 'none' };
const CATALOG: DiscoverType = { catalog: 'CATALOG_NAME', cube: 'none' };
const TABLE: DiscoverType = { catalog: 'TABLE_CATALOG' };
const CUBE: DiscoverType = { catalog: 'CATALOG_NAME', cube: 'each' };

/**
 * The request types that may be cached, exactly so spelt (XMLA 1.1 and [MS-SSAS] §3.1.4.2.2). All others are
 * passed through: what they tell is momentary (sessions, connections, locks, memory, traces) or unknown.
 */
export const DISCOVER_TYPES: ReadonlyMap<string, DiscoverType> = new Map([
  ['DISCOVER_LITERALS', ENGINE],
  ['DISCOVER_KEYWORDS', ENGINE],
  ['DISCOVER_ENUMERATORS', ENGINE],
  ['DISCOVER_SCHEMA_ROWSETS', ENGINE],
  ['DISCOVER_DATASOURCES', { cube: 'none' }],
  ['DISCOVER_PROPERTIES', { cube: 'none' }],
  ['DBSCHEMA_CATALOGS', CATALOG],
  ['DBSCHEMA_SCHEMATA', CATALOG],
  ['DBSCHEMA_TABLES', TABLE],
  ['DBSCHEMA_COLUMNS', TABLE],
  ['DBSCHEMA_PROVIDER_TYPES', ENGINE],
  ['MDSCHEMA_CUBES', CUBE],
  ['MDSCHEMA_DIMENSIONS', CUBE],
  ['MDSCHEMA_HIERARCHIES', CUBE],
  ['MDSCHEMA_LEVELS', CUBE],
  ['MDSCHEMA_MEASURES', CUBE],
  ['MDSCHEMA_MEASUREGROUPS', CUBE],
  ['MDSCHEMA_MEASUREGROUP_DIMENSIONS', CUBE],
  ['MDSCHEMA_MEMBERS', CUBE],
  ['MDSCHEMA_PROPERTIES', CUBE],
  ['MDSCHEMA_SETS', CUBE],
  ['MDSCHEMA_KPIS', CUBE],
  ['MDSCHEMA_ACTIONS', CUBE],
  ['MDSCHEMA_FUNCTIONS', { cube: 'none' }],
  // The databases that a catalog is filled from.
  ['MDSCHEMA_INPUT_DATASOURCES', CATALOG],
]);
