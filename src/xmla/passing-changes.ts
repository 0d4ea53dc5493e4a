import { foldName } from './fold-name.ts';
import { mdxTokens } from './mdx-tokens.ts';
import type { ExecuteRequest, XmlaRequest } from './xmla-request.ts';

/** What a request that passes through changes at the engine, so that entries of before are stale. */
export interface PassingChange {
  /** Of the catalogs that the request names, or of any. */
  readonly reach: 'named' | 'everything';
  /** REFRESH CUBE, which a client sends to see what others changed. */
  readonly refresh: boolean;
  /** Whether the session itself differs from others afterwards: it sees what it has not committed. */
  readonly leavesState: boolean;
}

/** Commands of XMLA that change no data and no definition ([MS-SSAS] §3.1.4.3). */
const READING_COMMANDS: ReadonlySet<string> = new Set([
  'statement',
  'cancel',
  'backup',
  'lock',
  'unlock',
  'subscribe',
]);

interface StatementRule {
  readonly words: readonly string[];
  readonly change: PassingChange;
}

/** How a statement begins that changes what others are answered, in lower case. */
const STATEMENTS: readonly StatementRule[] = [
  { words: ['refresh', 'cube'], change: { reach: 'named', refresh: true, leavesState: false } },
  { words: ['update'], change: { reach: 'named', refresh: false, leavesState: true } },
  { words: ['commit'], change: { reach: 'named', refresh: false, leavesState: true } },
  { words: ['alter'], change: { reach: 'named', refresh: false, leavesState: true } },
  // TMSL, the commands of tabular models, is JSON in a Statement.
  { words: ['{'], change: { reach: 'everything', refresh: false, leavesState: false } },
];

const COMMAND: PassingChange = { reach: 'everything', refresh: false, leavesState: false };
const BATCH: PassingChange = { ...COMMAND, leavesState: true };

/** Longer texts are not searched: what begins behind so many characters is nothing that a tool sends. */
const SEARCHED = 128 * 1024;

/**
 * What of the engine's data the request changes when it succeeds: ClearCache, Process, Alter and other commands,
 * UPDATE CUBE, COMMIT, REFRESH CUBE. Undefined for all that only reads, or changes no more than its session.
 */
export function passingChange(request: XmlaRequest): PassingChange | undefined {
  if (request.method === 'Discover') return undefined;
  return merged([...commandChanges(request), ...statementChanges(request)]);
}

function commandChanges({ commands }: ExecuteRequest): readonly PassingChange[] {
  const changing = commands.map(foldName).filter((name) => !READING_COMMANDS.has(name));
  // A Batch may hold anything.
  return changing.map((name) => (name === 'batch' ? BATCH : COMMAND));
}

/** Looks at the first words of each statement of the text. */
function statementChanges({ statement }: ExecuteRequest): readonly PassingChange[] {
  const found: PassingChange[] = [];
  let words: string[] = [];
  const judge = (): void => {
    const rule = STATEMENTS.find((one) => one.words.every((word, i) => words[i] === word));
    if (rule !== undefined) found.push(rule.change);
    words = [];
  };
  for (const { kind, text } of mdxTokens(statement.slice(0, SEARCHED))) {
    if (kind === 'space' || kind === 'line-comment' || kind === 'block-comment') continue;
    if (kind === 'mark' && text === ';') judge();
    else if (words.length < 2) words.push(text.toLowerCase());
  }
  judge();
  return found;
}

function merged(changes: readonly PassingChange[]): PassingChange | undefined {
  if (changes.length === 0) return undefined;
  return {
    reach: changes.some(({ reach }) => reach === 'everything') ? 'everything' : 'named',
    refresh: changes.every(({ refresh }) => refresh),
    leavesState: changes.some(({ leavesState }) => leavesState),
  };
}
