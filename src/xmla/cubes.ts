import { foldName } from './fold-name.ts';
import { mdxTokens, unquoted, type MdxToken } from './mdx-tokens.ts';
import type { DiscoverRequest, XmlaRequest } from './xmla-request.ts';

/** Which cubes an answer may hold data of. Naming too many is safe. */
export interface NamedCubes {
  /** As spelt, without brackets, each once, in the order of the request; without empty ones. */
  readonly cubes: readonly string[];
  /** False when the answer may hold data of cubes that are not named. */
  readonly certain: boolean;
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

/** What may stand behind the name of a cube: the rest of a SELECT, or its end. */
const AFTER_CUBE: ReadonlySet<string> = new Set(['', ')', 'where', 'cell', 'properties']);

/** Strings within strings; nobody nests more, and the search must end. */
const MAX_NESTING = 8;

/**
 * Collects the cubes of a request: for an Execute the names behind every FROM, in subselects and quoted
 * formulas too, and the property Cube; for a Discover its restrictions by cube. What a cube of the engine
 * takes from other cubes (virtual and linked ones, perspectives) is not seen here.
 */
export function namedCubes(request: XmlaRequest): NamedCubes {
  return request.method === 'Discover'
    ? cubesOfDiscover(request)
    : cubesOfStatement(
        request.statement,
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

function cubesOfStatement(statement: string, properties: readonly string[]): NamedCubes {
  const found: Found = { cubes: [], certain: true };
  searchText(statement, found, MAX_NESTING);
  return named([...found.cubes, ...properties], found.certain && found.cubes.length > 0);
}

function named(cubes: readonly string[], certain: boolean): NamedCubes {
  return { cubes: [...new Set(cubes)].filter((cube) => cube.trim() !== ''), certain };
}

interface Found {
  readonly cubes: string[];
  certain: boolean;
}

/** @param depth how many strings within strings are still looked into */
function searchText(text: string, found: Found, depth: number): void {
  const tokens: MdxToken[] = [];
  for (const token of mdxTokens(text)) {
    switch (token.kind) {
      case 'space':
        break;
      case 'line-comment':
      case 'block-comment':
        // Inside of a string nobody knows whether it is one.
        if (depth < MAX_NESTING && mentionsFrom(token.text)) found.certain = false;
        break;
      case 'unterminated':
        found.certain = false;
        break;
      case 'single-quoted':
      case 'double-quoted':
        if (depth > 0) searchText(unquoted(token), found, depth - 1);
        else found.certain = false;
        tokens.push(token);
        break;
      default:
        tokens.push(token);
    }
  }
  for (const [index, token] of tokens.entries()) {
    if (token.kind !== 'word' || !mentionsFrom(token.text)) continue;
    // An engine may end a word where the tokenizer does not.
    if (foldName(token.text) === 'from') readFrom(tokens, index + 1, found);
    else found.certain = false;
  }
}

function mentionsFrom(text: string): boolean {
  return foldName(text)
    .split(/[^a-z0-9_]+/)
    .includes('from');
}

/** Reads what stands behind FROM: a subselect, which has a FROM of its own, or a cube, perhaps with its catalog. */
function readFrom(tokens: readonly MdxToken[], start: number, found: Found): void {
  const wordAt = (index: number) => foldName(tokens[index]?.text ?? '');
  const subselect = wordAt(start) === 'non' && wordAt(start + 1) === 'visual' ? start + 2 : start;
  if (wordAt(subselect) === '(') {
    if (wordAt(subselect + 1) !== 'select') found.certain = false;
    return;
  }
  let index = start;
  let more = true;
  while (more) {
    const name = nameOf(tokens[index]);
    if (name === undefined) {
      found.certain = false;
      return;
    }
    found.cubes.push(name);
    more = tokens[index + 1]?.text === '.';
    index += more ? 2 : 1;
  }
  if (!AFTER_CUBE.has(wordAt(index))) found.certain = false;
}

/** The name that a token spells; undefined when it is none, or engines may see another. */
function nameOf(token: MdxToken | undefined): string | undefined {
  if (token?.kind === 'bracketed') return token.text.slice(1, -1).replaceAll(']]', ']');
  return token?.kind === 'word' && /^[\p{L}\p{M}\p{N}_]+$/u.test(token.text)
    ? token.text
    : undefined;
}
