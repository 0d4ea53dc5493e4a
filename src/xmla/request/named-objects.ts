import { isLongName } from '../../common/fold-case.ts';
import type { BypassReason } from '../../common/reasons.ts';
import { kindAt, MDX, MdxTokens, SLICE, textAt, TokenReader, unquoted } from '../mdx/mdx-tokens.ts';
import { MAX_NESTING } from '../mdx/statement-policy.ts';
import { byWords, foldName, foldToFind, isFoldedTo } from '../names.ts';
import type { DiscoverRequest, XmlaRequest } from './read-request.ts';

interface DiscoverType {
  /** The restriction that selects one; 'none': no row is of a catalog; undefined: rows span all. */
  readonly catalog?: string;
  /** 'each': every row is of one cube, which CUBE_NAME selects; 'none': no row is of a cube. */
  readonly cube?: 'each' | 'none';
  /** It says the same whichever catalog its session is in. */
  readonly everywhere?: true;
}

/**
 * Request types that may be cached, spelt exactly so (XMLA 1.1, [MS-SSAS] §3.1.4.2.2). All others
 * are momentary (sessions, connections, locks, memory, traces) or unknown.
 */
export const DISCOVER_TYPES = byWords<DiscoverType>([
  [
    { catalog: 'none', cube: 'none', everywhere: true },
    'DISCOVER_LITERALS DISCOVER_KEYWORDS DISCOVER_ENUMERATORS DISCOVER_SCHEMA_ROWSETS',
  ],
  [{ catalog: 'none', cube: 'none' }, 'DBSCHEMA_PROVIDER_TYPES'],
  [{ cube: 'none' }, 'DISCOVER_DATASOURCES DISCOVER_PROPERTIES MDSCHEMA_FUNCTIONS'],
  [
    { catalog: 'CATALOG_NAME', cube: 'none' },
    'DBSCHEMA_CATALOGS DBSCHEMA_SCHEMATA MDSCHEMA_INPUT_DATASOURCES',
  ],
  [{ catalog: 'TABLE_CATALOG' }, 'DBSCHEMA_TABLES DBSCHEMA_COLUMNS'],
  [
    { catalog: 'CATALOG_NAME', cube: 'each' },
    'MDSCHEMA_CUBES MDSCHEMA_DIMENSIONS MDSCHEMA_HIERARCHIES MDSCHEMA_LEVELS MDSCHEMA_MEASURES MDSCHEMA_MEASUREGROUPS MDSCHEMA_MEASUREGROUP_DIMENSIONS MDSCHEMA_MEMBERS MDSCHEMA_PROPERTIES MDSCHEMA_SETS MDSCHEMA_KPIS MDSCHEMA_ACTIONS',
  ],
]);

type Excess = Extract<BypassReason, 'long-name' | 'many-catalogs'> | undefined;
export type NamedCubes = ReturnType<typeof namedCubes>;
/** Limits catalogs, and cubes, of a request: each is folded, and each catalog reads an epoch. */
const MOST_NAMES = 16;

/**
 * Finds the catalogs that an answer may come from, for the purge; a catalog too many is safe. Names
 * come from the property Catalog and the catalog restrictions in any letter case. An Execute runs
 * in the property spelt exactly `Catalog`; without it the engine chooses (Mondrian: its first).
 * SSAS lets a statement name the catalog of a cube, so each part of a qualified name behind FROM
 * may be one. A Discover spans catalogs unless every engine reads its restriction as one catalog.
 * @returns `catalogs` as spelt, without duplicates, empty and long names; `spansCatalogs`: others
 *   may be in the answer; `qualified`: the statement itself names a catalog, so neither the
 *   project nor the catalog of the session says where the data come from
 */
export function namedCatalogs(request: XmlaRequest, sources = sourcesOf(request)) {
  const inProperties = propertiesOf(request, 'catalog');
  if (request.method === 'Discover') {
    const restricted = restrictedTo(request, /catalog(?:_name)?$/);
    const { kept, excess } = distinct([...inProperties, ...restricted]);
    const { catalog } = DISCOVER_TYPES.get(request.requestType) ?? {};
    const narrowed = catalog === 'none' || isNarrowed(request, catalog, isName);
    return { catalogs: kept, spansCatalogs: !narrowed, qualified: false, excess };
  }
  const { qualified, names } = sources;
  const { kept, excess = sources.excess } = distinct([
    ...inProperties,
    ...(qualified ? names : []),
  ]);
  const isNamed = request.properties.some(({ name, value }) => name === 'Catalog' && isName(value));
  return { catalogs: kept, spansCatalogs: qualified || !isNamed, qualified, excess };
}

/**
 * Finds the cubes that an answer may hold data of. Virtual and linked cubes and perspectives take
 * data from others at the engine, which is not seen here.
 * @returns `certain` is false when the answer may hold data of others
 */
export function namedCubes(request: XmlaRequest, sources = sourcesOf(request)) {
  if (request.method === 'Discover') {
    const { kept, excess } = distinct(restrictedTo(request, /cube(?:_name)?$/));
    const { cube } = DISCOVER_TYPES.get(request.requestType) ?? {};
    // BASE_CUBE_NAME selects perspectives of a cube, which have other names. % stands for any text.
    const isOne = (name: string) => isName(name) && !name.includes('%');
    const narrowed = cube === 'each' && isNarrowed(request, 'CUBE_NAME', isOne);
    return { cubes: kept, certain: cube === 'none' || narrowed, excess };
  }
  const { names, certain } = sources;
  const { kept, excess } = distinct([...names, ...propertiesOf(request, 'cube')]);
  return { cubes: kept, certain: certain && names.size > 0, excess };
}

