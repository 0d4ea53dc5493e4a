import type { QueryCache } from '../cache/cache.ts';
import type { MemoryTier } from '../cache/memory-tier.ts';
import type { Client, Query } from '../cache/query.ts';
import { inflatedWithSession, type StoredAnswer, withSession } from '../cache/stored-answer.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit, Verdict } from '../common/events.ts';
import type { AdminQuestion } from '../http/admin.ts';
import { answerDigest } from '../xmla/answer/answer-digest.ts';
import { INSPECTION_SLICE } from '../xmla/answer/inspect-answer.ts';
import type { Look } from './explain.ts';
import type { SharedQuery } from './query.ts';
import { createOwnTurns, type EngineOf, type OwnTurn } from './understand.ts';

/** Of what is not compared. */
const NOTHING = { why: undefined, entry: null, engine: [], key: null, epochs: null } as const;
const notCached = (why?: string) => ({ ...NOTHING, verdict: 'not-cached' as const, why });

/**
 * Compares what a request would be answered from now with what the engine says now. It goes the steps of the handler, less
 * those that change a session, store or answer. The engine is asked where there is an entry alone, and once more where it
 * says something else.
 */
export function createComparison(parts: {
  readonly cache: Pick<QueryCache, 'entryOf' | 'fetch'>;
  readonly engineOf: EngineOf;
  readonly holdBody: MemoryTier['hold'];
  readonly look: Look;
  readonly emit: Emit;
}) {
  const { cache, engineOf, holdBody, look, emit } = parts;
  const ownTurn = createOwnTurns();

  /** @returns what the engine says, or the word for why that cannot be compared */
  async function ask(query: SharedQuery, gone: AbortSignal, timeout: number) {
    const late = AbortSignal.timeout(timeout);
    const enough = new AbortController();
    const signal = AbortSignal.any([gone, late, enough.signal]);
    const asked = await cache
      .fetch(ofNoClient(query, signal), withoutReader(signal), async (answer) => ({
        digest: await digestOf(answer, ownTurn, signal),
        facts: { ms: Math.round(answer.engineMilliseconds), bytes: answer.body.length },
      }))
      .catch((error: unknown) => ({ kind: 'failed' as const, error }));
    // Of what may not be stored the rest is not read.
    enough.abort();
    if (asked.kind === 'used') return asked.value;
    if (asked.kind === 'refused') return asked.reason;
    if (gone.aborted) return 'client-gone';
    if (late.aborted) return 'engine-timeout';
    if (asked.error instanceof GatewayError) return asked.error.reason;
    throw asked.error;
  }

  /** `why` in the words of src/common/reasons.ts; of the engine one row for each time it was asked. */
  async function compare(query: SharedQuery, gone: AbortSignal, timeout: number) {
    const found = await cache.entryOf(query);
    if (found === undefined) return notCached('epochs-unknown');
    const { key, epochs, entry } = found;
    if (entry === undefined) return { ...NOTHING, key, epochs, verdict: 'no-entry' as const };
    const { answer, source, age } = entry;
    const engine: Record<'ms' | 'bytes', number>[] = [];
    const facts = { entry: { source, age_ms: Math.round(age), bytes: answer.body.length }, engine };
    const told = (verdict: Verdict, why?: string) => ({ verdict, why, ...facts, key, epochs });
    const letGo = holdBody(answer.body);
    try {
      let before = await digestOf(answer, ownTurn);
      for (;;) {
        const said = await ask(query, gone, timeout);
        if (typeof said === 'string') return told('failed', said);
        engine.push(said.facts);
        const isFirst = engine.length === 1;
        if (isFirst && said.digest === before) return told('same');
        const now = await cache.entryOf(query);
        if (now === undefined) return told('failed', 'epochs-unknown');
        const kept = now.key === key ? now.entry?.answer : undefined;
        const { requestedAt, body } = answer;
        const stands = kept?.requestedAt === requestedAt && kept.body.length === body.length;
        if (!stands) return told('purged');
        if (!isFirst) return told(said.digest === before ? 'stale' : 'unstable');
        before = said.digest;
      }
    } finally {
      letGo();
    }
  }

  return async (question: AdminQuestion) => {
    const { classification, query } = await look(question);
    const { id, principal, project, signal } = question;
    const { timeout } = engineOf(project).settings;
    const compared =
      query === undefined
        ? notCached(classification.reason)
        : await compare(query, signal, timeout);
    const { verdict } = compared;
    const asked = { project: project ?? '', digest: query?.parts.asked.digest ?? '' };
    emit({ type: 'compared', id, principal: principal.name, ...asked, verdict });
    return compared;
  };
}

/** A query that ends with the signal too. No client is shown a session that the engine begins by itself. */
export const ofNoClient = (query: Query, signal: AbortSignal): Query => ({
  ...query,
  began: async () => {},
  ask: (ends, unwanted) => query.ask(AbortSignal.any([signal, ends]), unwanted),
});

/** As long as any client may (ms): what bounds it is its signal. */
const LONGEST = 3_600_000;

/** In the place of a client: takes an answer as fast as it comes, and keeps nothing of it. */
export const withoutReader = (signal: AbortSignal): Client => ({
  signal,
  waits: () => LONGEST,
  replay() {},
  open() {},
  notStored() {},
  write: () => true,
  backlog: () => 0,
  drained: async () => {},
  end() {},
  over: async () => {},
  fail() {},
});

/** Of a long answer a part in each turn. Rejects with the reason of the signal. */
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

/** The text with an empty session id. */
async function* piecesOf({ body, session }: StoredAnswer): AsyncGenerator<Buffer> {
  if (Buffer.isBuffer(body)) return yield* withSession({ body, session }, '');
  yield* inflatedWithSession({ body, session }, '').pieces();
}
