import type { IncomingMessage } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { canonicalAuthorization } from '../auth/authenticator.ts';
import { SESSION_HEADER } from '../cache/answer-sessions.ts';
import { askedOf } from '../cache/key.ts';
import { projectScope } from '../cache/projects.ts';
import { ENGINE_KINDS, type EngineTraits } from '../common/engine-kinds.ts';
import { GatewayError } from '../common/errors.ts';
import { isAscii } from '../common/fold-case.ts';
import type { Principal } from '../common/principal.ts';
import type { BypassReason } from '../common/reasons.ts';
import type { EngineConfig } from '../engine/config.ts';
import type { Engine } from '../engine/http-engine.ts';
import type { EngineAddressee, QueryHeaders } from '../engine/replicas.ts';
import type { ErrorShape } from '../http/answers.ts';
import { clearCacheShape } from '../http/clear-cache.ts';
import {
  canonicalContentType,
  carriesBody,
  forgery,
  refuseDelegation,
  unclearHead,
} from '../http/request-head.ts';
import type { XmlaAddress, XmlaPath } from '../http/xmla-path.ts';
import { forwardedQuery, sortedQuery } from '../proxy/forwarded.ts';
import type { TagReaders } from '../xml/start-tag.ts';
import { isRegistered } from '../xml/text-encoding.ts';
import { MAX_DEPTH } from '../xml/xml-scanner.ts';
import { SLICE } from '../xmla/mdx/mdx-tokens.ts';
import { canonicalSoapAction } from '../xmla/names.ts';
import {
  classify,
  leavesState,
  NOT_UNDERSTOOD,
  passingChange,
  type StatementRead,
  createStatementReader,
} from '../xmla/request/classify.ts';
import { asksForOtherIdentity } from '../xmla/request/delegation.ts';
import { namedCatalogs, namedCubes, NO_SOURCES } from '../xmla/request/named-objects.ts';
import {
  OTHER_ENCODING,
  readRequest,
  requestInSlices,
  type RequestEncoding,
  type RequestReading,
  type SessionHeader,
  type XmlaRequest,
} from '../xmla/request/read-request.ts';
import { type SessionIds, sessionIdsInLong } from '../xmla/request/session-ids.ts';
import type { AskedOf, Circumstances } from './circumstances.ts';

const NOTHING_HERE =
  'Nothing is served under this path; XMLA is at /mdx/xmla and /mdx/xmla/{project}.';
const MISSPELT =
  'Nothing was done: nothing is served under this path. Did you mean clearCache? It is at /mdx/xmla/clearCache and /mdx/xmla/{project}/clearCache, and its letter case counts.';

export type AskedPath = Exclude<XmlaPath, { kind: 'clear-cache' }>;

/**
 * A request that looks like a misspelt clearCache, and by its head is no XMLA, gets errors as
 * clearCache does: a project may have such a name.
 */
export function errorShape({ likeClearCache }: AskedPath, request: IncomingMessage): ErrorShape {
  if (likeClearCache !== true) return 'soap-fault';
  const mediaType = request.headers['content-type']?.split(';', 1)[0] ?? '';
  const isXmla = request.method === 'POST' && carriesBody(request) && /xml/i.test(mediaType);
  return isXmla ? 'soap-fault' : clearCacheShape(request);
}

/** @throws GatewayError `bad-request`, `not-found` */
export function checkHead(request: IncomingMessage, path: AskedPath, shape: ErrorShape) {
  const unclear = unclearHead(request);
  if (unclear !== undefined) throw unclear;
  if (path.kind === 'bad-project') throw new GatewayError('bad-request', path.message);
  // An engine might answer 200, which a scheduler would take for a purge.
  if (shape !== 'soap-fault' || path.kind === 'not-found') {
    throw new GatewayError('not-found', path.likeClearCache ? MISSPELT : NOTHING_HERE);
  }
  return path;
}

/**
 * @param isListed pages of its Origin may ask
 * @returns whether a page of another origin sends it
 * @throws GatewayError `forbidden` for what a page of another site can send as text/plain without
 *   asking; `identity-refused`, `bad-request`, `method-not-allowed`
 */
