import type { EngineTraits } from '../../common/engine-kinds.ts';
import type { BypassReason } from '../../common/reasons.ts';
import { kindAt, MDX, type MdxTokens, mdxTokens, textAt } from '../mdx/mdx-tokens.ts';
import {
  isNested,
  judgeStatement,
  namesNow,
  normalizeStatement,
  type StatementRules,
} from '../mdx/statement-policy.ts';
import { foldName } from '../names.ts';
import { DISCOVER_TYPES } from './named-objects.ts';
import { classifyProperties, IDENTITY, IGNORED_PROPERTIES } from './property-policy.ts';
import type { DiscoverRequest, ExecuteRequest, Restriction, XmlaRequest } from './read-request.ts';

type ReadsDiscovers = Pick<EngineTraits, 'forwardedDiscovers'>;
const NO_QUERY = { bypass: 'not-a-query', unknown: [] } as const;

/** Longer statements (UTF-16 units) are not searched for changes: their tokens would take too much memory. */
const MAX_SEARCHED = 512 * 1024;

/**
 * What is asked of a statement more than once: its tokens, undefined for one longer than MAX_SEARCHED; why the answer to
 * what is executed may not be cached; which functions it calls that only the configuration may know; and what it does, where
 * it may not be cached.
 */
export function readStatement(request: XmlaRequest, rules?: StatementRules) {
  if (request.method === 'Discover') {
    return { tokens: undefined, bypass: undefined, unknown: [], readings: [] };
  }
  const { statement, parameters } = request;
  const tokens = statement.length > MAX_SEARCHED ? undefined : mdxTokens(statement);
  const values = parameters.map(({ value }) => value);
  const isOne = isOneStatement(request);
  const judged = isOne ? judgeStatement(statement, tokens, rules, values) : NO_QUERY;
  const readings = judged.bypass === undefined ? [] : readingsOf(request, tokens);
  return { tokens, ...judged, readings };
}
type StatementReading = ReturnType<typeof readStatement>;

function isOneStatement({ commands }: ExecuteRequest): boolean {
  return commands.length === 1 && commands[0] === 'Statement';
}

/** Why the answer may not be looked up or stored, by the request's own data alone. */
export function classify(
  request: XmlaRequest,
  engine: ReadsDiscovers & StatementRules,
  statement = readStatement(request, engine),
): BypassReason | undefined {
  if (request.security) return 'security';
  if (request.unexpected !== undefined) return 'unknown-shape';
  const ofProperties = classifyProperties(request.properties);
  const isDiscover = request.method === 'Discover';
  const ofMethod = isDiscover && !mayDiscover(request, engine) ? 'discover-type' : undefined;
  const bypass = ofProperties ?? statement.bypass ?? ofMethod;
  return bypass ?? (namesNow(textsOf(request), engine) ? 'volatile' : undefined);
}

/** All in which a request may name a member. */
function textsOf(request: XmlaRequest): readonly string[] {
  const inProperties = request.properties.map(({ value }) => value);
  if (request.method === 'Discover') {
    return [...inProperties, ...request.restrictions.flatMap(({ values }) => values)];
  }
  return [...inProperties, request.statement, ...request.parameters.map(({ value }) => value)];
}

function mayDiscover(request: DiscoverRequest, engine: ReadsDiscovers): boolean {
  const { requestType, restrictions } = request;
  if (engine.forwardedDiscovers.includes(requestType)) return false;
  if (requestType === 'DISCOVER_PROPERTIES') {
    return restrictions.length > 0 && restrictions.every(namesHarmlessProperties);
  }
  return DISCOVER_TYPES.has(requestType);
}

/**
 * In the one form that every engine reads: not Catalog (asked for it, Kylin reads datasets and permissions anew), nothing
 * that tells who asks, and no property without its value in the key, as engines tell the values of this very request.
 */
function namesHarmlessProperties({ name, form, values }: Restriction): boolean {
  return name === 'PropertyName' && form === 'plain' && values.every(isHarmlessProperty);
}

const VALUES_NOT_KEYED: ReadonlySet<string> = new Set([...IGNORED_PROPERTIES].map(foldName));
/** No letters beyond ASCII, which engines may take for others. */
function isHarmlessProperty(text: string): boolean {
  const name = text.trim();
  const folded = foldName(name);
  if (!/^[a-z\d]+$/i.test(name) || folded.includes('catalog')) return false;
  return !VALUES_NOT_KEYED.has(folded) && !IDENTITY.has(folded);
}

