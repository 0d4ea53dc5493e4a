import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Principal } from './auth/authenticator.ts';
import type { Clock } from './clock.ts';
import type { EngineKind } from './config/config.ts';
import type { Engine, EngineAddressee, QueryHeaders } from './engine/engine.ts';
import { sortedQuery } from './engine/engine-target.ts';
import { GatewayError } from './errors.ts';
import type { Emit } from './events.ts';
import { acceptedType, userAgentClass } from './http/client-class.ts';
import { canonicalContentType } from './http/content-type.ts';
import { refuseDelegation } from './http/delegation.ts';
import type { Login } from './http/login.ts';
import { readBody } from './http/read-body.ts';
import { createXmlaClient, type XmlaClient } from './http/xmla-client.ts';
import { forwardedQuery } from './proxy/forwarded-query.ts';
import type { QueryPolicy } from './query-cache/project-policy.ts';
import type { Query } from './query-cache/query.ts';
import type { QueryCache } from './query-cache/query-cache.ts';
import { entryScopes } from './query-cache/scopes.ts';
import type { BypassReason } from './reasons.ts';
import type { RoleSets } from './roles/role-sets.ts';
import { namedCatalogs } from './xmla/catalogs.ts';
import { classify } from './xmla/classify.ts';
import { readRequest } from './xmla/read-request.ts';
import { soapActionContradicts, soapActionOf } from './xmla/soap-action.ts';
import type { XmlaRequest } from './xmla/xmla-request.ts';

/** Where an XMLA request is addressed to, read from its target. */
export interface XmlaTarget {
  /** Decoded once. */
  readonly project: string | undefined;
  /** What follows the `?`. */
  readonly search: string;
}

/** Answers one XMLA request. Never rejects. */
export type XmlaHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  target: XmlaTarget,
) => Promise<void>;

/** The engine of a project, and its kind, which decides what may be cached. */
export type EngineOf = (project: string | undefined) => {
  readonly engine: Engine;
  readonly kind: EngineKind;
};

/** Would make the engine send the gateway's own credentials back to the client. */
const REFUSED_METHODS: ReadonlySet<string> = new Set(['TRACE', 'CONNECT']);
/** Each is an epoch to be read: thousands of them would hold everybody up. */
const MAX_CATALOGS = 16;
/** Headers by which a session or its token travels beside the envelope (SSAS). */
const SESSION_HEADERS = ['x-as-sessionid', 'x-as-getsessiontoken'] as const;

/**
 * One XMLA request, a straight line: authenticate, read, understand, classify, look up or ask. Knows nothing
 * of Express.
 */
