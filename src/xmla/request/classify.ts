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
import { asksForKeyedValues, classifyProperties } from './property-policy.ts';
import type { DiscoverRequest, ExecuteRequest, XmlaRequest } from './read-request.ts';

type ReadsDiscovers = Pick<EngineTraits, 'catalogsReread'>;
const NO_QUERY = { bypass: 'not-a-query', unknown: [] } as const;
/** Longer statements (UTF-16 units) are not searched: their tokens would take too much memory. */
const MAX_SEARCHED = 512 * 1024;

/** Reads once what several steps ask of a statement; `readings` only of one that is not cached. */
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

function isOneStatement({ commands }: ExecuteRequest): boolean {
  return commands.length === 1 && commands[0] === 'Statement';
}

/** @param inSession by envelope or header */
export function classify(
  request: XmlaRequest,
  engine: ReadsDiscovers & StatementRules,
  statement = readStatement(request, engine),
  inSession = request.session.kind === 'in',
): BypassReason | undefined {
  if (request.security) return 'security';
  if (request.unexpected !== undefined) return 'unknown-shape';
  const ofProperties = classifyProperties(request.properties);
  const isDiscover = request.method === 'Discover';
  const isRefused = isDiscover && !mayDiscover(request, engine, inSession);
  const ofMethod = isRefused ? 'discover-type' : undefined;
  const bypass = ofProperties ?? statement.bypass ?? ofMethod;
  return bypass ?? (namesNow(textsOf(request), engine) ? 'volatile' : undefined);
}

function textsOf(request: XmlaRequest): readonly string[] {
  const inProperties = request.properties.map(({ value }) => value);
  if (request.method === 'Discover') {
    return [...inProperties, ...request.restrictions.flatMap(({ values }) => values)];
  }
  return [...inProperties, request.statement, ...request.parameters.map(({ value }) => value)];
}

function mayDiscover(request: DiscoverRequest, engine: ReadsDiscovers, inSession: boolean) {
  const { requestType } = request;
  if (requestType === 'DISCOVER_PROPERTIES') return asksForKeyedValues(request, engine, inSession);
  if (requestType === 'DBSCHEMA_CATALOGS' && engine.catalogsReread) return false;
  return DISCOVER_TYPES.has(requestType);
}

/** Tells whether the request may leave state in its session; true unless it plainly only reads. */
export function leavesState(request: XmlaRequest, statement = readStatement(request)): boolean {
  if (request.unexpected !== undefined || request.security || request.sessionToken) return true;
  const ofProperties = classifyProperties(request.properties);
  if (ofProperties === 'identity-property' || ofProperties === 'duplicate-property') return true;
  return request.method === 'Execute' && !onlyReads(request, statement);
}

/** Also true of a Cancel, and of the empty statement that begins a session or keeps it alive. */
function onlyReads(
  request: ExecuteRequest,
  { readings }: ReturnType<typeof readStatement>,
): boolean {
  const { commands, statement } = request;
  if (!isOneStatement(request)) return commands.length === 1 && commands[0] === 'Cancel';
  const isRead = readings.every((parts) => parts.length === 1 && parts[0] === 'reads');
  return isRead || normalizeStatement(statement) === '';
}

/** Changes at the engine, made by a request that passes through, which make entries stale. */
export interface PassingChange {
  readonly reach: 'named' | 'everything';
  /** REFRESH CUBE, which a client sends to see changes of others. */
  readonly refresh: boolean;
  /** Its session sees what it has not committed, so it may differ from others. */
  readonly leavesState: boolean;
  /** A Fault means that nothing was done: no statement before the failed one can have run. */
  readonly undoneByFault: boolean;
  readonly why?: string | undefined;
}

