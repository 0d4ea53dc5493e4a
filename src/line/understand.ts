import type { IncomingHttpHeaders } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { EngineConfig } from '../config/config.ts';
import type { EngineTraits } from '../common/engine-kinds.ts';
import type { QueryHeaders } from '../engine/engine.ts';
import { GatewayError } from '../common/errors.ts';
import { acceptedType, canonicalContentType, userAgentClass } from '../http/request-head.ts';
import { nameAsRead } from '../proxy/forwarded.ts';
import { SESSION_HEADER } from '../cache/answer-sessions.ts';
import type { BypassReason } from '../common/reasons.ts';
import type { TagReaders } from '../xml/start-tag.ts';
import { MAX_DEPTH } from '../xml/xml-scanner.ts';
import {
  classify,
  leavesState,
  NOT_UNDERSTOOD,
  passingChange,
  type PassingChange,
  readStatement,
} from '../xmla/request/classify.ts';
import { asksForOtherIdentity } from '../xmla/request/delegation.ts';
import {
  namedCatalogs,
  namedCubes,
  type NamedCatalogs,
  type NamedCubes,
  NO_SOURCES,
  sourcesOf,
} from '../xmla/request/named-objects.ts';
import { readRequest, type RequestReading } from '../xmla/request/read-request.ts';
import { sessionIdsInLong, type SessionIds } from '../xmla/request/session-ids.ts';
import { soapActionContradicts, soapActionOf } from '../xmla/names.ts';
import type { SessionHeader, XmlaRequest } from '../xmla/request/xmla-request.ts';

/** What a request with a body asks, as far as it was understood, from its headers and its body alone. */
export interface UnderstoodRequest {
  /** As the parser read the body; never `refused`. */
  readonly reading: Exclude<RequestReading, { readonly kind: 'refused' }>;
  readonly request: XmlaRequest | undefined;
  /** Of the request, as the client sent it. */
  readonly contentType: string | undefined;
  /** For the log: Discover request type or `Execute`; '' when it is not known. */
  readonly subject: string;
  /** For the log: what was not understood; '' for none. */
  readonly why: string;
  /** Why it is passed through, sessions and configuration aside; undefined when it may be looked up. */
  readonly bypass: BypassReason | undefined;
  /** The headers with which it goes to the engine when it may be looked up. */
  readonly forwarded: QueryHeaders | undefined;
  /** The one session element of the envelope, or the session of the header X-AS-SessionID. */
  readonly session: SessionHeader;
  /** Every session that envelope and headers may speak of. */
  readonly sessionIds: SessionIds;
  readonly sessionToken: boolean;
  /** Whether it may leave something behind in the session in which it runs. */
  readonly leavesState: boolean;
  /** What of the engine's data it changes when it succeeds. */
  readonly change: PassingChange | undefined;
  /** What it names; undefined when nothing was understood. Of a request that passes, its statement aside. */
  readonly named: { readonly catalogs: NamedCatalogs; readonly cubes: NamedCubes } | undefined;
  /** Why nothing may be kept under the names in it; undefined when it may. */
  readonly unkept: Extract<BypassReason, 'long-name' | 'many-catalogs' | 'many-names'> | undefined;
}

/** Waits until the event loop has a turn for the caller alone. */
export type OwnTurn = () => Promise<unknown>;

/**
 * Gives turns one after another: what came meanwhile is answered between one turn and the next, however many long
 * bodies come at once.
 */
export function createOwnTurns(): OwnTurn {
  let last: Promise<unknown> = Promise.resolve();
  return () => (last = last.then(() => nextTurn()));
}

/** Reading longer bodies (bytes) takes long enough that several in one turn would be felt. */
const LONG = 64 * 1024;
/** No client's request names more than two. Each one costs all gateways a question. */
const MOST_SESSIONS = 16;
/** Engines make ids of some forty characters. */
const LONGEST_SESSION_ID = 1_024;
/** The header by which a client asks SSAS for a token of its session. */
const TOKEN_HEADER = 'x-as-getsessiontoken';
const OWN_NAME = 'mdx-gateway';

/**
 * @param readers those of earlier requests
 * @throws GatewayError `bad-request` for what must not reach an engine
 */
export async function understand(
  headers: IncomingHttpHeaders,
  body: Buffer,
  engine: EngineTraits,
  ownTurn: OwnTurn = nextTurn,
  readers?: TagReaders,
): Promise<UnderstoodRequest> {
  if (body.length > LONG) await ownTurn();
  const contentType = headers['content-type'];
  const reading = readRequest(body, contentType, readers);
  if (reading.kind === 'refused') throw refused(reading.detail);
  const inHeaders = sessionsInHeaders(headers);
  if (reading.kind === 'not-understood') {
    const found = await sessionIdsOf(reading, body, contentType, ownTurn);
    if (found === 'too-deep') throw refused(`elements nested deeper than ${MAX_DEPTH}`);
    return {
      reading,
      request: undefined,
      contentType,
      subject: '',
      why: reading.detail,
      bypass: reading.reason,
      forwarded: undefined,
      session: { kind: 'none' },
      sessionIds: found === 'unknown' ? found : together(found, inHeaders),
      sessionToken: false,
      leavesState: true,
      change: NOT_UNDERSTOOD,
      named: undefined,
      unkept: undefined,
    };
  }
  const { request } = reading;
  const statement = readStatement(request);
  const forwarded = queryHeaders(headers, request, engine, inHeaders);
  const contradicted = forwarded === 'soap-action' || forwarded === 'content-type';
  const byHeaders = typeof forwarded === 'string' ? forwarded : undefined;
  const passes = byHeaders ?? classify(request, engine, statement);
  const sources = passes === undefined ? sourcesOf(request, statement.tokens) : NO_SOURCES;
  const catalogs = namedCatalogs(request, sources);
  const cubes = namedCubes(request, sources);
  const unkept = catalogs.excess ?? cubes.excess;
  const bypass = passes ?? unkept;
  return {
    reading,
    request,
    contentType,
    subject: request.method === 'Discover' ? request.requestType : request.method,
    why: (bypass === 'unknown-shape' ? request.unexpected : undefined) ?? '',
    bypass,
    forwarded: typeof forwarded === 'string' ? undefined : forwarded,
    session: withHeader(request.session, inHeaders),
    sessionIds: together(request.sessionIds, inHeaders),
    sessionToken: request.sessionToken || valuesOf(headers, TOKEN_HEADER).length > 0,
    leavesState: contradicted || leavesState(request, statement),
    change: passingChange(request, statement.tokens),
    named: { catalogs, cubes },
    unkept,
  };
}