export function createXmlaHandler(options: {
  login: Login;
  engineOf: EngineOf;
  policyOf: (projects: readonly string[], spans: boolean) => QueryPolicy;
  roleSets: Pick<RoleSets, 'nameFor'>;
  cache: QueryCache;
  /** Largest request body in bytes. */
  maxBody: number;
  clock: Clock;
  newId: () => string;
  emit: Emit;
}): XmlaHandler {
  const { clock, emit } = options;

  return async function handle(request, response, target) {
    const client = createXmlaClient(request, response, { id: options.newId(), clock, emit });
    try {
      await answer(request, client, target);
    } catch (error) {
      client.fail(error);
    }
  };

  async function answer(request: IncomingMessage, client: XmlaClient, target: XmlaTarget) {
    const { headers, method = '' } = request;
    const { project, search } = target;
    const principal = await options.login(request);
    client.facts.principal = principal.name;
    // Not before: a stranger could fill the labels of the metrics with invented names.
    client.facts.project = project ?? '';
    refuseDelegation(headers, search);
    refuseForm(headers);
    refuseMethod(method);
    const body = await readBody(request, options.maxBody);

    const { engine, kind } = options.engineOf(project);
    const addressee: EngineAddressee = {
      project,
      query: forwardedQuery(search),
      user: principal.name,
      authorization: headers.authorization,
    };
    const understood: Understood =
      method === 'POST' ? understand(headers, body, kind) : { bypass: 'method' };
    client.facts.subject = understood.subject ?? '';
    client.facts.why = understood.why ?? '';
    const query =
      understood.bypass ?? (await queryOf(understood, engine, addressee, principal, body));
    if (typeof query !== 'string') return options.cache.answer(query, client);
    const passed = client.passingThrough({ kind: 'bypass', detail: query });
    return engine.passThrough(
      addressee,
      passed,
      method === 'POST' || body.length > 0 ? body : undefined,
    );
  }

  /** The query to look up, or the reason why the configuration forbids that. */
  async function queryOf(
    { xmla, forwarded }: Cacheable,
    engine: Engine,
    addressee: EngineAddressee,
    principal: Principal,
    body: Buffer,
  ): Promise<Query | BypassReason> {
    const { project } = addressee;
    const { catalogs, spansCatalogs } = namedCatalogs(xmla);
    if (catalogs.length > MAX_CATALOGS) return 'many-catalogs';
    const projects = project === undefined ? catalogs : [project, ...catalogs];
    // A project in the path narrows the answer only where the engine is told of it.
    const told = engine.tellsProject && project !== undefined && xmla.method === 'Execute';
    const spans = spansCatalogs && !told;
    const policy = options.policyOf(projects, spans);
    if (policy.cache === 'off') return 'cache-off';
    const query = sortedQuery(addressee.query);
    return {
      parts: {
        engine: engine.id,
        project: project ?? null,
        query,
        identity: await identity(policy, principal),
        userAgentClass: forwarded['user-agent'] ?? null,
        accept: forwarded.accept ?? null,
        contentType: forwarded['content-type'],
        request: xmla,
      },
      scopes: entryScopes(projects, spans),
      ttl: policy.ttl,
      project: project ?? '',
      ask: (signal) => engine.ask({ ...addressee, query }, forwarded, body, signal),
    };
  }

  /** Whose answers a query may be given (design: `cache.share`). */
  async function identity({ share }: QueryPolicy, { name }: Principal): Promise<string> {
    if (share === 'everyone') return 'everyone';
    const shared = share === 'roles' ? await options.roleSets.nameFor(name) : undefined;
    return shared ?? `user:${name}`;
  }
}

interface Cacheable {
  readonly xmla: XmlaRequest;
  readonly forwarded: QueryHeaders;
}

/** What a POST asks, or why it is passed through; `subject` and `why` are for the log. */
type Understood =
  | (Cacheable & {
      readonly bypass?: undefined;
      readonly subject: string;
      readonly why?: undefined;
    })
  | { readonly bypass: BypassReason; readonly subject?: string; readonly why?: string | undefined };

/** @throws GatewayError `bad-request` for what must not reach an engine */
function understand(headers: IncomingHttpHeaders, body: Buffer, kind: EngineKind): Understood {
  const reading = readRequest(body, headers['content-type']);
  if (reading.kind === 'refused') {
    throw new GatewayError('bad-request', `The XMLA request is refused: ${reading.detail}.`);
  }
  if (reading.kind === 'not-understood') return { bypass: reading.reason, why: reading.detail };
  const xmla = reading.request;
  const subject = xmla.method === 'Discover' ? xmla.requestType : xmla.method;
  const forwarded = queryHeaders(headers, xmla);
  if (typeof forwarded === 'string') return { bypass: forwarded, subject };
  const bypass = classify(xmla, kind);
  if (bypass === undefined) return { xmla, forwarded, subject };
  return { bypass, subject, why: bypass === 'unknown-shape' ? xmla.unexpected : undefined };
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

/**
 * The headers with which a cacheable request goes to the engine, built from what is in the key, or the
 * reason why they cannot be built.
 */
function queryHeaders(
  headers: IncomingHttpHeaders,
  { method }: XmlaRequest,
): QueryHeaders | BypassReason {
  if (SESSION_HEADERS.some((name) => headers[name] !== undefined)) return 'session';
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
    'user-agent': userAgentClass(headers['user-agent']),
  };
}