const wordSet = (words: string): ReadonlySet<string> => new Set(words.split(' '));
/** XMLA commands that change no data and no definition ([MS-SSAS] §3.1.4.3). */
const READING_COMMANDS = wordSet('cancel backup lock unlock subscribe');
/**
 * Commands in lower case that change everyone's answers and leave no session state ([MS-SSAS]
 * §3.1.4.3). Any other may leave some: BeginTransaction, Batch, UpdateCells, unknown ones.
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
/** It does not name what earlier statements, now gone, have changed. */
const COMMIT: PassingChange = { ...NAMED, reach: 'everything' };
const COMMAND: PassingChange = { ...COMMIT, leavesState: false };
const ANYTHING: PassingChange = { ...COMMIT, undoneByFault: false };

/** The change of an unread body. An engine that answers it with a Fault has not read it either. */
export const NOT_UNDERSTOOD: PassingChange = COMMIT;
/** Changes by the first one or two words of a statement, in lower case; all others are COMMIT. */
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
/** Objects made and dropped in a session alone, unless GLOBAL says otherwise. */
const OF_SESSION = 'session member calculated hidden set static dynamic subcube cell';
const READING = wordSet('select with drillthrough explain evaluate define');
/** First words of statements that change their session alone. */
const OWN: ReadonlySet<string> = new Set([
  ...wordSet('begin rollback'),
  ...OF_SESSION.split(' ').flatMap((made) => [`create ${made}`, `drop ${made}`]),
]);
/** Words by which a SELECT of DMX makes a model, or sends a statement to its data source. */
const REACHING = /(?<![a-z0-9_])(?:into|openquery|openrowset)(?![a-z0-9_])/i;
/** A backslash may escape a quote; another tokenizer may end a line comment at the characters. */
const UNCERTAIN = /\\['"]|[\f\v\u0085\u2028\u2029]/;
/** The effect of one statement; `own`: it may change its session. */
type Part = PassingChange | 'reads' | 'own';

/** Undefined: nothing beyond its session. @param isOther its encoding is read only to judge it */
export function passingChange(
  request: XmlaRequest,
  statement = readStatement(request),
  isOther = false,
): PassingChange | undefined {
  if (request.method === 'Discover') return undefined;
  const { commands, unexpected, oddBeside } = request;
  if (isOther || unexpected !== undefined) {
    // An engine may find something else in it.
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

/** Reads the statements of the text in each way an engine may read it. */
function readingsOf(
  { commands, statement }: ExecuteRequest,
  tokens: MdxTokens | undefined,
): (readonly Part[])[] {
  const count = commands.filter((name) => name === 'Statement').length;
  if (count === 0) return [];
  // The text is that of the first Statement only; one too long to be searched counts as a change.
  if (count > 1 || tokens === undefined) return [[ANYTHING]];
  if (!statement.includes('\r')) return [partsOfStatement(tokens)];
  // Mondrian drops a loose carriage return; others end the line there, or see white space.
  const texts = [statement, statement.replaceAll('\r', ''), statement.replaceAll(/\r\n?/g, '\n')];
  return [...new Set(texts)].map((text) => partsOfStatement(mdxTokens(text)));
}

function partsOfStatement(tokens: MdxTokens): readonly Part[] {
  const parts: Part[] = tokens.comments.filter(isNested).map(() => ANYTHING);
  let words: string[] = [];
  let reaches = false;
  const mayReach = REACHING.test(foldName(tokens.text));
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
      // Names and values stay out of the log.
      const told = words.filter((word) => /^[a-z]{1,20}$/.test(word));
      parts.push({ ...change, why: ['statement', ...told].join(' ') });
    }
    words = [];
    reaches = false;
  };
  for (let index = 0; index < tokens.packed.length; index += 1) {
    const kind = kindAt(tokens, index);
    if (kind === MDX.word && mayReach && REACHING.test(foldName(textAt(tokens, index))))
      reaches = true;
    const isLong = kind === MDX.bracketed && hasLineEnd && textAt(tokens, index).includes('\n');
    isCertain &&= !isLong && kind !== MDX.unterminated && kind !== MDX.closingBracket;
    if (kind === MDX.semicolon) judge();
    else if (words.length < 2) words.push(textAt(tokens, index).toLowerCase());
  }
  judge();
  // Another engine may find another statement here.
  return isCertain ? parts : parts.map((part) => (part === 'reads' ? 'own' : part));
}
