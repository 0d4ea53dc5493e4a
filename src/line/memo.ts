import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { LRUCache } from 'lru-cache';
import type { Authenticator, Principal, RememberedLogin } from '../auth/authenticator.ts';
import type { Clock } from '../common/clock.ts';
import type { Config } from '../config/config.ts';
import type { Emit } from '../common/events.ts';
import type { XmlaAddress, XmlaPath } from '../http/xmla-path.ts';
import type { KnownKey } from '../cache/query.ts';
import type { RoleSets } from '../roles/role-sets.ts';
import type { SessionHandle, Sessions } from '../sessions/sessions.ts';
import { wishesOf, type Wishes } from './client.ts';
import { isTouchDue } from './keep-alive.ts';
import { ownIdentity, type Destination, type SharedQuery } from './query.ts';
import type { KnownSession } from './session-step.ts';
import { provenTemplate, templateOf, type Layout, type Template } from './template.ts';
import { understand, type OwnTurn, type UnderstoodRequest } from './understand.ts';

/** What was understood of requests that begin alike. */
export interface KnownHead {
  /** Tells heads apart in the keys of what is known under them. */
  readonly prefix: string;
  readonly path: Extract<XmlaPath, { kind: 'xmla' }>;
  /** Of the credentials in the head; taken anew when they were checked again. */
  login: RememberedLogin;
  /** How long the engine keeps an idle session (ms); undefined: for ever. */
  readonly sessionIdle: number | undefined;
  readonly wishes: Wishes;
  /** The shapes of its bodies, the ones that were learnt last first; with ids that are never used again. */
  layouts: readonly { readonly id: number; readonly layout: Layout }[];
}

/** Where the answer of a request was found in the cache. */
export interface FoundAnswer {
  readonly key: KnownKey;
  /** The name of the roles under which it is shared; undefined where it is not shared by roles. */
  readonly roles: string | undefined;
  /** What the session of the request was then; undefined without a session. */
  readonly session: { readonly profile: string; readonly catalog: string | null } | undefined;
}

/** What was understood of requests that are alike but for ids. */
export interface KnownRequest {
  /** In the session of the request that it was learnt from. */
  readonly asked: UnderstoodRequest;
  /** Undefined for one that goes past the cache. */
  readonly answer: FoundAnswer | undefined;
}

/** A request that was recognised. */
export interface Known extends KnownRequest {
  readonly head: KnownHead;
  /** The id of its own session. */
  readonly sessionId: string | undefined;
}

/** A request that went all steps. */
export interface Handled {
  readonly request: IncomingMessage;
  readonly address: XmlaAddress;
  readonly principal: Principal;
  readonly destination: Pick<Destination, 'traits' | 'settings'>;
  readonly body: Buffer;
  readonly asked: UnderstoodRequest;
}

/** Longer bodies are not recognised: they would be made a text, and compared, in one turn. No client's query is so long. */
const MAX_BODY = 64 * 1024;
/** Statements that were passed through once: bytes of all, and of each beside its text. */
const PASSED_ONCE = { maxSize: 1024 * 1024, overhead: 200 } as const;

/**
 * Remembers what was understood of requests, byte by byte but for ids that clients make anew (`template.ts`), so that
 * one that comes again need not be read. It decides nothing by itself.
 */
