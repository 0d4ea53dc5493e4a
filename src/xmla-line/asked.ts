import type { IncomingHttpHeaders } from 'node:http';
import type { EngineTraits } from '../engine-kinds.ts';
import type { QueryHeaders } from '../engine/engine.ts';
import { GatewayError } from '../errors.ts';
import { acceptedType, canonicalContentType, userAgentClass } from '../http/request-head.ts';
import { SESSION_HEADER } from '../query-cache/answer-sessions.ts';
import type { BypassReason } from '../reasons.ts';
import { classify, leavesState, readStatement } from '../xmla/request/classify.ts';
import {
  namedCatalogs,
  namedCubes,
  type NamedCatalogs,
  type NamedCubes,
} from '../xmla/request/named-objects.ts';
import {
  NOT_UNDERSTOOD,
  passingChange,
  type PassingChange,
} from '../xmla/request/passing-changes.ts';
import { readRequest, type RequestReading } from '../xmla/request/read-request.ts';
import { sessionIdsInLong, type SessionIds } from '../xmla/request/session-ids.ts';
import { soapActionContradicts, soapActionOf } from '../xmla/request/soap-action.ts';
import { NO_SOURCES, sourcesOf } from '../xmla/mdx/statement-sources.ts';
import type { SessionHeader, XmlaRequest } from '../xmla/request/xmla-request.ts';
import { MAX_DEPTH } from '../xml/read-tree.ts';
import { isLong, ownTurn } from './own-turn.ts';
import { asksForToken, sessionsInHeaders } from './session-headers.ts';

/** What a request with a body asks, as far as it was understood, from its headers and its body alone. */
export interface Asked {
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

/** No client's request names more than two. Each one costs all gateways a question. */
const MOST_SESSIONS = 16;
/** Engines make ids of some forty characters. */
const LONGEST_SESSION_ID = 1_024;

/** @throws GatewayError `bad-request` for what must not reach an engine */
export async function readAsked(
  headers: IncomingHttpHeaders,
  body: Buffer,
  engine: EngineTraits,
): Promise<Asked> {
  if (isLong(body)) await ownTurn();
  const reading = readRequest(body, headers['content-type']);
  if (reading.kind === 'refused') {
    throw refused(reading.detail);
  }
  const named = sessionsInHeaders(headers);
  if (reading.kind === 'not-understood') {
    const found = await sessionIdsOf(reading, body, headers['content-type']);
    if (found === 'too-deep') throw refused(`elements nested deeper than ${MAX_DEPTH}`);
    return {
      reading,
      request: undefined,
      contentType: headers['content-type'],
      subject: '',
      why: reading.detail,
      bypass: reading.reason,
      forwarded: undefined,
      session: { kind: 'none' },
      sessionIds: found === 'unknown' ? found : together(found, named),
      sessionToken: false,
      leavesState: true,
      change: NOT_UNDERSTOOD,
      named: undefined,
      unkept: undefined,
    };
  }
  const { request } = reading;
  const statement = readStatement(request);
  const forwarded = queryHeaders(headers, request, engine, named);
  const contradicted = forwarded === 'soap-action' || forwarded === 'content-type';
  const ofHeaders = typeof forwarded === 'string' ? forwarded : undefined;
  const passes = ofHeaders ?? classify(request, engine, statement);
  const sources = passes === undefined ? sourcesOf(request, statement.tokens) : NO_SOURCES;
  const catalogs = namedCatalogs(request, sources);
  const cubes = namedCubes(request, sources);
  const unkept = catalogs.excess ?? cubes.excess;
  const bypass = passes ?? unkept;
  return {
    reading,
    request,
    contentType: headers['content-type'],
    subject: request.method === 'Discover' ? request.requestType : request.method,
    why: (bypass === 'unknown-shape' ? request.unexpected : undefined) ?? '',
    bypass,
    forwarded: typeof forwarded === 'string' ? undefined : forwarded,
    session: withHeader(request.session, named),
    sessionIds: together(request.sessionIds, named),
    sessionToken: request.sessionToken || asksForToken(headers),
    leavesState: contradicted || leavesState(request, statement),
    change: passingChange(request, statement.tokens),
    named: { catalogs, cubes },
    unkept,
  };
}

/** Every project and catalog that a request names which was understood; none of one that was not. */
export function projectsNamed({ named }: Asked, project: string | undefined): readonly string[] {
  return named === undefined ? [] : [...[project ?? []].flat(), ...named.catalogs.catalogs];
}

/** The same request of a user who names too many new ones. */
export function withTooManyNames(asked: Asked): Asked {
  const unkept = asked.unkept ?? 'many-names';
  return { ...asked, unkept, bypass: asked.bypass ?? unkept };
}

async function sessionIdsOf(
  { reason, sessionIds }: Extract<RequestReading, { readonly kind: 'not-understood' }>,
  body: Buffer,
  contentType: string | undefined,
): Promise<SessionIds | 'too-deep'> {
  if (reason !== 'long-request') return sessionIds;
  await ownTurn();
  return sessionIdsInLong(body, contentType, ownTurn);
}

/** @throws GatewayError `bad-request` for more, or longer ones, than anybody but an attacker sends */
function together(found: readonly string[], named: readonly string[]): readonly string[] {
  const ids = [...new Set([...found, ...named])];
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

const OWN_NAME = 'mdx-gateway';
