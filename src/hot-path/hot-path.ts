import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Authenticator } from '../auth/authenticator.ts';
import type { Clock } from '../clock.ts';
import type { Emit, Outcome } from '../events.ts';
import { sendStored } from '../http/stored-reply.ts';
import type { BodiesInUse } from '../query-cache/bodies-in-use.ts';
import type { GzipMaker } from '../query-cache/gzip-maker.ts';
import { GZIP_FROM } from '../query-cache/gzip-variant.ts';
import type { KnownAnswers } from '../query-cache/known-answers.ts';
import type { KnownKey } from '../query-cache/query.ts';
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

/** A request that is known: what the line would find out of it. */
export interface Recognised {
  readonly principal: string;
  readonly subject: string;
  readonly found: KnownKey;
  /** The id of its session, which is the principal's own and clean at this moment. */
  readonly sessionId: string | undefined;
}

export interface HotPath extends Learning {
  /**
   * Takes a request before anybody has looked at it. Answers it from memory if it is known and whole, else puts back
   * what was read and calls `otherwise`, in this turn or the next.
   */
  take(request: IncomingMessage, response: ServerResponse, otherwise: () => void): void;
  /**
   * What is known of a request whose body was read: a query, which counts in this turn only, or what was understood of
   * a request that must go past the cache.
   */
  recognise(request: IncomingMessage, body: Buffer): Recognised | KnownPassing | undefined;
}

/** How long a client may take nothing of an answer (ms). */
const LONGEST_STALL = 300_000;
const FROM_MEMORY: Outcome = { kind: 'hit', detail: 'memory' };

/**
 * Answers repeated queries before the line of a request begins, in one turn of the event loop and without a promise.
 *
 * It understands nothing by itself. It remembers what the line understood of a head and a body, recognises both byte by
 * byte, less the gaps (`gaps.ts`), and asks again whatever may have changed since: whether the login still counts, the
 * session is still the user's own and clean, the roles are the same, the epochs are in force, the entry is there. Where
 * one of these is not certain at this very moment, the request goes the whole line.
 */
export function createHotPath(options: {
  authenticator: Pick<Authenticator, 'remembered'>;
  cache: Pick<KnownAnswers, 'recall' | 'gzipOf'>;
  sessions: Pick<Sessions, 'handle'>;
  roleSets: Pick<RoleSets, 'heldName'>;
  gzip: GzipMaker;
  inUse: Pick<BodiesInUse, 'hold'>;
  clock: Clock;
  /** Keys digests of heads. */
  secret: string;
  newId: () => string;
  emit: Emit;
}): HotPath {
  const { cache, roleSets, inUse, clock, emit } = options;
  const heads = createKnownHeads<KnownHead>(options);
  const queries = createKnownQueries();

  /** Asks again what may have changed since a query was learnt. What was understood of a request does not change. */
  function recogniseUnder(head: KnownHead, body: Buffer): Recognised | KnownPassing | undefined {
    if (body.length > MAX_BODY || !head.login.counts()) return undefined;
    const known = queries.recognise(head, body);
    if (known === undefined) return undefined;
    const { query, sessionId } = known;
    if ('asked' in query) return { asked: inSession(query.asked, sessionId) };
    if (!isStillTheirs(head, query, sessionId)) return undefined;
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
  function answer(
    response: ServerResponse,
    head: KnownHead,
    { principal, subject, found, sessionId }: Recognised,
    began: number,
  ): boolean {
    const recalled = cache.recall(found);
    if (recalled === undefined) return false;
    const { answer: stored, ttl, age } = recalled;
    const wantsGzip = head.takesGzip && stored.body.length >= GZIP_FROM;
    const gzip = wantsGzip ? cache.gzipOf(found.key, stored) : undefined;
    const variant = gzip?.variant;
    const bytes = sendStored(response, stored, {
      source: 'memory',
      ttl,
      age,
      sessionId,
      variant,
      asksForCaps: head.asksForCaps,
    });
    whenOver(response, variant?.tail ?? stored.body, (complete) =>
      emit({
        type: 'xmla-answered',
        id: options.newId(),
        principal,
        project: head.project,
        subject,
        why: '',
        outcome: FROM_MEMORY,
        status: 200,
        bytes,
        milliseconds: clock.now() - began,
        saved: stored.engineMilliseconds,
        complete,
      }),
    );
    if (gzip !== undefined && variant === undefined) {
      options.gzip.prepare(stored, (made) => gzip.keep(made));
    }
    return true;
  }

  /** Most answers are with the system already when they have been written, and need no one to wait for them. */
  function whenOver(
    response: ServerResponse,
    body: Buffer,
    tell: (complete: boolean) => void,
  ): void {
    if (response.socket?.writableLength === 0) return tell(true);
    const letGo = inUse.hold(body);
    response.once('close', () => {
      letGo();
      tell(response.writableFinished);
    });
    response.setTimeout(LONGEST_STALL, () => response.destroy());
  }

  function look(
    request: IncomingMessage,
    response: ServerResponse,
    head: KnownHead,
    began: number,
    otherwise: () => void,
  ): void {
    const body = request.complete && !request.destroyed ? (request.read() as Buffer | null) : null;
    if (body === null) return otherwise();
    try {
      const known = recogniseUnder(head, body);
      if (known !== undefined && 'found' in known && answer(response, head, known, began)) return;
    } catch (error) {
      emit({ type: 'internal-error', id: options.newId(), error });
      if (response.headersSent) return void response.destroy();
    }
    request.unshift(body);
    otherwise();
  }

  return {
    take(request, response, otherwise) {
      const head = heads.of(request);
      if (head === undefined) return otherwise();
      const began = clock.now();
      // By then the parser has been through everything that came together with the head.
      setImmediate(look, request, response, head, began, otherwise);
    },
    recognise(request, body) {
      const head = heads.of(request);
      return head && recogniseUnder(head, body);
    },
    ...createLearning({ ...options, heads, queries }),
  };
}
