/** The command explain. */
import { readFileSync } from 'node:fs';
import type { QueryCache } from '../cache/cache.ts';
import { BYPASS_REASONS, GATEWAY_REASONS, REFUSAL_REASONS } from '../common/reasons.ts';
import { durations } from '../config/kinds.ts';
import { isXmlaHeader } from '../http/request-head.ts';
import { type Given, UsageError } from './arguments.ts';
import type { ClientParts, GatewayClient, Told } from './gateway-client.ts';
import { readInput } from './password.ts';

type Word = 'decision' | 'reason' | 'why' | 'subject' | 'share';
/** As POST /admin/explain tells it. */
interface Explanation {
  readonly project?: string;
  readonly user: string;
  readonly classification: Readonly<
    Partial<Record<Word, string>> & { catalogs?: readonly string[]; ttl_ms?: number }
  >;
  readonly cache?: Awaited<ReturnType<QueryCache['explain']>>;
}
type Entry = Readonly<Record<'age_ms' | 'ttl_ms' | 'bytes' | 'engine_ms', number>>;

/** @returns asks, and throws Failure. @throws UsageError, what reading the file throws */
export function explain(
  { name: file = '-', project, as: user, header = [] }: Given,
  parts: Pick<ClientParts, 'input' | 'stopped'>,
): (client: GatewayClient) => Promise<Told> {
  const headers = { 'content-type': 'text/xml', ...Object.fromEntries(header.map(readHeader)) };
  const query = new URLSearchParams({ ...(project && { project }), ...(user && { user }) });
  const read = file === '-' ? undefined : readFileSync(file);
  return async (client) => {
    const body = read ?? (await readInput(parts));
    const answer = await client.ask(`/admin/explain?${query}`, headers, body);
    if (answer.status !== 200 || !answer.json?.['classification']) throw client.refusal(answer);
    const lines = inWords(answer.json as unknown as Explanation);
    return { exit: 0, value: answer.json, lines };
  };
}

function readHeader(line: string): [name: string, value: string] {
  const [, name = '', value = ''] = /^([\w-]+): *([ -~\xa0-\xff]+)$/.exec(line) ?? [];
  if (isXmlaHeader(name.toLowerCase())) return [name.toLowerCase(), value];
  const names =
    'Content-Type, SOAPAction, Accept, User-Agent, X-AS-SessionID, X-AS-GetSessionToken';
  const letters = 'the value in letters of ISO-8859-1, without control characters';
  throw new UsageError(`explain: --header must be "Name: value" of one of ${names}; ${letters}`);
}

type Meanings = Readonly<Record<string, string | readonly [status: number, meaning: string]>>;
const DECISIONS: Meanings = {
  cacheable: 'it is looked up in the cache',
  bypass: 'it goes to the engine past the cache',
  refused: 'the gateway answers it with a Fault',
};
/** Of parts of the key that differ. */
const DIFFERENCES: Meanings = { epochs: 'it was purged', identity: "it is another user's" };

function withMeaning(word: string, meanings: Meanings): string {
  const meaning = Object.hasOwn(meanings, word) ? [meanings[word]].flat().at(-1) : undefined;
  return meaning === undefined ? word : `${word}: ${meaning}`;
}

function inWords({ project, user, classification, cache }: Explanation): string[] {
  const { decision = '', reason, why, subject = 'unknown', share, ttl_ms = 0 } = classification;
  const catalogs = classification.catalogs?.join(', ') || 'none';
  const where = `project: ${project ?? 'none'}; catalogs: ${catalogs}`;
  const lines = [withMeaning(decision, DECISIONS), `request: ${subject} by ${user}; ${where}`];
  const reasons = decision === 'refused' ? GATEWAY_REASONS : BYPASS_REASONS;
  if (reason !== undefined) lines.push(`reason: ${withMeaning(reason, reasons)}`);
  if (why !== undefined) lines.push(`why: ${why}`);
  if (cache === undefined) return lines;
  const { epochs, memory, redis, flight, not_stored, nearest } = cache;
  const tokens = epochs === 'unknown' ? [] : epochs.map(({ scope, token }) => `${scope} ${token}`);
  lines.push(
    `shared: by ${share}, kept for ${durations.format(ttl_ms)}`,
    `memory: ${entryInWords(memory)}`,
    `Redis: ${typeof redis === 'string' ? redis : entryInWords(redis)}`,
    `under way: ${flight ? 'the engine is being asked for it' : 'no'}`,
    `epochs: ${tokens.join(', ') || 'unknown, since Redis cannot be reached'}`,
  );
  // An older gateway does not tell it.
  if (not_stored) {
    lines.push(`not stored the last time: ${withMeaning(not_stored, REFUSAL_REASONS)}`);
  }
  if (nearest === null) return lines;
  const differs = nearest.differs.map((part) => withMeaning(part, DIFFERENCES)).join('; ');
  return [
    ...lines,
    `nearest: an entry of ${seconds(nearest.age_ms)} ago, which differs in ${differs}`,
  ];
}

const entryInWords = (entry: Entry | null) =>
  entry
    ? `an entry of ${seconds(entry.age_ms)} ago, for ${seconds(Math.max(0, entry.ttl_ms))} more; ${entry.bytes} bytes, for which the engine took ${seconds(entry.engine_ms)}`
    : 'no entry';

const seconds = (milliseconds: number) => `${(milliseconds / 1000).toFixed(1)} s`;
