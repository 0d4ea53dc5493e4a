import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Authenticator } from '../auth/authenticator.ts';
import type { Clock } from '../clock.ts';
import type { Emit } from '../events.ts';
import type { BodiesInUse } from '../query-cache/bodies-in-use.ts';
import type { GzipMaker } from '../query-cache/gzip.ts';
import type { KnownAnswers } from '../query-cache/query.ts';
import type { StoredAnswer } from '../query-cache/stored-answer.ts';
import type { RoleSets } from '../roles/role-sets.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { isTouchDue } from '../xmla-line/keep-alive.ts';
import { createKnownHeads } from './known-heads.ts';
import {
  createKnownQueries,
  type KnownBody,
  type KnownHead,
  type KnownPassing,
  type KnownQuery,
} from './known-queries.ts';
import { inSession } from './in-session.ts';
import { createLearning, MAX_BODY, type Learning } from './learning.ts';
import { createHitSender, type Recognised, type Taken } from './send-hit.ts';

export interface HotPath extends Learning {
  /**
   * Takes a request before anybody has looked at it. Answers it from memory or tier 2 if it is known and whole, else
   * calls `otherwise`, with the body still to be read.
   */
  take(request: IncomingMessage, response: ServerResponse, otherwise: () => void): void;
  /**
   * What is known of a request whose body was read: a query, which counts in this turn only, or what was understood of
   * a request that must go past the cache. Undefined also for a query that tier 2 was just asked for in vain: the line
   * asks it once more, before it asks the engine.
   */
  recognise(request: IncomingMessage, body: Buffer): Recognised | KnownPassing | undefined;
}

/** A request that was taken, and who gets it when it cannot be answered here. */
interface Looking extends Taken {
  readonly otherwise: () => void;
}

/** A body that was recognised as a query. */
type AsQuery = Pick<KnownBody, 'sessionId'> & { readonly query: KnownQuery };

/**
 * Answers repeated queries before the line of a request begins: from memory in one turn of the event loop and without a
 * promise, from tier 2 with the one await that asking it takes.
 *
 * It understands nothing by itself. It remembers what the line understood of a head and a body, recognises both byte by
 * byte, less the gaps (`gaps.ts`), and asks again whatever may have changed since: whether the login still counts, the
 * session is still the user's own and clean, the roles are the same, the epochs are in force, the entry is there. Where
 * one of these is not certain in the very turn that answers, the request goes the whole line.
 */
