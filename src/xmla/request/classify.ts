import type { EngineTraits } from '../../common/engine-kinds.ts';
import type { BypassReason } from '../../common/reasons.ts';
import { kindAt, MDX, MdxTokens, SLICE, textAt, textOf, TokenReader } from '../mdx/mdx-tokens.ts';
import { judging, MAX_STATEMENT, namesNow, type StatementRules } from '../mdx/statement-policy.ts';
import { foldName, foldToFind } from '../names.ts';
import { DISCOVER_TYPES, NO_SOURCES, SourceSearch } from './named-objects.ts';
import { asksForKeyedValues, classifyProperties } from './property-policy.ts';
import type { DiscoverRequest, ExecuteRequest, XmlaRequest } from './read-request.ts';

type ReadsDiscovers = Pick<EngineTraits, 'catalogsReread'>;
const NO_QUERY = { bypass: 'not-a-query', unknown: [] } as const;
const NO_STATEMENT = { bypass: undefined, unknown: [] } as const;

export type StatementRead = ReturnType<typeof readStatement>;

/** Reads once what several steps ask of a statement. */
export const readStatement = (request: XmlaRequest, rules?: StatementRules) =>
  createStatementReader(request, rules).finish();

/** Reads a statement in steps; cuts make no difference. */
export function createStatementReader(request: XmlaRequest, rules?: StatementRules) {
  const ofExecute = request.method === 'Execute' ? request : undefined;
  const { statement = '', parameters = [] } = ofExecute ?? {};
  const isRead = ofExecute !== undefined && statement.length <= MAX_STATEMENT;
  const tokens = isRead ? new MdxTokens(statement) : undefined;
  const values = parameters.map(({ value }) => value);
  const isOne = ofExecute !== undefined && isOneStatement(ofExecute);
  const judged = isOne ? judging(statement, tokens, rules, values) : undefined;
  const verdict = () => judged?.result() ?? (ofExecute ? NO_QUERY : NO_STATEMENT);
  let sources: SourceSearch | undefined;
  /** Only of a statement that is not cached. */
  let parts: readonly Parts[] = [];
  let behind: readonly TokenReader[] | undefined;

  function readersBehind(): readonly TokenReader[] {
    if (ofExecute === undefined) return [];
    const isQuery = tokens !== undefined && verdict().bypass === undefined;
    return isQuery
      ? [(sources = new SourceSearch(tokens))]
      : (parts = waysToRead(ofExecute, tokens));
  }

  /** Reads about so many UTF-16 units more. @returns false when there are none */
  function step(units: number): boolean {
    if (judged?.step(units)) return true;
    behind ??= readersBehind();
    return behind.some((reader) => reader.step(units));
  }

  return {
    step,
    finish() {
      while (step(Infinity));
      const readings = parts.map((one) => one.found());
      return { ...verdict(), tokens, sources: sources ?? NO_SOURCES, readings };
    },
  };
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
function onlyReads(request: ExecuteRequest, { readings }: StatementRead): boolean {
  const { commands, statement } = request;
  if (!isOneStatement(request)) return commands.length === 1 && commands[0] === 'Cancel';
  const isRead = readings.every((parts) => parts.length === 1 && parts[0] === 'reads');
  return isRead || !/[^ \t\n\f\r]/.test(statement);
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
const REACHING = /into|openquery|openrowset/;
const REACHING_WORD = /(?<![a-z0-9_])(?:into|openquery|openrowset)(?![a-z0-9_])/;
/** A backslash may escape a quote; another tokenizer may end a line comment at the characters. */
const UNCERTAIN = /\\['"]|[\f\v\u0085\u2028\u2029]/;
/** Texts of more statements are not searched. */
const MOST_STATEMENTS = 1_000;
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
  const name = foldToFind(command);
  if (READING_COMMANDS.has(name)) return 'own';
  const change = STATELESS_COMMANDS.has(name) ? COMMAND : COMMIT;
  return { ...(name === 'batch' ? ANYTHING : change), why: `command ${name.slice(0, 80)}` };
}

/** Reads the text in each way an engine may. It is that of the first Statement only. */
function waysToRead({ commands, statement }: ExecuteRequest, tokens: MdxTokens | undefined) {
  const count = commands.filter((name) => name === 'Statement').length;
  if (count === 0) return [];
  if (count > 1 || tokens === undefined) return [new Parts(undefined)];
  if (!statement.includes('\r')) return [new Parts(tokens)];
  // Mondrian drops a loose carriage return; others end the line there, or see white space.
  const others = new Set([statement.replaceAll('\r', ''), statement.replaceAll(/\r\n?/g, '\n')]);
  return [tokens, ...[...others].map((text) => new MdxTokens(text))].map((one) => new Parts(one));
}

/** Finds what each statement of a text does. */
class Parts extends TokenReader {
  #parts: Part[];
  #words: string[] = [];
  #reaches = false;
  #isCertain = true;

  /** @param tokens undefined where the text cannot be read */
  constructor(tokens: MdxTokens | undefined) {
    super();
    this.#parts = tokens === undefined ? [ANYTHING] : [];
    if (tokens !== undefined) this.add(tokens, 0);
  }

  protected read(tokens: MdxTokens, _depth: number, from: number, to: number): void {
    if (from === 0) this.#begin(tokens);
    const text = textOf(tokens, from, to);
    const mayReach = text.length > 2 * SLICE || REACHING.test(foldName(text));
    const hasLineEnd = text.includes('\n');
    for (let index = from; index < to; index += 1) {
      const kind = kindAt(tokens, index);
      if (kind === MDX.word && mayReach && reaches(textAt(tokens, index))) this.#reaches = true;
      const isLong = kind === MDX.bracketed && hasLineEnd && textAt(tokens, index).includes('\n');
      this.#isCertain &&= !isLong && kind !== MDX.unterminated && kind !== MDX.closingBracket;
      if (kind === MDX.semicolon) this.#judge();
      else if (this.#words.length < 2) this.#words.push(firstOf(textAt(tokens, index)));
    }
    if (to === tokens.count) this.#judge();
  }

  /** In another reading than this an engine may find another statement. */
  found(): readonly Part[] {
    const parts = this.#parts;
    if (parts.length > MOST_STATEMENTS) return [ANYTHING];
    return this.#isCertain ? parts : parts.map((part) => (part === 'reads' ? 'own' : part));
  }

  #begin(tokens: MdxTokens): void {
    const { text, hasNestedComment } = tokens;
    if (hasNestedComment) this.#parts.push(ANYTHING);
    this.#isCertain = kindAt(tokens, 0) !== MDX.semicolon && !UNCERTAIN.test(text);
  }

  #judge(): void {
    const words = this.#words;
    const [first] = words;
    if (first === undefined || this.#parts.length > MOST_STATEMENTS) return;
    const names = [words.join(' '), first];
    if (!this.#reaches && READING.has(first)) this.#parts.push('reads');
    else if (!this.#reaches && names.some((name) => OWN.has(name))) this.#parts.push('own');
    else {
      const [change = COMMIT] = names.flatMap((name) => STATEMENTS.get(name) ?? []);
      // Names and values stay out of the log.
      const told = words.filter((word) => /^[a-z]{1,20}$/.test(word));
      this.#parts.push({ ...change, why: ['statement', ...told].join(' ') });
    }
    this.#words = [];
    this.#reaches = false;
  }
}

const reaches = (word: string) => word.length > 2 * SLICE || REACHING_WORD.test(foldName(word));
/** Longer words are none of {@link STATEMENTS}. */
const firstOf = (word: string) => word.slice(0, 64).toLowerCase();