export function createMemo(options: {
  authenticator: Pick<Authenticator, 'remembered'>;
  sessions: Pick<Sessions, 'handle'>;
  roleSets: Pick<RoleSets, 'heldName'>;
  ownTurn: OwnTurn;
  provider: Config['auth']['provider'];
  clock: Pick<Clock, 'wall'>;
  /** Keys digests of heads. */
  secret: string;
  newId: () => string;
  emit: Emit;
}) {
  const { authenticator, sessions, roleSets, clock, provider } = options;
  const heads = createKnownHeads<KnownHead>(options);
  const bodies = createKnownBodies();
  const passedOnce = new LRUCache<string, true>({
    maxSize: PASSED_ONCE.maxSize,
    sizeCalculation: (_true, statement) => statement.length + PASSED_ONCE.overhead,
  });
  let noted = 0;

  /** The head of a request, if it was seen before; undefined where nothing may be noted under it. */
  function headFor({ request, address, destination, principal }: Handled): KnownHead | undefined {
    const { headers } = request;
    const login = authenticator.remembered(headers.authorization ?? '');
    if (login?.principal.name !== principal.name) return undefined;
    const known = heads.of(request);
    if (known !== undefined && known.login.principal.name === principal.name) {
      known.login = login;
      return known;
    }
    noted += 1;
    heads.note(request, {
      prefix: `${noted}h`,
      path: { kind: 'xmla', ...address },
      login,
      sessionIdle: destination.settings.session_idle,
      wishes: wishesOf(headers),
      layouts: [],
    });
    return undefined;
  }

  async function note(
    head: KnownHead,
    { request, body, asked, destination }: Handled,
    answer: FoundAnswer | undefined,
  ): Promise<void> {
    const { headers } = request;
    try {
      // Its template was proven before, and no proof depends on where its answer is found.
      if (bodies.replace(head, body, answer)) return;
      const proven = await provenTemplate(body, asked, (other) =>
        understand(headers, other, destination.traits, options.ownTurn),
      );
      if (proven !== undefined)
        bodies.note(head, proven.layout, proven.template, { asked, answer });
    } catch (error) {
      options.emit({ type: 'internal-error', id: options.newId(), error });
    }
  }

  function isSessionAlike(
    head: KnownHead,
    sessionId: string | undefined,
    before: FoundAnswer['session'],
  ): boolean {
    if (before === undefined || sessionId === undefined) return before === sessionId;
    const found = bodies.session(head, sessionId)?.find();
    if (found?.kind !== 'known') return false;
    const { principal, dirty, profile, catalog } = found.record;
    const isOwn = principal === head.login.principal.name && !dirty;
    const isAlike = profile === before.profile && catalog === before.catalog;
    return isOwn && isAlike && !isTouchDue(found.record, head.sessionIdle, clock.wall());
  }

  return {
    /** What is known of the head of a request. */
    headOf: (request: IncomingMessage): KnownHead | undefined => heads.of(request),
    recognise: (head: KnownHead | undefined, body: Buffer): Known | undefined =>
      head !== undefined && body.length <= MAX_BODY ? bodies.find(head, body) : undefined,
    /**
     * The key under which a request that was recognised finds its answer, where everything that may have changed since
     * is for certain as it was: the login, the session, the roles. Counts in this turn only.
     */
    keyOf({ head, answer, sessionId }: Known): KnownKey | undefined {
      if (answer === undefined || !head.login.counts()) return undefined;
      const { key, roles, session } = answer;
      if (roles !== undefined && roleSets.heldName(head.login.principal.name) !== roles) {
        return undefined;
      }
      return isSessionAlike(head, sessionId, session) ? key : undefined;
    },
    /** Notes a query that was answered from the cache. Never rejects. */
    async rememberAnswer(
      handled: Handled,
      { share, parts: { identity } }: Pick<SharedQuery, 'share' | 'parts'>,
      session: KnownSession | undefined,
      key: KnownKey,
    ): Promise<void> {
      // A user who has no roles yet may get some.
      const hasNoRoles =
        share === 'roles' && identity === ownIdentity(provider, handled.principal.name);
      if (hasNoRoles || !isPlain(handled)) return;
      const head = headFor(handled);
      if (head === undefined) return;
      if (session !== undefined) {
        bodies.noteSession(head, session.name.id, sessions.handle(session.name));
      }
      await note(head, handled, {
        key,
        roles: share === 'roles' ? identity : undefined,
        session: session && { profile: session.record.profile, catalog: session.record.catalog },
      });
    },
    /** Notes a request that goes past the cache, when it comes again. Never rejects. */
    async rememberPassing(handled: Handled): Promise<void> {
      const { request } = handled.asked;
      if (request === undefined || !isPlain(handled)) return;
      const asks = request.method === 'Execute' ? request.statement : request.requestType;
      // What never comes again must not cost a second reading.
      const isNew = !passedOnce.has(asks);
      if (isNew) passedOnce.set(asks, true);
      const head = headFor(handled);
      if (head !== undefined && !isNew) await note(head, handled, undefined);
    },
  };
}

