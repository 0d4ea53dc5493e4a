import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Principal } from './auth/authenticator.ts';
import { canonicalAuthorization } from './auth/basic-credentials.ts';
import type { Permissions } from './auth/permissions.ts';
import type { BodyAccount, RequestShare } from './body-account.ts';
import type { Clock } from './clock.ts';
import { GatewayError } from './errors.ts';
import type { Emit } from './events.ts';
import { clientControl } from './http/request-head.ts';
import { forgery, refuseDelegation } from './http/request-checks.ts';
import type { ExplainXmla } from './http/admin.ts';
import type { Login } from './http/login.ts';
import { readBody } from './http/read-body.ts';
import { createXmlaClient, type XmlaClient } from './http/xmla-client.ts';
import type { XmlaHandler, XmlaTarget } from './http/xmla-routes.ts';
import type { HotPath } from './hot-path/hot-path.ts';
import type { Recognised } from './hot-path/send-hit.ts';
import type { Invalidate } from './invalidation.ts';
import type { BodiesInUse } from './query-cache/bodies-in-use.ts';
import type { GzipMaker } from './query-cache/gzip.ts';
import type { KnownNames } from './query-cache/known-names.ts';
import type { QueryCache } from './query-cache/query-cache.ts';
import type { KnownKey } from './query-cache/query.ts';
import type { RoleSets } from './roles/role-sets.ts';
import type { Sessions } from './sessions/sessions.ts';
import { projectsNamed, readAsked, withTooManyNames, type Asked } from './xmla-line/asked.ts';
import { destinationOf, type Destination, type EngineOf } from './xmla-line/destination.ts';
import { createExplanation } from './xmla-line/explanation.ts';
import { createKeepAlive } from './xmla-line/keep-alive.ts';
import { refuseOtherIdentity } from './xmla-line/other-identity.ts';
import { createPasser } from './xmla-line/pass-through.ts';
import { createQueryOf, type CleanSession, type PolicyOf } from './xmla-line/query-of.ts';
import { enterSession, judgeSession, type SessionContext } from './xmla-line/session-step.ts';

/** Would make the engine send the gateway's own credentials back to the client. */
const REFUSED_METHODS: ReadonlySet<string> = new Set(['TRACE', 'CONNECT']);

/**
 * One XMLA request, a straight line: authenticate, read, understand, judge its session, classify, look up or
 * ask. Knows nothing of Express.
 */
