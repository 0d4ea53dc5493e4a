import type { IncomingMessage } from 'node:http';
import { LRUCache } from 'lru-cache';
import type { Authenticator, Principal } from '../auth/authenticator.ts';
import type { CacheShare } from '../config/config.ts';
import type { EngineTraits } from '../engine-kinds.ts';
import type { Emit } from '../events.ts';
import { acceptsGzip } from '../http/request-head.ts';
import { TRANSPORT_CAPS } from '../http/stored-reply.ts';
import type { KnownKey } from '../query-cache/query.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { readAsked, type Asked } from '../xmla-line/asked.ts';
import type { Destination } from '../xmla-line/destination.ts';
import type { CleanSession } from '../xmla-line/query-of.ts';
import type { KnownHeads } from './known-heads.ts';
import type { KnownBody, KnownHead, KnownQueries } from './known-queries.ts';
import { provenTemplate } from './proven-template.ts';

/** A query that went the whole line and was answered from the cache. */
export interface Lesson {
  readonly request: IncomingMessage;
  readonly body: Buffer;
  readonly asked: Asked;
  readonly destination: {
    readonly traits: EngineTraits;
    readonly settings: Pick<Destination['settings'], 'session_idle'>;
  };
  readonly principal: Principal;
  readonly project: string;
  /** The session in which it was asked; undefined without one. */
  readonly session: CleanSession | undefined;
  /** Whose answers it may be given, and as the key says that. */
  readonly share: CacheShare;
  readonly identity: string;
  readonly found: KnownKey;
}

/** A request that went the whole line and must go past the cache. */
export type PassingLesson = Pick<
  Lesson,
  'request' | 'body' | 'asked' | 'destination' | 'principal' | 'project'
>;

/** What the line teaches of the requests that went it. Neither rejects. */
export interface Learning {
  /** Notes a query, so that it is recognised when it comes again. */
  learn(lesson: Lesson): Promise<void>;
  /** Notes what was understood of a request that must go past the cache, when it comes again. */
  learnPassing(lesson: PassingLesson): Promise<void>;
}

/** Longer bodies are not recognised: they would be made a text, and compared, in one turn. No client's query is so long. */
export const MAX_BODY = 64 * 1024;
/** Bytes, and of each beside its text. */
const MAX_PASSED_ONCE = 1024 * 1024;
const PASSED_OVERHEAD = 200;

/** Learns what comes again: what never does must not cost a second reading. */
export function createLearning(options: {
  heads: KnownHeads<KnownHead>;
  queries: KnownQueries;
  authenticator: Pick<Authenticator, 'remembered'>;
  sessions: Pick<Sessions, 'handle'>;
  newId: () => string;
  emit: Emit;
}): Learning {
  const { heads, queries, sessions, emit } = options;
  /** Statements that were passed through once. */
  const passedOnce = new LRUCache<string, true>({
    maxSize: MAX_PASSED_ONCE,
    sizeCalculation: (_true, statement) => statement.length + PASSED_OVERHEAD,
  });
  let made = 0;

  async function learnUnder(
    head: KnownHead,
    { request, body, asked, destination }: PassingLesson,
    query: KnownBody['query'],
  ): Promise<void> {
    // Its template was proven before, and no proof depends on where its answer is found.
    if (queries.replace(head, body, query)) return;
    const proven = await provenTemplate(body, asked, (other) =>
      readAsked(request.headers, other, destination.traits),
    );
    if (proven !== undefined) queries.learn(head, proven.layout, proven.template, query);
  }

  /** The head of a request, if it was seen before; undefined where nothing may be learnt. */
  function headOf({ request, destination, principal, project }: PassingLesson) {
    const { headers } = request;
    const login = options.authenticator.remembered(headers.authorization ?? '');
    if (login?.principal.name !== principal.name) return undefined;
    const known = heads.of(request);
    if (known !== undefined && known.login.principal.name === principal.name) {
      known.login = login;
      return known;
    }
    made += 1;
    heads.note(request, {
      prefix: `${made}h`,
      login,
      project,
      sessionIdle: destination.settings.session_idle,
      takesGzip: acceptsGzip(headers['accept-encoding']),
      asksForCaps: headers[TRANSPORT_CAPS] !== undefined,
      layouts: [],
    });
    return undefined;
  }

  function tellOf(error: unknown): void {
    emit({ type: 'internal-error', id: options.newId(), error });
  }

  return {
    async learn(lesson) {
      const { asked, session, share, identity, found } = lesson;
      // Whoever has no roles yet may get some.
      const isOfRolesToCome = share === 'roles' && identity === `user:${lesson.principal.name}`;
      if (isOfRolesToCome || !mayBeLearnt(lesson)) return;
      const head = headOf(lesson);
      if (head === undefined) return;
      if (session !== undefined) {
        queries.learnSession(head, session.name.id, sessions.handle(session.name));
      }
      await learnUnder(head, lesson, {
        found,
        subject: asked.subject,
        roles: share === 'roles' ? identity : undefined,
        session: session && { profile: session.record.profile, catalog: session.record.catalog },
      }).catch(tellOf);
    },
    async learnPassing(lesson) {
      const { asked } = lesson;
      const { request } = asked;
      if (request === undefined || !mayBeLearnt(lesson)) return;
      const asks = request.method === 'Execute' ? request.statement : request.requestType;
      const isNew = !passedOnce.has(asks);
      if (isNew) passedOnce.set(asks, true);
      const head = headOf(lesson);
      if (head === undefined || isNew) return;
      await learnUnder(head, lesson, { asked }).catch(tellOf);
    },
  };
}

/** Whether the head is of the plain kind under which bodies are recognised byte by byte. */
function mayBeLearnt({ request, body, asked }: PassingLesson): boolean {
  return (
    request.method === 'POST' &&
    body.length <= MAX_BODY &&
    request.headers['content-encoding'] === undefined &&
    // Who names his session in a header has another head in each session.
    asked.forwarded?.['x-as-sessionid'] === undefined
  );
}