/** Whether the head is of the plain kind under which bodies are recognised byte by byte. */
function isPlain({ request, body, asked }: Handled): boolean {
  return (
    request.method === 'POST' &&
    body.length <= MAX_BODY &&
    request.headers['content-encoding'] === undefined &&
    // One that names its session in a header has another head in each session.
    asked.forwarded?.['x-as-sessionid'] === undefined
  );
}

/**
 * What was understood of a request that was recognised, in its own session: the id stands in it in the same places as
 * in the one that it was learnt from, and nowhere else (`provenTemplate`).
 */
export function inSession({ asked, sessionId: id }: Known): UnderstoodRequest {
  const { request, session, sessionIds, reading } = asked;
  const isRead = request !== undefined && reading.kind === 'understood';
  if (session.kind !== 'in' || id === undefined || !isRead) return asked;
  const { id: before } = session;
  if (id === before) return asked;
  const renamed = (ids: readonly string[]) => ids.map((one) => (one === before ? id : one));
  const inOwn = {
    ...request,
    session: { ...session, id },
    sessionIds: renamed(request.sessionIds),
  };
  return {
    ...asked,
    reading: { ...reading, request: inOwn },
    request: inOwn,
    session: { ...session, id },
    sessionIds: sessionIds === 'unknown' ? sessionIds : renamed(sessionIds),
  };
}

/** What all bodies may take together (bytes), and each: so many times its text, and as much beside it. */
const BODIES = { maxBytes: 32 * 1024 * 1024, times: 4, overhead: 4_000 } as const;
const MAX_SESSIONS = 10_000;
/** Shapes of one head; a client program has one or two. */
const MAX_LAYOUTS = 8;

export type KnownBodies = ReturnType<typeof createKnownBodies>;

/** What is known under heads: bodies and sessions. The least recently used are forgotten. */
export function createKnownBodies() {
  const requests = new LRUCache<string, KnownRequest>({
    maxSize: BODIES.maxBytes,
    sizeCalculation: (_request, key) => key.length * BODIES.times + BODIES.overhead,
  });
  const sessions = new LRUCache<string, SessionHandle>({ max: MAX_SESSIONS });
  let made = 0;

  function lookUp({ layouts, prefix }: KnownHead, body: Buffer) {
    for (const { id, layout } of layouts) {
      const template = templateOf(body, layout);
      if (template === undefined) continue;
      const key = keyOf(prefix, id, template);
      const known = requests.get(key);
      if (known !== undefined) return { key, known, sessionId: template.session };
    }
    return undefined;
  }

  /** The oldest layout gives way: sessions whose ids have other lengths have layouts of their own. */
  function idOf(head: KnownHead, layout: Layout): number {
    const text = JSON.stringify(layout);
    const known = head.layouts.find((one) => JSON.stringify(one.layout) === text);
    if (known !== undefined) return known.id;
    made += 1;
    head.layouts = [{ id: made, layout }, ...head.layouts.slice(0, MAX_LAYOUTS - 1)];
    return made;
  }

  return {
    find(head: KnownHead, body: Buffer): Known | undefined {
      const found = lookUp(head, body);
      if (found === undefined) return undefined;
      const { asked, answer } = found.known;
      return { head, asked, answer, sessionId: found.sessionId };
    },
    note(head: KnownHead, layout: Layout, template: Template, known: KnownRequest): void {
      requests.set(keyOf(head.prefix, idOf(head, layout), template), known);
    },
    /** Notes where the answer of a body was found that is known; false when it is not. */
    replace(head: KnownHead, body: Buffer, answer: FoundAnswer | undefined): boolean {
      const found = lookUp(head, body);
      if (found !== undefined) requests.set(found.key, { asked: found.known.asked, answer });
      return found !== undefined;
    },
    /** The session of that id, if something was noted in it under this head. */
    session: ({ prefix }: KnownHead, id: string) => sessions.get(prefix + id),
    noteSession: ({ prefix }: KnownHead, id: string, handle: SessionHandle) =>
      void sessions.set(prefix + id, handle),
  };
}