export function createXmlaHandler(options: {
  login: Login;
  permissions: Permissions;
  engineOf: EngineOf;
  policyOf: PolicyOf;
  roleSets: Pick<RoleSets, 'nameFor'>;
  cache: QueryCache;
  sessions: Sessions;
  names: Pick<KnownNames, 'admit' | 'wouldAdmit' | 'answered'>;
  invalidate: Invalidate;
  /** Whether REFRESH CUBE purges. */
  purgeOnRefresh: boolean;
  /** As for {@link createQueryOf}. */
  permissionsIgnored: boolean;
  /** Largest request body in bytes. */
  maxBody: number;
  /** The memory of its bodies. */
  account: BodyAccount;
  inUse: BodiesInUse;
  gzip: GzipMaker;
  /** Remembers what was understood here; undefined where that is switched off. */
  hotPath: Pick<HotPath, 'recognise' | 'learn' | 'learnPassing'> | undefined;
  clock: Clock;
  newId: () => string;
  emit: Emit;
}): {
  readonly handle: XmlaHandler;
  /** What would become of a request; nothing is changed and no engine asked. */
  readonly explain: ExplainXmla;
} {
  const { permissions, sessions, names, account, inUse, gzip, hotPath, clock, emit } = options;
  const queryOf = createQueryOf(options);
  const pass = createPasser(options);
  const keepAlive = createKeepAlive(options);

  async function handle(request: IncomingMessage, response: ServerResponse, target: XmlaTarget) {
    const id = options.newId();
    const client = createXmlaClient(request, response, { id, clock, emit, gzip, inUse });
    try {
      const principal = await options.login(request);
      client.facts.principal = principal.name;
      // Not before: a stranger could fill the labels of the metrics with invented names.
      client.facts.project = target.project ?? '';
      refuseForged(request.headers, client);
      const announced = Number(request.headers['content-length'] ?? 0);
      const room = account.request(principal.name, announced);
      try {
        await answer(request, client, target, principal, room);
      } finally {
        room.release();
      }
    } catch (error) {
      client.fail(error);
    }
  }

  async function answer(
    request: IncomingMessage,
    client: XmlaClient,
    target: XmlaTarget,
    principal: Principal,
    room: RequestShare,
  ) {
    const { headers, method = '' } = request;
    const { project, search } = target;
    refuseDelegation(headers, search);
    refuseForm(headers);
    refuseMethod(method);
    const body = await readBody(request, options.maxBody, { room, signal: client.signal });
    const recognised = hotPath?.recognise(request, body);
    const understood = recognised !== undefined && 'asked' in recognised ? recognised : undefined;
    if (recognised !== undefined && 'found' in recognised) {
      if (await answerKnown(recognised, client)) return undefined;
    }
    const destination = destinationOf(options.engineOf, {
      project,
      search,
      user: principal.name,
      authorization: () => canonicalAuthorization(headers.authorization),
    });
    const all = { destination, principal, client };
    // What another method carries is read all the same: some engine may take it for a POST.
    if (method !== 'POST' && body.length === 0) {
      return pass({ ...all, ...NOTHING_ASKED, reason: 'method' });
    }

    const read = understood?.asked ?? (await readAsked(headers, body, destination.traits));
    client.facts.subject = read.subject;
    client.facts.why = read.why;
    await refuseOtherIdentity(read, body, destination);
    if (hotPath !== undefined && read.bypass !== undefined && understood === undefined) {
      const lesson = { request, body, asked: read, destination, principal };
      void hotPath.learnPassing({ ...lesson, project: project ?? '' });
    }
    // Before anything is kept under its names.
    const admitted = names.admit(principal.name, projectsNamed(read, project));
    const asked = admitted ? read : withTooManyNames(read);
    const control = clientControl(headers, permissions.mayControlCache(principal));
    const context = sessionContext(asked, destination, principal);
    const step = await enterSession(asked, await judgeSession(asked, context), context);
    const begins =
      step.kind === 'none'
        ? // Where strange sessions are refused, one that the engine begins by itself must not be strange.
          destination.traits.strangeSessions === 'refuse'
        : step.kind === 'pass' && step.begins;
    const known = step.kind === 'pass' ? step.known : step.kind === 'clean' ? step : undefined;
    const replica = step.kind === 'pass' ? step.replica : undefined;
    const passing = { ...all, asked, body, known, replica, begins, purges: context.purges };
    if (method !== 'POST') return pass({ ...passing, reason: 'method' });
    if (step.kind === 'pass') return pass({ ...passing, reason: step.reason });
    if (asked.bypass !== undefined) return pass({ ...passing, reason: asked.bypass });
    if (control === 'no-store') return pass({ ...passing, reason: 'no-store' });

    const own = step.kind === 'clean' ? step : undefined;
    const fresh = control === 'no-cache';
    const query = await queryOf(asked, destination, principal, body, own, fresh);
    if (typeof query === 'string') return pass({ ...passing, reason: query });
    if (own !== undefined && (await sessionIsGone(own, destination, client))) return undefined;
    if (hotPath === undefined || control !== 'none') return options.cache.answer(query, client);
    const { share, parts } = query;
    const { identity } = parts;
    const place = { request, body, asked, destination, principal, project: project ?? '' };
    const found = (key: KnownKey) =>
      void hotPath.learn({ ...place, session: own, share, identity, found: key });
    return options.cache.answer({ ...query, found }, client);
  }

  /** Answers what went the whole line before, if it is there still. */
  function answerKnown({ found, subject, sessionId }: Recognised, client: XmlaClient) {
    client.facts.subject = subject;
    const session = sessionId === undefined ? undefined : { id: sessionId };
    return options.cache.fetch(found, { ttl: found.ttl, session }, client);
  }

  function sessionContext(
    { change }: Asked,
    { place, traits }: Destination,
    principal: Principal,
  ): SessionContext {
    const purges =
      change !== undefined &&
      permissions.mayPurge(principal) &&
      (!change.refresh || options.purgeOnRefresh);
    return { sessions, place, principal: principal.name, engine: traits, purges };
  }

  /** Whether the engine has dropped the session, which the client is told as the engine does. */
  async function sessionIsGone(
    { name, record }: CleanSession,
    { engine, addressee, settings }: Destination,
    client: XmlaClient,
  ): Promise<boolean> {
    const fault = await keepAlive.before({
      engine,
      addressee: { ...addressee, replica: record.replica },
      name,
      record,
      idle: settings.session_idle,
    });
    if (fault === undefined) return false;
    client.open(fault.head, { kind: 'bypass', detail: 'unknown-session' }, fault.body.length);
    client.write(fault.body);
    client.end();
    return true;
  }

  return { handle, explain: createExplanation({ ...options, queryOf, sessionContext }) };
}

const NOTHING_ASKED = {
  asked: undefined,
  body: undefined,
  known: undefined,
  replica: undefined,
  begins: false,
  purges: false,
} as const;

/** @throws GatewayError `forbidden`: a page of another site can send any statement as text/plain without asking */
function refuseForged(headers: IncomingHttpHeaders, { facts }: XmlaClient): void {
  const forged = forgery(headers);
  if (forged === undefined) return;
  facts.why = forged;
  throw new GatewayError('forbidden', `Nothing was done: ${forged}.`);
}

/** @throws GatewayError `bad-request`: engines take logins from the fields of a form */
function refuseForm(headers: IncomingHttpHeaders): void {
  if (/^\s*(application\/x-www-form-urlencoded|multipart\/)/i.test(headers['content-type'] ?? '')) {
    throw new GatewayError(
      'bad-request',
      'A form is no XMLA request; the Content-Type must be text/xml.',
    );
  }
}

function refuseMethod(method: string): void {
  if (!REFUSED_METHODS.has(method)) return;
  throw new GatewayError('method-not-allowed', `${method} is not allowed here.`, {
    headers: { allow: 'POST, GET, HEAD, OPTIONS' },
  });
}
