import { foldName } from '../fold-name.ts';
import { objectNames, type ObjectNames } from './object-names.ts';
import { sourcesOf, type StatementSources } from './statement-sources.ts';
import type { DiscoverRequest, ExecuteRequest, Restriction, XmlaRequest } from './xmla-request.ts';

/** Which catalogs an answer may come from, for the purge. Naming too many is safe. */
export interface NamedCatalogs {
  /** As spelt, each once, in the order of the request; without empty and too long ones. */
  readonly catalogs: readonly string[];
  /** True when the answer may speak of catalogs that the request does not name. */
  readonly spansCatalogs: boolean;
  /**
   * True when a statement names the catalog of a cube by itself, as in `FROM [catalog].[cube]`: then neither a
   * project that the engine is told of nor the catalog of its session says where the data come from.
   */
  readonly qualified: boolean;
  /** Why some that it names are left out; undefined where none is. */
  readonly excess: ObjectNames['excess'];
}

/** The restriction that narrows a rowset to one catalog. A rowset that is not here has none. */
const NARROWING: ReadonlyMap<string, string> = new Map([
  ['DBSCHEMA_CATALOGS', 'CATALOG_NAME'],
  ['DBSCHEMA_SCHEMATA', 'CATALOG_NAME'],
  ['DBSCHEMA_TABLES', 'TABLE_CATALOG'],
  ['DBSCHEMA_COLUMNS', 'TABLE_CATALOG'],
  ['MDSCHEMA_CUBES', 'CATALOG_NAME'],
  ['MDSCHEMA_DIMENSIONS', 'CATALOG_NAME'],
  ['MDSCHEMA_HIERARCHIES', 'CATALOG_NAME'],
  ['MDSCHEMA_LEVELS', 'CATALOG_NAME'],
  ['MDSCHEMA_MEASURES', 'CATALOG_NAME'],
  ['MDSCHEMA_MEASUREGROUPS', 'CATALOG_NAME'],
  ['MDSCHEMA_MEASUREGROUP_DIMENSIONS', 'CATALOG_NAME'],
  ['MDSCHEMA_MEMBERS', 'CATALOG_NAME'],
  ['MDSCHEMA_PROPERTIES', 'CATALOG_NAME'],
  ['MDSCHEMA_SETS', 'CATALOG_NAME'],
  ['MDSCHEMA_KPIS', 'CATALOG_NAME'],
  ['MDSCHEMA_ACTIONS', 'CATALOG_NAME'],
  ['MDSCHEMA_INPUT_DATASOURCES', 'CATALOG_NAME'],
]);

/** Rowsets about the engine and its language. They hold nothing of any catalog. */
const OF_NO_CATALOG: ReadonlySet<string> = new Set([
  'DISCOVER_LITERALS',
  'DISCOVER_KEYWORDS',
  'DISCOVER_ENUMERATORS',
  'DISCOVER_SCHEMA_ROWSETS',
  'DBSCHEMA_PROVIDER_TYPES',
]);

/**
 * Collects the Catalog property and the catalog restrictions, in whatever case their names are written. An
 * Execute runs in the catalog of the property spelt exactly `Catalog`; without it, or with another spelling,
 * the engine chooses one that the request does not name (Mondrian: its first). SSAS lets a statement name the
 * catalog of a cube, so each part of a qualified name behind a FROM may be one. A Discover spans catalogs
 * unless it carries the one restriction that every engine reads as a single catalog; Catalog as a property
 * narrows it on some engines only.
 * @param sources those of its statement, where they have been read already
 */
export function namedCatalogs(
  request: XmlaRequest,
  sources: StatementSources = sourcesOf(request),
): NamedCatalogs {
  const properties = request.properties
    .filter(({ name }) => foldName(name) === 'catalog')
    .map(({ value }) => value);
  const { qualified } = sources;
  const inRequest =
    request.method === 'Discover'
      ? request.restrictions.filter(isCatalogRestriction).flatMap(({ values }) => values)
      : qualified
        ? sources.names
        : [];
  const narrowed = request.method === 'Discover' ? isNarrowed(request) : namesCatalog(request);
  const { names, excess } = objectNames([...properties, ...inRequest]);
  return { catalogs: names, spansCatalogs: qualified || !narrowed, qualified, excess };
}

function isNarrowed({ requestType, restrictions }: DiscoverRequest): boolean {
  if (OF_NO_CATALOG.has(requestType)) return true;
  const name = NARROWING.get(requestType);
  const narrowing = restrictions.filter((one) => one.name === name);
  return (
    narrowing.length > 0 &&
    narrowing.every(({ form, values }) => form === 'plain' && values.every(isName))
  );
}

function namesCatalog({ properties }: ExecuteRequest): boolean {
  return properties.some(({ name, value }) => name === 'Catalog' && isName(value));
}

/** CATALOG_NAME, TABLE_CATALOG, CONSTRAINT_CATALOG … */
function isCatalogRestriction({ name }: Restriction): boolean {
  return /catalog(?:_name)?$/.test(foldName(name));
}

function isName(catalog: string): boolean {
  return catalog.trim() !== '';
}