export function checkRequest(
  { headers, method = '' }: IncomingMessage,
  { search }: XmlaAddress,
  facts: { why: string },
  isListed: boolean,
): boolean {
  const forged = forgery(headers, isListed && method === 'POST');
  if (forged !== undefined) {
    facts.why = forged;
    throw new GatewayError('forbidden', `Nothing was done: ${forged}.`);
  }
  refuseDelegation(headers, search);
  if (/^\s*(application\/x-www-form-urlencoded|multipart\/)/i.test(headers['content-type'] ?? '')) {
    // Engines take logins from the fields of a form.
    throw new GatewayError(
      'bad-request',
      'A form is no XMLA request; the Content-Type must be text/xml.',
    );
  }
  // They would make the engine send the gateway's own credentials back to the client.
  if (method === 'TRACE' || method === 'CONNECT') {
    throw new GatewayError('method-not-allowed', `${method} is not allowed here.`, {
      headers: { allow: 'POST, GET, HEAD, OPTIONS' },
    });
  }
  return isListed && forgery(headers) !== undefined;
}

export interface ChosenEngine extends Pick<AskedOf, 'volatile'> {
  readonly engine: Engine;
  readonly settings: Pick<
    EngineConfig,
    'kind' | 'login' | 'headers' | 'delegation' | 'session_idle' | 'timeout'
  >;
}

export type EngineOf = (project: string | undefined) => ChosenEngine;

export type Destination = ReturnType<typeof destinationOf>;

export function destinationOf(
  { engine, settings, volatile }: ChosenEngine,
  { project, search }: XmlaAddress,
  { name, forwardedAs, owner: user }: Principal,
  login?: string,
) {
  const query = search === '' ? [] : forwardedQuery(search);
  const isForwarded = settings.login === 'forward';
  const authorization = isForwarded ? canonicalAuthorization(login) : undefined;
  const addressee: EngineAddressee = { project, query, user, authorization, replica: undefined };
  // Spelt as purges name it: an engine may take two spellings for one project.
  const told = engine.tellsProject && project !== undefined ? projectScope(project) : null;
  return {
    engine,
    settings,
    traits: traitsOf(settings),
    volatile,
    addressee,
    user: isForwarded ? forwardedAs : name,
    /** One engine, and one project where the engine is told of it. */
    endpoint: `${told ?? ''}${engine.id}`,
  };
}

/** An engine with one login for all cannot tell whose a session is: the gateway must. */
function traitsOf({ kind, login }: ChosenEngine['settings']): EngineTraits {
  const traits = ENGINE_KINDS[kind];
  if (login === 'forward' || !traits.checksSessionOwner) return traits;
  return { ...traits, checksSessionOwner: false, strangeSessions: 'refuse' };
}

type Asked = ReturnType<typeof whatIsAsked>;

type OfUnderstood = 'request' | 'parts' | 'encoding' | 'namedHeaders' | 'forwarded' | 'named';

/** Facts of headers and body. Members are missing where the body was not understood. */
export interface UnderstoodRequest
  extends Omit<Asked, OfUnderstood | 'unkept'>, Partial<Pick<Asked, OfUnderstood>> {
  /** Why nothing may be kept under the names in it. */
  readonly unkept?: Asked['unkept'] | 'many-names';
  readonly sessionIds: SessionIds;
  readonly asksForOther: boolean;
}

/** Replaces the session id wherever the request that was learnt has it. */
export function inSession(asked: UnderstoodRequest, id: string | undefined): UnderstoodRequest {
  const { request, session, sessionIds } = asked;
  if (session.kind !== 'in' || id === undefined || request === undefined) return asked;
  const { id: before } = session;
  if (id === before) return asked;
  const renamed = (ids: readonly string[]) => ids.map((one) => (one === before ? id : one));
  const own = { ...session, id };
  return {
    ...asked,
    request: { ...request, session: own, sessionIds: renamed(request.sessionIds) },
    session: own,
    sessionIds: sessionIds === 'unknown' ? sessionIds : renamed(sessionIds),
  };
}

/** Waits for a turn in which so much may be read. Undefined where this turn is one. */
export type OwnTurn = (bytes?: number, user?: string) => Promise<unknown> | undefined;

/** Longer bodies (bytes) get a turn each: a hostile one of this length takes some 12 ms. */
export const LONG = 64 * 1024;
/** Short bodies (bytes), and how much of them one turn reads beside longer ones. */
const SHORT = 8 * 1024;
const OF_SHORT = 16 * 1024;

