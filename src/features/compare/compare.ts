import { inflatedWithSession, type StoredAnswer, withSession } from '../../cache/stored-answer.ts';
import { GatewayError } from '../../common/errors.ts';
import type { AdminQuestion } from '../../http/admin-act.ts';
import { ofNoClient, withoutReader } from '../../line/no-client.ts';
import type { SharedQuery } from '../../line/query.ts';
import { createOwnTurns, type OwnTurn } from '../../line/understand.ts';
import { answerDigest } from '../../xmla/answer/answer-digest.ts';
import { INSPECTION_SLICE } from '../../xmla/answer/inspect-answer.ts';
import { finding } from '../../common/finding.ts';
import { listOf } from '../../common/list-of.ts';
import type { Core, Feature, HourCounts, Line } from '../feature.ts';
import type { Verdict } from './events.ts';

export const compare = ({ emit }: Core): Feature => ({
  pages: async ({ line }) => {
    const comparison = createComparison(line);
    const tell = async (question: AdminQuestion) => {
      const { project = '', digest, compared } = await comparison(question);
      const { id, administrator } = question;
      const principal = administrator.name;
      emit({ type: 'compared', id, principal, project, digest, verdict: compared.verdict });
      return compared;
    };
    const { questionAct } = await import('../../http/admin-act.ts');
    return { acts: { '/admin/compare': questionAct(tell, { user: false }) } };
  },
  findings: async (hour) => staleFinding(hour),
});

export function staleFinding(hour: HourCounts) {
  const stale = hour('stale').map(({ name }) => name);
  return finding('problem', 'stale-answer', stale.length > 0)`
      In the last hour the cache held answers that differ from those of the engine: ${listOf(stale)}.
      The data changed and no purge followed, or the engine gives different answers to users who share them.
      Run mdx-gateway purge PROJECT, and have the load job call clearCache at its end.`;
}

type Parts = Pick<Line, 'cache' | 'engineOf' | 'look' | 'memory'>;
export type Compared = Awaited<ReturnType<ReturnType<typeof createComparison>>>['compared'];

/**
 * Compares the engine's answer now with the cached one. Walks the steps of a request that change no
 * session, store or answer. A difference is asked for once more.
 */
function createComparison({ cache, engineOf, look, memory }: Parts) {
  const ownTurn = createOwnTurns();

  return async (question: AdminQuestion) => {
    const { classification, query } = await look(question);
    const { project, signal } = question;
    if (query === undefined) {
      return { project, digest: '', compared: notCached(classification.reason) };
    }
    const engine = { cache, ownTurn, gone: signal, timeoutMs: engineOf(project).settings.timeout };
    const found = await cache.entryOf(query);
    const compared =
      found === undefined ? notCached('epochs-unknown') : await compareWith(found, query);
    return { project, digest: query.parts.asked.digest, compared };

    async function compareWith(of: Found, query: SharedQuery) {
      const { key, epochs, entry } = of;
      if (entry === undefined) return { ...NOTHING, key, epochs, verdict: 'no-entry' as const };
      const { answer, source, age } = entry;
      const letGo = memory.hold(answer.body);
      try {
        const { verdict, why, asked } = await verdictOn(answer, key, query, engine);
        const about = { source, age_ms: Math.round(age), bytes: answer.body.length };
        return { verdict, why, entry: about, engine: asked, key, epochs };
      } finally {
        letGo();
      }
    }
  };
}

type Found = NonNullable<Awaited<ReturnType<Parts['cache']['entryOf']>>>;

const NOTHING = { why: undefined, entry: null, engine: [], key: null, epochs: null } as const;
const notCached = (why?: string) => ({ ...NOTHING, verdict: 'not-cached' as const, why });

interface Asking {
  readonly cache: Pick<Parts['cache'], 'fetch' | 'entryOf'>;
  readonly ownTurn: OwnTurn;
  readonly gone: AbortSignal;
  readonly timeoutMs: number;
}

/** @returns `why` in the words of src/common/reasons.ts; `asked`: a row for each ask */
async function verdictOn(answer: StoredAnswer, key: string, query: SharedQuery, engine: Asking) {
  const asked: Record<'ms' | 'bytes', number>[] = [];
  const told = (verdict: Verdict, why?: string) => ({ verdict, why, asked });
  let before = await digestOf(answer, engine.ownTurn);
  for (;;) {
    const said = await ask(query, engine);
    if (typeof said === 'string') return told('failed', said);
    asked.push(said.facts);
    const isFirst = asked.length === 1;
    if (isFirst && said.digest === before) return told('same');
    const now = await engine.cache.entryOf(query);
    if (now === undefined) return told('failed', 'epochs-unknown');
    const kept = now.key === key ? now.entry?.answer : undefined;
    const { requestedAt, body } = answer;
    const stands = kept?.requestedAt === requestedAt && kept.body.length === body.length;
    if (!stands) return told('purged');
    if (!isFirst) return told(said.digest === before ? 'stale' : 'unstable');
    before = said.digest;
  }
}

/** @returns the engine's answer, or the word for why it cannot be compared */
async function ask(query: SharedQuery, { cache, ownTurn, gone, timeoutMs }: Asking) {
  const late = AbortSignal.timeout(timeoutMs);
  const enough = new AbortController();
  const signal = AbortSignal.any([gone, late, enough.signal]);
  const asked = await cache
    .fetch(ofNoClient(query, signal), withoutReader(signal), async (answer) => ({
      digest: await digestOf(answer, ownTurn, signal),
      facts: { ms: Math.round(answer.engineMilliseconds), bytes: answer.body.length },
    }))
    .catch((error: unknown) => ({ kind: 'failed' as const, error }));
  // The rest of an answer that may not be stored is not read.
  enough.abort();
  if (asked.kind === 'used') return asked.value;
  if (asked.kind === 'refused') return asked.reason;
  if (gone.aborted) return 'client-gone';
  if (late.aborted) return 'engine-timeout';
  if (asked.error instanceof GatewayError) return asked.error.reason;
  throw asked.error;
}

/** Digests a long answer in many turns. Rejects with the reason of the signal. */
async function digestOf(answer: StoredAnswer, ownTurn: OwnTurn, signal?: AbortSignal) {
  const digest = answerDigest(answer.contentType);
  for await (const piece of piecesOf(answer)) {
    for (let at = 0; at < piece.length; at += INSPECTION_SLICE) {
      await ownTurn();
      signal?.throwIfAborted();
      digest.write(piece.subarray(at, at + INSPECTION_SLICE));
    }
  }
  return digest.end();
}

async function* piecesOf({ body, session }: StoredAnswer): AsyncGenerator<Buffer> {
  if (Buffer.isBuffer(body)) return yield* withSession({ body, session }, '');
  yield* inflatedWithSession({ body, session }, '').pieces();
}