/**
 * @param delegation the key `engine.delegation`
 * @throws GatewayError `identity-refused` where that refuses rights of another identity
 */
export async function refuseOtherIdentity(
  { reading, contentType }: UnderstoodRequest,
  body: Buffer,
  delegation: EngineConfig['delegation'],
  ownTurn: OwnTurn = nextTurn,
): Promise<void> {
  if (delegation === 'forward') return;
  if (body.length > LONG) await ownTurn();
  if (!asksForOtherIdentity({ body, reading, contentType })) return;
  throw new GatewayError(
    'identity-refused',
    'The request asks for the rights of another identity, or cannot be read well enough to say that it does not; engine.delegation refuses that.',
  );
}

/** Every project and catalog that a request names which was understood; none of one that was not. */
export function projectsNamed(
  { named }: UnderstoodRequest,
  project: string | undefined,
): readonly string[] {
  return named === undefined ? [] : [...[project ?? []].flat(), ...named.catalogs.catalogs];
}

/** The same request of a user who names too many new ones. */
export function withTooManyNames(asked: UnderstoodRequest): UnderstoodRequest {
  const unkept = asked.unkept ?? 'many-names';
  return { ...asked, unkept, bypass: asked.bypass ?? unkept };
}

async function sessionIdsOf(
  { reason, sessionIds }: Extract<RequestReading, { readonly kind: 'not-understood' }>,
  body: Buffer,
  contentType: string | undefined,
  ownTurn: OwnTurn,
): Promise<SessionIds | 'too-deep'> {
  if (reason !== 'long-request') return sessionIds;
  await ownTurn();
  return sessionIdsInLong(body, contentType, ownTurn);
}

/** @throws GatewayError `bad-request` for more, or longer ones, than any client but an attacker sends */
function together(inBody: readonly string[], inHeaders: readonly string[]): readonly string[] {
  const ids = [...new Set([...inBody, ...inHeaders])];
  if (ids.length > MOST_SESSIONS) throw refused(`it names more than ${MOST_SESSIONS} sessions`);
  if (ids.some(({ length }) => length > LONGEST_SESSION_ID)) {
    throw refused(`a session id longer than ${LONGEST_SESSION_ID} characters`);
  }
  return ids;
}

function refused(detail: string): GatewayError {
  return new GatewayError('bad-request', `The XMLA request is refused: ${detail}.`);
}

/** The session that both name. Where they contradict each other, more than one id is known. */
function withHeader(session: SessionHeader, [id]: readonly string[]): SessionHeader {
  if (id === undefined) return session;
  if (session.kind === 'none') return { kind: 'in', id, understand: SESSION_HEADER };
  if (session.kind !== 'in') return session;
  return { ...session, understand: `${session.understand} ${SESSION_HEADER}` };
}

/**
 * The headers with which a cacheable request goes to the engine, built from what is in the key, or the
 * reason why they cannot be built.
 */
function queryHeaders(
  headers: IncomingHttpHeaders,
  { method }: XmlaRequest,
  engine: EngineTraits,
  [sessionId]: readonly string[],
): QueryHeaders | BypassReason {
  const action = headers.soapaction;
  if (Array.isArray(action) || soapActionContradicts(action, method)) return 'soap-action';
  const contentType = canonicalContentType(headers['content-type']);
  if (contentType === undefined) return 'content-type';
  const accept = acceptedType(headers.accept);
  if (accept === 'not-xml') return 'accept';
  return {
    'content-type': contentType,
    soapaction: soapActionOf(method),
    accept,
    // Where answers do not depend on it, all programs share them.
    'user-agent': engine.readsUserAgent ? userAgentClass(headers['user-agent']) : OWN_NAME,
    'x-as-sessionid': sessionId,
  };
}

/**
 * Every session that the headers of a request may name, each once: they are forwarded in each spelling that some
 * server takes for the name, and several values as one text with commas between them (RFC 9110 §5.3), which an
 * engine may split or not.
 */
function sessionsInHeaders(headers: IncomingHttpHeaders): readonly string[] {
  const texts = valuesOf(headers, SESSION_HEADER);
  if (texts.length === 0) return texts;
  const all = [...texts, ...texts.flatMap((text) => text.split(','))].map((id) => id.trim());
  return [...new Set(all.filter((id) => id !== ''))];
}

function valuesOf(headers: IncomingHttpHeaders, wanted: string): readonly string[] {
  const found: string[] = [];
  for (const name in headers) {
    // Read in another way a name keeps its length, and few are as long.
    if (name.length !== wanted.length || nameAsRead(name) !== wanted) continue;
    found.push(...[headers[name] ?? []].flat());
  }
  return found;
}