/** The parts cannot run into each other: the prefix ends in a letter that no number holds. */
function keyOf(prefix: string, layout: number, { text }: Template): string {
  return `${prefix}${layout}:${text}`;
}

/** Heads that are remembered, and of one connection. */
const MAX_HEADS = 10_000;
const MAX_OF_CONNECTION = 4;
/** Longer heads (characters) are not kept with their connection, of which there may be thousands. */
const MAX_KEPT = 4_096;

/**
 * Request headers whose values neither shape an answer nor reach the engine with a cacheable request: how long the
 * body is, which the parser of HTTP has checked, and ids that are new for every request. Any other header counts: a
 * head that is refused, such as one that another site forged, is never known.
 */
const WITHOUT_EFFECT: ReadonlySet<string> = new Set([
  'content-length',
  'x-as-activityid',
  'x-as-requestid',
  'x-request-id',
  'x-correlation-id',
  'traceparent',
  'tracestate',
  'baggage',
  'b3',
  'x-b3-traceid',
  'x-b3-spanid',
  'x-b3-parentspanid',
  'x-amzn-trace-id',
  'x-cloud-trace-context',
  'sentry-trace',
]);

/** The head of a request, as it came. */
type Head = Pick<IncomingMessage, 'method' | 'url' | 'httpVersion' | 'rawHeaders' | 'socket'>;

export type KnownHeads<T extends object> = ReturnType<typeof createKnownHeads<T>>;

interface SeenHead<T> {
  readonly url: string;
  readonly version: string;
  /** As they came: names and values in turn. They hold credentials, and are dropped with their connection. */
  readonly headers: readonly string[];
  readonly value: T;
}

/**
 * Recognises heads of requests. On the connection where a head was seen before it is compared, text by text, which
 * takes a tenth of the time of a digest; on another one it is found by a keyed digest, so that no credentials outlive
 * their connection here.
 * @param options.secret keys the digests
 */
export function createKnownHeads<T extends object>({ secret }: { secret: string }) {
  const connections = new WeakMap<Socket, SeenHead<T>[]>();
  const heads = new LRUCache<string, T>({ max: MAX_HEADS });

  function digestOf({ method, url, httpVersion, rawHeaders }: Head): string {
    const parts = [secret, method, url, httpVersion];
    for (let i = 0; i < rawHeaders.length; i += 2) {
      const name = rawHeaders[i] ?? '';
      parts.push(name, hasEffect(name) ? rawHeaders[i + 1] : '');
    }
    return hash('sha256', JSON.stringify(parts), 'base64url');
  }

  function see(request: Head, value: T): void {
    const { url = '', httpVersion: version, rawHeaders: headers, socket } = request;
    if (headers.reduce((sum, text) => sum + text.length, url.length) > MAX_KEPT) return;
    const seen = connections.get(socket)?.filter((one) => !isSameHead(one, request)) ?? [];
    connections.set(socket, [
      { url, version, headers, value },
      ...seen.slice(0, MAX_OF_CONNECTION - 1),
    ]);
  }

  return {
    /** What was noted under this head: same method, target, version and headers in the same order. */
    of(request: Head): T | undefined {
      if (request.method !== 'POST') return undefined;
      const seen = connections.get(request.socket);
      if (seen !== undefined)
        for (const one of seen) if (isSameHead(one, request)) return one.value;
      if (heads.size === 0) return undefined;
      const value = heads.get(digestOf(request));
      if (value !== undefined) see(request, value);
      return value;
    },
    note(request: Head, value: T): void {
      heads.set(digestOf(request), value);
      see(request, value);
    },
  };
}

function isSameHead<T>(
  { url, version, headers }: SeenHead<T>,
  { url: other, httpVersion, rawHeaders }: Head,
): boolean {
  if (url !== other || version !== httpVersion || headers.length !== rawHeaders.length)
    return false;
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? '';
    if (name !== rawHeaders[i]) return false;
    if (headers[i + 1] !== rawHeaders[i + 1] && hasEffect(name)) return false;
  }
  return true;
}

function hasEffect(name: string): boolean {
  return !WITHOUT_EFFECT.has(name.toLowerCase());
}