/**
 * Shares the turns of the event loop among readers, so that other work runs between. Short bodies
 * do not wait behind longer ones.
 */
export function createOwnTurns(): OwnTurn {
  const [short, longer] = [shareTurns(OF_SHORT), shareTurns(LONG)];
  return (bytes = Infinity, user = '') => (bytes <= SHORT ? short : longer)(bytes, user);
}

/** Lets this many bytes, or one longer body, be read in a turn; users wait in turn. */
function shareTurns(most: number) {
  const waiting = new Map<string, { readonly bytes: number; readonly begin: () => void }[]>();
  let left = most;
  let isNextAsked = false;

  function askForNext(): void {
    if (!isNextAsked) setImmediate(renew);
    isNextAsked = true;
  }

  function take(bytes: number): void {
    left -= bytes;
    askForNext();
  }

  function renew(): void {
    [left, isNextAsked] = [most, false];
    for (const [user, queue] of waiting) {
      const [next] = queue;
      if (next === undefined || (left < most && next.bytes > left)) return;
      take(next.bytes);
      next.begin();
      queue.shift();
      waiting.delete(user);
      if (queue.length > 0) waiting.set(user, queue);
    }
  }

  return (bytes: number, user: string) => {
    if (waiting.size === 0 && bytes <= left) return void take(bytes);
    askForNext();
    const { promise, resolve } = Promise.withResolvers<void>();
    const queue = waiting.get(user) ?? [];
    queue.push({ bytes, begin: resolve });
    waiting.set(user, queue);
    return promise;
  };
}

/** No client names more than two. Each costs every gateway a question. */
const MOST_SESSIONS = 16;
/** Characters; engines make ids of some forty. */
const LONGEST_SESSION_ID = 1_024;

export async function understand(circumstances: Circumstances, body: Buffer) {
  await nextTurn();
  return understandInTurn(circumstances, body, () => nextTurn());
}

/**
 * Reads a body in full, from the turn in which it is called.
 * @throws GatewayError `bad-request` for what must not reach an engine
 */
export async function understandInTurn(
  circumstances: Circumstances,
  body: Buffer,
  ownTurn: OwnTurn,
  readers?: TagReaders,
): Promise<UnderstoodRequest> {
  const { contentType, refusesDelegation: isRefused } = circumstances;
  const isLong = body.length > LONG;
  const reading = isLong
    ? await requestInSlices(body, contentType, ownTurn, readers)
    : readRequest(body, contentType, readers);
  if (reading.kind === 'refused') throw refused(reading.detail);
  let found = reading.kind === 'understood' ? reading.request.sessionIds : reading.sessionIds;
  if (isLong && found === 'unknown') {
    await ownTurn();
    const inLong = await sessionIdsInLong(body, contentType, ownTurn);
    if (inLong === 'too-deep') throw refused(`elements nested deeper than ${MAX_DEPTH}`);
    found = inLong;
  }
  const sessionIds = found === 'unknown' ? found : together(found, circumstances.sessionIds);
  let asked;
  if (reading.kind === 'understood') {
    const { traits, volatile } = circumstances;
    const statement = createStatementReader(reading.request, { ...traits, volatile });
    if (isLong) while (statement.step(SLICE)) await ownTurn();
    asked = whatIsAsked(reading, circumstances, statement.finish());
  } else asked = { ...NOTHING_UNDERSTOOD, why: reading.detail, bypass: reading.reason };
  if (isRefused && isLong) await ownTurn();
  const asksForOther =
    isRefused && (await asksForOtherIdentity(body, contentType, reading, ownTurn));
  return { ...asked, sessionIds, asksForOther };
}

const NOTHING_UNDERSTOOD = {
  subject: '',
  session: { kind: 'none' },
  sessionToken: false,
  leavesState: true,
  change: NOT_UNDERSTOOD,
  projects: [],
  functions: [],
} as const;