/**
 * Whether the request may leave something behind in its session: everything that is executed and does not only read, and
 * everything of which it is not plain what it says.
 */
export function leavesState(request: XmlaRequest, statement = readStatement(request)): boolean {
  if (request.unexpected !== undefined || request.security || request.sessionToken) return true;
  const ofProperties = classifyProperties(request.properties);
  if (ofProperties === 'identity-property' || ofProperties === 'duplicate-property') return true;
  return request.method === 'Execute' && !onlyReads(request, statement);
}

/**
 * Whether it is one statement that reads, and is read for certain; or an empty one, by which clients begin a session and keep
 * it alive; or a Cancel.
 */
function onlyReads(request: ExecuteRequest, { readings }: StatementReading): boolean {
  const { commands, statement } = request;
  if (!isOneStatement(request)) return commands.length === 1 && commands[0] === 'Cancel';
  const isRead = readings.every((parts) => parts.length === 1 && parts[0] === 'reads');
  return isRead || normalizeStatement(statement) === '';
}

/** What a request that passes through changes at the engine, so that earlier entries are stale. */
export interface PassingChange {
  readonly reach: 'named' | 'everything';
  /** REFRESH CUBE, which a client sends to see what others changed. */
  readonly refresh: boolean;
  /** Whether its session may differ from others afterwards: it sees what it has not committed. */
  readonly leavesState: boolean;
  /** Whether a Fault means that nothing was done: nothing stands before what failed, and may have been done. */
  readonly undoneByFault: boolean;
  /** Which statement or command, for the log. */
  readonly why?: string | undefined;
}

const wordSet = (words: string): ReadonlySet<string> => new Set(words.split(' '));
/** Commands of XMLA that change no data and no definition ([MS-SSAS] §3.1.4.3). */
const READING_COMMANDS = wordSet('cancel backup lock unlock subscribe');
/**
 * Commands that change what all are answered and leave nothing behind in their session ([MS-SSAS] §3.1.4.3), in lower
 * case. All others may: BeginTransaction, Batch, UpdateCells, and what is not known.
 */
const STATELESS_COMMANDS = wordSet(
  'clearcache process alter create delete mergepartitions designaggregations notifytablechange restore attach detach synchronize load imageload',
);

const NAMED: PassingChange = {
  reach: 'named',
  refresh: false,
  leavesState: true,
  undoneByFault: true,
};
/** What it changed before, in statements that are gone, is not named. */
const COMMIT: PassingChange = { ...NAMED, reach: 'everything' };
const COMMAND: PassingChange = { ...COMMIT, leavesState: false };
const ANYTHING: PassingChange = { ...COMMIT, undoneByFault: false };