export function createHotPath(options: {
  authenticator: Pick<Authenticator, 'remembered'>;
  cache: Pick<KnownAnswers, 'recall' | 'bring' | 'gzipOf'>;
  sessions: Pick<Sessions, 'handle'>;
  roleSets: Pick<RoleSets, 'heldName'>;
  gzip: GzipMaker;
  inUse: Pick<BodiesInUse, 'hold'>;
  /** Told of what is under way for longer than a turn. */
  work: { readonly begin: () => void; readonly end: () => void };
  clock: Clock;
  /** Keys digests of heads. */
  secret: string;
  newId: () => string;
  emit: Emit;
}): HotPath {
  const { cache, roleSets, work, clock, emit } = options;
  const heads = createKnownHeads<KnownHead>(options);
  const queries = createKnownQueries();
  const hits = createHitSender(options);
  /** Requests that tier 2 was asked for in vain. */
  const missed = new WeakSet<IncomingMessage>();

  function find(head: KnownHead, body: Buffer): KnownBody | undefined {
    return body.length <= MAX_BODY ? queries.recognise(head, body) : undefined;
  }

  /** Asks again what may have changed since a query was learnt. What was understood of a request does not change. */
  function judge(head: KnownHead, { query, sessionId }: AsQuery): Recognised | undefined {
    if (!head.login.counts() || !isStillTheirs(head, query, sessionId)) return undefined;
    const { found, subject } = query;
    return { principal: head.login.principal.name, subject, found, sessionId };
  }

  function isStillTheirs(
    head: KnownHead,
    query: KnownQuery,
    sessionId: KnownBody['sessionId'],
  ): boolean {
    const { name } = head.login.principal;
    if (query.roles !== undefined && roleSets.heldName(name) !== query.roles) return false;
    if (query.session === undefined || sessionId === undefined) {
      return query.session === undefined && sessionId === undefined;
    }
    const found = queries.session(head, sessionId)?.find();
    if (found?.kind !== 'known') return false;
    const { record } = found;
    const { profile, catalog } = query.session;
    const isClean = record.principal === name && !record.dirty;
    const isAlike = record.profile === profile && record.catalog === catalog;
    return isClean && isAlike && !isTouchDue(record, head.sessionIdle, clock.wall());
  }

  /** False when nothing was sent. */
  function answer(looking: Looking, recognised: Recognised, brought?: StoredAnswer): boolean {
    const recalled = cache.recall(recognised.found, brought);
    if (recalled !== undefined) hits.send(looking, recognised, recalled);
    return recalled !== undefined;
  }

  function look(looking: Looking): void {
    const { request, head, otherwise } = looking;
    const isWhole = request.complete && !request.destroyed;
    // Without a length it would be the first chunk alone.
    const body = isWhole ? (request.read(request.readableLength) as Buffer | null) : null;
    if (body === null) return otherwise();
    let later: (() => Promise<void>) | undefined;
    try {
      const known = find(head, body);
      const recognised = isQuery(known) ? judge(head, known) : undefined;
      if (isQuery(known) && recognised !== undefined) {
        if (answer(looking, recognised)) return;
        const bringing = cache.bring(recognised.found, body.length);
        if (bringing !== undefined) later = () => answerFrom(bringing, looking, known, recognised);
      }
    } catch (error) {
      if (brokeOff(looking, error)) return;
    }
    // In this turn: in the next one its end would have been told, and the line could not read it any more.
    request.unshift(body);
    if (later === undefined) otherwise();
    else void later();
  }

  /** @param recognised as it was before tier 2 was asked */
  async function answerFrom(
    bringing: Promise<StoredAnswer | undefined>,
    looking: Looking,
    known: AsQuery,
    recognised: Recognised,
  ): Promise<void> {
    const { request, response, head, otherwise } = looking;
    work.begin();
    const brought = await bringing;
    work.end();
    try {
      if (request.destroyed || response.destroyed) return hits.tellGone(looking, recognised);
      // No await from here to the end of the answer: what was judged before may have changed meanwhile.
      const still = judge(head, known);
      if (still !== undefined && answer(looking, still, brought)) return;
    } catch (error) {
      if (brokeOff(looking, error)) return;
    }
    if (brought === undefined) missed.add(request);
    otherwise();
  }

  /** Tells of a mistake of this program. False when nothing was sent: then the line can still answer. */
  function brokeOff({ response }: Looking, error: unknown): boolean {
    emit({ type: 'internal-error', id: options.newId(), error });
    if (response.headersSent) response.destroy();
    return response.headersSent;
  }

  return {
    take(request, response, otherwise) {
      const head = heads.of(request);
      if (head === undefined) return otherwise();
      // By then the parser has been through everything that came together with the head.
      setImmediate(look, { request, response, head, began: clock.now(), otherwise });
    },
    recognise(request, body) {
      const head = heads.of(request);
      const known = head && find(head, body);
      if (head === undefined || known === undefined) return undefined;
      if (isQuery(known)) return missed.has(request) ? undefined : judge(head, known);
      const { query, sessionId } = known;
      if (!('asked' in query) || !head.login.counts()) return undefined;
      return { asked: inSession(query.asked, sessionId) };
    },
    ...createLearning({ ...options, heads, queries }),
  };
}

function isQuery(known: KnownBody | undefined): known is AsQuery {
  return known !== undefined && 'found' in known.query;
}