function whatIsAsked(
  { request, encoding, declared }: Extract<RequestReading, { readonly kind: 'understood' }>,
  circumstances: Circumstances,
  statement: StatementRead,
) {
  const { traits, project, namedHeaders, sessionIds: inHeaders } = circumstances;
  const forwarded = queryHeaders(circumstances, request);
  const contradicted = forwarded === 'soap-action' || forwarded === 'content-type';
  const isOther = encoding === 'other';
  const isMisnamed = declared !== undefined && !isRegistered(declared);
  const byForm = typeof forwarded === 'string' ? forwarded : isMisnamed ? 'encoding' : undefined;
  const session = withHeader(request.session, inHeaders);
  const isInSession = session.kind === 'in';
  const ofRequest = isOther ? 'encoding' : classify(request, traits, statement, isInSession);
  // A request that may be cached changes nothing, and is not searched for changes.
  const isQuery = ofRequest === undefined;
  const passes = isOther ? ofRequest : (byForm ?? ofRequest);
  const sources = passes === undefined ? statement.sources : NO_SOURCES;
  const catalogs = namedCatalogs(request, sources);
  const cubes = namedCubes(request, sources);
  const projects: readonly string[] = [project ?? [], catalogs.catalogs].flat();
  const unkept = catalogs.excess ?? cubes.excess;
  const bypass = passes ?? unkept;
  const spelt = { name: encoding, declared };
  const query =
    byForm === undefined ? { ...namedHeaders, ...(forwarded as QueryHeaders) } : undefined;
  return {
    request,
    parts: askedOf({
      engine: circumstances.engine,
      project: project ?? null,
      query: sortedQuery(circumstances.query),
      userAgentClass: query?.['user-agent'] ?? null,
      accept: query?.accept ?? null,
      soapAction: query?.soapaction ?? '',
      contentType: keyedContentType(query?.['content-type'] ?? '', spelt),
      namedHeaders,
      request,
      tokens: statement.tokens,
    }),
    namedHeaders,
    encoding: spelt,
    subject: request.method === 'Discover' ? request.requestType : request.method,
    why: (isOther ? OTHER_ENCODING : bypass === 'unknown-shape' ? request.unexpected : '') ?? '',
    bypass,
    /** Unknown functions: only the configuration can call them stable. */
    functions: statement.unknown,
    forwarded: query,
    session,
    sessionToken: request.sessionToken || circumstances.sessionToken,
    leavesState:
      contradicted ||
      (isQuery ? request.sessionToken : leavesState(request, statement)) ||
      // Engines may read other letters than are noted of the session.
      (isOther && !isAscii(JSON.stringify([request.properties, request.headers]))),
    change: isQuery ? undefined : passingChange(request, statement, isOther),
    /** Those of the statement are left out where it passes. */
    named: { catalogs, cubes },
    /** All projects and catalogs in it, that of the path first. */
    projects,
    unkept,
  };
}

/**
 * The Content-Type with an encoding other than UTF-8, in which engines may answer, and with its
 * declared name: an engine that goes by that alone reads another text without it, and not every
 * engine knows every name.
 */
function keyedContentType(
  contentType: string,
  encoding: { readonly name: RequestEncoding; readonly declared: string | undefined },
): string {
  if (encoding.name === 'utf-8') return contentType;
  return `${contentType} (${encoding.name}${encoding.declared ? `, declared ${encoding.declared}` : ''})`;
}

/** @throws GatewayError `bad-request` for more or longer ids than a client sends */
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

/** Where envelope and header contradict each other, more than one id is known. */
function withHeader(session: SessionHeader, [id]: readonly string[]): SessionHeader {
  if (id === undefined) return session;
  if (session.kind === 'none') return { kind: 'in', id, understand: SESSION_HEADER };
  if (session.kind !== 'in') return session;
  return { ...session, understand: `${session.understand} ${SESSION_HEADER}` };
}

/** Headers to the engine, made from what is in the key; or the reason why that cannot be. */
function queryHeaders(
  { contentType: given, soapAction, accept, userAgent, sessionIds }: Circumstances,
  { method }: XmlaRequest,
): QueryHeaders | BypassReason {
  const soapaction = Array.isArray(soapAction)
    ? undefined
    : canonicalSoapAction(soapAction, method);
  if (soapaction === undefined) return 'soap-action';
  const contentType = canonicalContentType(given);
  if (contentType === undefined) return 'content-type';
  if (accept === 'not-xml') return 'accept';
  return {
    'content-type': contentType,
    soapaction,
    accept,
    'user-agent': userAgent,
    'x-as-sessionid': sessionIds[0],
  };
}
