import { foldName } from '../fold-name.ts';
import { objectNames, type ObjectNames } from './object-names.ts';
import { sourcesOf, type StatementSources } from './statement-sources.ts';
import type { DiscoverRequest, XmlaRequest } from './xmla-request.ts';

/** Which cubes an answer may hold data of. Naming too many is safe. */
export interface NamedCubes {
  /** As spelt, without brackets, each once, in the order of the request; without empty and too long ones. */
  readonly cubes: readonly string[];
  /** False when the answer may hold data of cubes that are not named. */
  readonly certain: boolean;
  /** Why some that it names are left out; undefined where none is. */
  readonly excess: ObjectNames['excess'];
}

/** Rowsets of which every row belongs to one cube, which the restriction CUBE_NAME selects. */
const BY_CUBE: ReadonlySet<string> = new Set([
  'MDSCHEMA_CUBES',
  'MDSCHEMA_DIMENSIONS',
  'MDSCHEMA_HIERARCHIES',
  'MDSCHEMA_LEVELS',
  'MDSCHEMA_MEASURES',
  'MDSCHEMA_MEASUREGROUPS',
  'MDSCHEMA_MEASUREGROUP_DIMENSIONS',
  'MDSCHEMA_MEMBERS',
  'MDSCHEMA_PROPERTIES',
  'MDSCHEMA_SETS',
  'MDSCHEMA_KPIS',
  'MDSCHEMA_ACTIONS',
]);

/** Rowsets that hold nothing of any cube, each with what it holds instead. */
const OF_NO_CUBE: ReadonlyMap<string, string> = new Map([
  ['DISCOVER_LITERALS', 'how names are quoted'],
  ['DISCOVER_KEYWORDS', 'words of the language'],
  ['DISCOVER_ENUMERATORS', 'constants of the protocol'],
  ['DISCOVER_SCHEMA_ROWSETS', 'the rowsets that there are'],
  ['DISCOVER_DATASOURCES', 'addresses of the engine'],
  ['DISCOVER_PROPERTIES', 'properties of engine and connection'],
  ['DBSCHEMA_CATALOGS', 'catalogs as a whole'],
  ['DBSCHEMA_SCHEMATA', 'schemas of catalogs as a whole'],
  ['DBSCHEMA_PROVIDER_TYPES', 'types of values'],
  ['MDSCHEMA_FUNCTIONS', 'functions of the language'],
  ['MDSCHEMA_INPUT_DATASOURCES', 'the databases that a catalog is filled from'],
]);

/**
 * Collects the cubes of a request: for an Execute the names behind every FROM, in subselects and quoted
 * formulas too, and the property Cube; for a Discover its restrictions by cube. What a cube of the engine
 * takes from other cubes (virtual and linked ones, perspectives) is not seen here.
 * @param sources those of its statement, where they have been read already
 */
export function namedCubes(
  request: XmlaRequest,
  sources: StatementSources = sourcesOf(request),
): NamedCubes {
  return request.method === 'Discover'
    ? cubesOfDiscover(request)
    : cubesOfStatement(
        sources,
        request.properties.filter(({ name }) => foldName(name) === 'cube').map((p) => p.value),
      );
}

function cubesOfDiscover({ requestType, restrictions }: DiscoverRequest): NamedCubes {
  const cubes = restrictions
    .filter(({ name }) => /cube(?:_name)?$/.test(foldName(name)))
    .flatMap(({ values }) => values);
  // BASE_CUBE_NAME narrows to perspectives of a cube, which have other names.
  const narrowing = restrictions.filter(({ name }) => name === 'CUBE_NAME');
  const narrowed =
    BY_CUBE.has(requestType) &&
    narrowing.length > 0 &&
    narrowing.every(({ form, values }) => form === 'plain' && values.every(isPlainName));
  return named(cubes, narrowed || OF_NO_CUBE.has(requestType));
}

/** Not blank, which some engines take for no restriction, and without the sign for any text. */
function isPlainName(name: string): boolean {
  return name.trim() !== '' && !name.includes('%');
}

function cubesOfStatement(
  { names, certain }: StatementSources,
  properties: readonly string[],
): NamedCubes {
  return named([...names, ...properties], certain && names.length > 0);
}

function named(names: readonly string[], certain: boolean): NamedCubes {
  const { names: cubes, excess } = objectNames(names);
  return { cubes, certain, excess };
}