/** Of a body that was not read. An engine that answers it with a Fault has not read it either. */
export const NOT_UNDERSTOOD: PassingChange = COMMIT;
/** By the first two words of a statement, or the first alone, in lower case. Of what is in neither list: COMMIT. */
const STATEMENTS: ReadonlyMap<string, PassingChange> = new Map([
  ['refresh cube', { ...NAMED, refresh: true, leavesState: false }],
  ['update', NAMED],
  ['alter', NAMED],
  // A stored procedure may do anything, processing included.
  ['call', ANYTHING],
  // TMSL, the commands of tabular models, is JSON in a Statement.
  ['{ "sequence"', { ...COMMAND, undoneByFault: false }],
  ['{', COMMAND],
]);
/** What is made and dropped in a session alone, where no GLOBAL says otherwise. */
const OF_SESSION = 'session member calculated hidden set static dynamic subcube cell';
/** In the same way, those that read. */
const READING = wordSet('select with drillthrough explain evaluate define');
/** Those that change nothing beyond their session. */
const OWN: ReadonlySet<string> = new Set([
  ...wordSet('begin rollback'),
  ...OF_SESSION.split(' ').flatMap((made) => [`create ${made}`, `drop ${made}`]),
]);
/** By these a SELECT of DMX makes a model, or sends its data source a statement: words, and words of ASCII in one. */
const REACHING = /(?<![a-z0-9_])(?:into|openquery|openrowset)(?![a-z0-9_])/i;
/** A quote that a backslash may escape; what another tokenizer may take for the end of a line, and so of a comment. */
const UNCERTAIN = /\\['"]|[\f\v\u0085\u2028\u2029]/;
/** What one statement does; `own`: something in its session, perhaps. */
type Part = PassingChange | 'reads' | 'own';

/**
 * What of the engine's data the request changes when it succeeds; undefined for nothing beyond its session.
 * @param isOther whether it is in an encoding in which it is read to be judged alone
 */
export function passingChange(
  request: XmlaRequest,
  statement = readStatement(request),
  isOther = false,
): PassingChange | undefined {
  if (request.method === 'Discover') return undefined;
  const { commands, unexpected, oddBeside } = request;
  if (isOther || unexpected !== undefined) {
    // It is not known what an engine finds in it.
    const isRead = oddBeside !== false && onlyReads(request, statement);
    return isRead ? undefined : isOther ? NOT_UNDERSTOOD : ANYTHING;
  }
  const others = commands.filter((name) => name !== 'Statement').map(partOfCommand);
  const { readings } = statement;
  const parts = [...others, ...readings.flat()];
  const changes = parts.filter((part) => typeof part === 'object');
  const [first] = changes;
  if (first === undefined) return undefined;
  const isOne = commands.length === 1 && readings.every(({ length }) => length === 1);
  return {
    reach: changes.some(({ reach }) => reach === 'everything') ? 'everything' : 'named',
    refresh: changes.every(({ refresh }) => refresh),
    leavesState: !isOne || parts.some((part) => typeof part === 'string' || part.leavesState),
    undoneByFault: isOne && changes.every(({ undoneByFault }) => undoneByFault),
    why: first.why,
  };
}

function partOfCommand(command: string): Part {
  const name = foldName(command);
  if (READING_COMMANDS.has(name)) return 'own';
  const change = STATELESS_COMMANDS.has(name) ? COMMAND : COMMIT;
  return { ...(name === 'batch' ? ANYTHING : change), why: `command ${name.slice(0, 80)}` };
}

/** The statements of the text, in each way in which an engine may read it. */
function readingsOf(
  { commands, statement }: ExecuteRequest,
  tokens: MdxTokens | undefined,
): (readonly Part[])[] {
  const count = commands.filter((name) => name === 'Statement').length;
  if (count === 0) return [];
  // The text is that of the first Statement only. One that is too long to be searched is taken for a change.
  if (count > 1 || tokens === undefined) return [[ANYTHING]];
  if (!statement.includes('\r')) return [partsOfStatement(tokens)];
  // A loose carriage return is dropped by Mondrian, ends the line with others, or is white space and no more.
  const texts = [statement, statement.replaceAll('\r', ''), statement.replaceAll(/\r\n?/g, '\n')];
  return [...new Set(texts)].map((text) => partsOfStatement(mdxTokens(text)));
}

function partsOfStatement(tokens: MdxTokens): readonly Part[] {
  const parts: Part[] = tokens.comments.filter(isNested).map(() => ANYTHING);
  let words: string[] = [];
  let reaches = false;
  const mayReach = REACHING.test(tokens.text);
  const hasLineEnd = tokens.text.includes('\n');
  let isCertain = kindAt(tokens, 0) !== MDX.semicolon && !UNCERTAIN.test(tokens.text);
  const judge = (): void => {
    const [first] = words;
    if (first === undefined) return;
    const names = [words.join(' '), first];
    if (!reaches && READING.has(first)) parts.push('reads');
    else if (!reaches && names.some((name) => OWN.has(name))) parts.push('own');
    else {
      const [change = COMMIT] = names.flatMap((name) => STATEMENTS.get(name) ?? []);
      // Names and values are not told.
      const told = words.filter((word) => /^[a-z]{1,20}$/.test(word));
      parts.push({ ...change, why: ['statement', ...told].join(' ') });
    }
    words = [];
    reaches = false;
  };
  for (let index = 0; index < tokens.packed.length; index += 1) {
    const kind = kindAt(tokens, index);
    if (kind === MDX.word && mayReach && REACHING.test(textAt(tokens, index))) reaches = true;
    const isLong = kind === MDX.bracketed && hasLineEnd && textAt(tokens, index).includes('\n');
    isCertain &&= !isLong && kind !== MDX.unterminated && kind !== MDX.closingBracket;
    if (kind === MDX.semicolon) judge();
    else if (words.length < 2) words.push(textAt(tokens, index).toLowerCase());
  }
  judge();
  // Where another engine may find another statement, it is not certain that it reads.
  return isCertain ? parts : parts.map((part) => (part === 'reads' ? 'own' : part));
}
