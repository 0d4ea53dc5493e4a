import { ENGINE_KIND_NAMES, ENGINE_KINDS } from '../common/engine-kinds.ts';
import { whyNotNamed } from '../common/header-names.ts';
import { loginRules, service, tlsFiles, tlsRules } from '../settings/connection.ts';
import * as kinds from '../settings/kinds.ts';
import type { Broken } from '../settings/problems.ts';
import { key, list, orNull, section, type ValueOf } from '../settings/setting.ts';

/** Lower case: letter case does not count (RFC 9110 §5.1). */
const headerName = kinds.kind(
  'header name',
  'the name of a header: a letter, and then letters, digits, hyphens, underscores and dots',
  (text) => (/^[a-z][\w.-]*$/i.test(text) ? text.toLowerCase() : undefined),
);

/**
 * Refuses a query, since the gateway adds the request's, and credentials, since messages show it.
 */
const engineUrls = kinds.oneOrMore(
  kinds.textKind(
    'URL',
    'an http:// or https:// URL with a host, without user, password, query and fragment; ' +
      '{project} may stand in it once, as a whole segment of the path',
    kinds.isServerUrl,
    // Credentials that were put into the URL by mistake stand at an @, a query or a fragment.
    { hides: (text) => /[@?#]/.test(text) },
  ),
  ' for the replicas of the engine, all with {project} or none',
  (url) => url.includes(kinds.PROJECT_PLACE),
);

export const engine = section({
  /** The XMLA endpoint of the engine, or a list of those of its replicas; a session stays with its
   * replica. {project} is replaced by the project of the request path. */
  url: key(engineUrls, 'http://127.0.0.1:8080/xmla'),
  /** The kind of engine; docs/SESSIONS.md shows what that changes. generic fits all others. */
  kind: key(kinds.choice(...ENGINE_KIND_NAMES), 'generic'),
  /** The login that the engine gets: that of the client (forward), that of the service account
   * (service), or none. */
  login: key(kinds.choice('forward', 'service', 'none'), 'none'),
  /** The service account. Required with login: service in this section, forbidden otherwise. */
  service,
  /** The treatment of requests that ask for the rights of another identity (EffectiveUserName,
   * Roles, CustomData, WS-Security …): forward sends them to the engine past the cache, refuse
   * answers with a Fault. null: refuse with login: service, because all users could borrow the
   * rights of that account; forward otherwise. */
  delegation: orNull(kinds.choice('forward', 'refuse')),
  /** Headers of clients on which the engine's answer depends, such as Accept-Language or X-Tenant.
   * They are forwarded under exactly these names, and each value has entries of its own. Unusual
   * headers that are not in this list are not forwarded. */
  headers: list(headerName, []),
  /** The idle time after which the engine drops a session. When a quarter of it has passed, an
   * answer from the cache also sends an empty statement in the session to the engine. null: the
   * idle time that is usual for the kind of engine; 0: the engine never drops a session. */
  session_idle: orNull(kinds.duration('1s', '30d', 'off')),
  /** Whether clearCache also clears the cache of the engine: kylin first calls the engine's own
   * clearCache at every replica; engine.url must then end in /mdx/xmla or /mdx/xmla/{project}. */
  clear: key(kinds.choice('none', 'kylin'), 'none'),
  /** How long the engine may take until the first byte of its answer, and between two bytes of
   * it. */
  timeout: key(kinds.duration('1s', '1h'), '300s'),
  ...tlsFiles,
});

export type CheckedEngine = ValueOf<typeof engine>;
export type EngineConfig = ReturnType<typeof fillInEngine>;

/** MDX for Kylin has its clearCache beside its XMLA; the server's base comes first. */
export const KYLIN_URL = /\/mdx\/xmla(?:_server)?(?:\/\{project\})?\/?$/;

/** @param written the engine's keys of this section; the mistakes of others are told elsewhere */
export function* engineRules(
  written: Partial<CheckedEngine>,
  engine: Pick<CheckedEngine, 'login' | 'service' | 'clear' | 'url'>,
  reading: kinds.Reading,
): Broken {
  if (written.login !== undefined || 'service' in written) yield* loginRules(engine);
  const clears = written.clear !== undefined || written.url !== undefined;
  if (clears && engine.clear === 'kylin' && !engine.url.every((url) => KYLIN_URL.test(url))) {
    const ends = '/mdx/xmla, /mdx/xmla_server, or one of them with /{project}';
    yield ['clear', `kylin needs an engine.url that ends in ${ends}`];
  }
  for (const name of written.headers ?? []) {
    const why = whyNotNamed(name);
    if (why !== undefined) yield ['headers', `must not name ${name}: ${why}`];
  }
  yield* tlsRules(written, reading);
}

/**
 * Certificate and key are inherited as a pair, the service account only by a login that uses it.
 */
export function inheritEngine(own: Partial<CheckedEngine>, common: CheckedEngine): CheckedEngine {
  const login = own.login ?? common.login;
  const none = { certificate: undefined, key: undefined };
  return {
    ...common,
    service: login === 'service' ? common.service : undefined,
    ...('certificate' in own || 'key' in own ? none : {}),
    ...own,
    delegation: own.delegation ?? (own.login === undefined ? common.delegation : undefined),
    session_idle: own.session_idle ?? (own.kind === undefined ? common.session_idle : undefined),
  };
}

export function fillInEngine(engine: CheckedEngine) {
  const { login, kind, delegation, session_idle } = engine;
  const idle = session_idle ?? ENGINE_KINDS[kind].sessionIdle;
  return {
    ...engine,
    headers: engine.headers.toSorted(),
    delegation: delegation ?? (login === 'service' ? 'refuse' : 'forward'),
    /** Undefined: the engine never drops a session. */
    session_idle: idle === 0 ? undefined : idle,
  };
}
