import { isLongName } from '../../common/fold-case.ts';
import type { BypassReason } from '../../common/reasons.ts';
import { foldName } from '../fold-name.ts';
import { sourcesOf, type StatementSources } from '../mdx/statement-sources.ts';
import { DISCOVER_TYPES } from './discover-types.ts';
import type { DiscoverRequest, XmlaRequest } from './xmla-request.ts';

/** Why some names are left out, under which nothing may be kept; undefined where none is. */
type Excess = Extract<BypassReason, 'long-name' | 'many-catalogs'> | undefined;

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
  readonly excess: Excess;
}

/** Which cubes an answer may hold data of. Naming too many is safe. */
export interface NamedCubes {
  /** As spelt, without brackets, each once, in the order of the request; without empty and too long ones. */
  readonly cubes: readonly string[];
  /** False when the answer may hold data of cubes that are not named. */
  readonly certain: boolean;
  readonly excess: Excess;
}

/** The most catalogs, and cubes, that a request may name: each is folded, and each catalog is an epoch to be read. */
const MOST_NAMES = 16;

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
  const { qualified, names } = sources;
  const isDiscover = request.method === 'Discover';
  const inRequest = isDiscover
    ? restrictedTo(request, /catalog(?:_name)?$/)
    : qualified
      ? names
      : [];
  const narrowed = isDiscover
    ? isOfOneCatalog(request)
    : request.properties.some(({ name, value }) => name === 'Catalog' && isName(value));
  const { kept, excess } = distinct([...propertiesOf(request, 'catalog'), ...inRequest]);
  return { catalogs: kept, spansCatalogs: qualified || !narrowed, qualified, excess };
}

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
  if (request.method === 'Discover') {
    const { kept, excess } = distinct(restrictedTo(request, /cube(?:_name)?$/));
    return { cubes: kept, certain: isOfNamedCubes(request), excess };
  }
  const { names, certain } = sources;
  const { kept, excess } = distinct([...names, ...propertiesOf(request, 'cube')]);
  return { cubes: kept, certain: certain && names.length > 0, excess };
}

function isOfOneCatalog(request: DiscoverRequest): boolean {
  const { catalog } = DISCOVER_TYPES.get(request.requestType) ?? {};
  return catalog === 'none' || (catalog !== undefined && isNarrowed(request, catalog, isName));
}

function isOfNamedCubes(request: DiscoverRequest): boolean {
  const { cube } = DISCOVER_TYPES.get(request.requestType) ?? {};
  // BASE_CUBE_NAME narrows to perspectives of a cube, which have other names.
  return cube === 'none' || (cube === 'each' && isNarrowed(request, 'CUBE_NAME', isPlainName));
}

/** A name without the sign for any text. */
function isPlainName(name: string): boolean {
  return isName(name) && !name.includes('%');
}

/** Whether a restriction stands there, in the one form that every engine reads, with such values only. */
function isNarrowed(
  { restrictions }: DiscoverRequest,
  name: string,
  isValue: (value: string) => boolean,
): boolean {
  const narrowing = restrictions.filter((one) => one.name === name);
  return (
    narrowing.length > 0 &&
    narrowing.every(({ form, values }) => form === 'plain' && values.every(isValue))
  );
}

/** The values of the restrictions of such names: CATALOG_NAME, TABLE_CATALOG, CONSTRAINT_CATALOG … */
function restrictedTo({ restrictions }: DiscoverRequest, names: RegExp): readonly string[] {
  return restrictions
    .filter(({ name }) => names.test(foldName(name)))
    .flatMap(({ values }) => values);
}

function propertiesOf({ properties }: XmlaRequest, folded: string): readonly string[] {
  return properties.filter(({ name }) => foldName(name) === folded).map(({ value }) => value);
}

/** Not blank, which some engines take for no restriction. */
function isName(name: string): boolean {
  return name.trim() !== '';
}

/** Each name once. The count is looked at before anything is folded: folding is what costs. */
function distinct(given: Iterable<string>): { kept: readonly string[]; excess: Excess } {
  const names = new Set<string>();
  for (const name of given) {
    if (isName(name)) names.add(name);
    if (names.size > MOST_NAMES) return { kept: [], excess: 'many-catalogs' };
  }
  const kept = [...names].filter((name) => !isLongName(name));
  return { kept, excess: kept.length < names.size ? 'long-name' : undefined };
}