/** Requires the restriction in the one form that every engine reads. */
function isNarrowed(
  { restrictions }: DiscoverRequest,
  name: string | undefined,
  isValue: (value: string) => boolean,
): boolean {
  const all = restrictions.filter((one) => one.name === name);
  const isSo = all.every(({ form, values }) => form === 'plain' && values.every(isValue));
  return isSo && all.length > 0;
}

function restrictedTo({ restrictions }: DiscoverRequest, names: RegExp): readonly string[] {
  return restrictions
    .filter(({ name }) => names.test(foldToFind(name)))
    .flatMap(({ values }) => values);
}

function propertiesOf({ properties }: XmlaRequest, folded: string): readonly string[] {
  return properties.filter(({ name }) => isFoldedTo(name, folded)).map(({ value }) => value);
}

/** Some engines take a blank name for no restriction. */
const isName = (name: string) => name.trim() !== '';

/** Counts before names are folded, which is the expensive part. */
function distinct(given: Iterable<string>): { kept: readonly string[]; excess: Excess } {
  const names = new Set<string>();
  for (const name of given) {
    if (isName(name)) names.add(name);
    if (names.size > MOST_NAMES) return { kept: [], excess: 'many-catalogs' };
  }
  const kept = [...names].filter((name) => !isLongName(name));
  return { kept, excess: kept.length < names.size ? 'long-name' : undefined };
}

/** Parts of one name behind FROM. */
const MOST_PARTS = 100;
const AFTER_CUBE: ReadonlySet<string> = new Set(['', ')', ';', 'where', 'cell', 'properties']);
type Sources = Readonly<Pick<SourceSearch, 'names' | 'certain' | 'qualified' | 'excess'>>;
export const NO_SOURCES: Sources = { names: new Set(), certain: true, qualified: false };

/** Reads the sources of a statement, including subselects and quoted formulas. */
export function sourcesOf(request: XmlaRequest): Sources {
  if (request.method === 'Discover') return NO_SOURCES;
  return new SourceSearch(new MdxTokens(request.statement)).finish();
}

export class SourceSearch extends TokenReader {
  /** Each part of each name behind FROM, as spelt, without brackets: cubes, perhaps catalogs. */
  readonly names = new Set<string>();
  /** False when the statement may read a source that is not named here. */
  certain = true;
  /** A dot follows a first name: SSAS reads `[catalog].[cube]`. */
  qualified = false;
  /** A name has more parts than are read. */
  excess?: Excess;

  constructor(tokens: MdxTokens) {
    super();
    this.add(tokens, MAX_NESTING);
  }

  protected read(tokens: MdxTokens, depth: number, from: number, to: number): void {
    const { comments, commentUnits } = tokens;
    // Inside of a string, a comment may be none.
    const isInner = depth < MAX_NESTING && from === 0;
    if (isInner && (commentUnits > SLICE || comments.some(mentionsFrom))) this.certain = false;
    for (let index = from; index < to; index += 1) {
      switch (kindAt(tokens, index)) {
        case MDX.unterminated:
          this.certain = false;
          break;
        case MDX.singleQuoted:
        case MDX.doubleQuoted:
          if (depth === 0) this.certain = false;
          else this.readText(unquoted(textAt(tokens, index)), depth - 1);
          break;
        case MDX.word:
          searchWord(tokens, index, this);
          break;
        default:
      }
    }
  }
}

function searchWord(tokens: MdxTokens, index: number, found: SourceSearch): void {
  const word = textAt(tokens, index);
  // Fast path: nearly every word is ASCII and not of four letters.
  if (word.length !== 4 && /^\w+$/.test(word)) return;
  const isLong = word.length > SLICE;
  if (!isLong && foldName(word) === 'from') readFrom(tokens, index, found);
  else if (isLong || mentionsFrom(word)) {
    // An engine may end a word where the tokenizer does not.
    found.certain = false;
    found.qualified ||= isDot(tokens, index + 2);
  }
}

function mentionsFrom(text: string): boolean {
  return foldName(text)
    .split(/[^a-z0-9_]+/)
    .includes('from');
}

function readFrom(tokens: MdxTokens, from: number, found: SourceSearch): void {
  const wordAt = (index: number) => foldToFind(textAt(tokens, index));
  const isVisual = wordAt(from + 1) === 'non' && wordAt(from + 2) === 'visual';
  const subselect = isVisual ? from + 3 : from + 1;
  if (wordAt(subselect) === '(') {
    if (wordAt(subselect + 1) !== 'select') found.certain = false;
    return;
  }
  found.qualified ||= isDot(tokens, from + 2);
  let index = from;
  do {
    const name = nameOf(tokens, index + 1);
    if (name === undefined) {
      found.certain = false;
      return;
    }
    found.names.add(name);
    index += 2;
    if (index - from > 2 * MOST_PARTS) {
      found.excess = 'many-catalogs';
      return;
    }
  } while (isDot(tokens, index));
  if (!AFTER_CUBE.has(wordAt(index))) found.certain = false;
}

const isDot = (tokens: MdxTokens, index: number) => kindAt(tokens, index) === MDX.point;
/** Reads the name a token spells; undefined where engines may see another. */
function nameOf(tokens: MdxTokens, index: number): string | undefined {
  const kind = kindAt(tokens, index);
  const text = textAt(tokens, index);
  if (kind === MDX.bracketed) return text.slice(1, -1).replaceAll(']]', ']');
  if (text.length > SLICE) return undefined;
  return kind === MDX.word && /^[\p{L}\p{M}\p{N}_]+$/u.test(text) ? text : undefined;
}
