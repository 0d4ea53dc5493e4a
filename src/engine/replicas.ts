import { hash } from 'node:crypto';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit } from '../common/events.ts';
import type { EngineConfig } from './config.ts';
import {
  createUpstream,
  NotConnected,
  reasonOf,
  Silence,
  StaleConnection,
} from '../proxy/upstream.ts';

/** Where a request goes and in whose name. */
export interface EngineAddressee {
  /** Decoded project of the request path. */
  readonly project: string | undefined;
  readonly query: readonly string[];
  /** The user whose place at the engine it takes. */
  readonly user: string;
  /** The client's own header Authorization, for `engine.login: forward`. */
  readonly authorization: string | undefined;
  /** The replica to which it must go, as `Engine.replicaFor` named it; undefined for any that can be reached. */
  readonly replica: string | undefined;
  /** Whether it may be sent twice: it only reads, and neither begins nor ends a session nor runs in one. */
  readonly again?: boolean;
  /** Ends the stay in the place that it has already; undefined where it has none, or not any more. */
  readonly admitted?: (() => (() => void) | undefined) | undefined;
  /** Headers of its client that `engine.headers` names, for the gateway's own questions in its place. */
  readonly named?: Readonly<Record<string, string>> | undefined;
  /** The project or catalog that is told of it; by default that of the path. */
  readonly label?: string | undefined;
}

/** The headers of a cacheable request: these, those that `engine.headers` names, and nothing else of the client's. */
export interface QueryHeaders {
  readonly [named: string]: string | undefined;
  readonly 'content-type': string;
  readonly soapaction: string;
  readonly accept?: string | undefined;
  readonly 'user-agent'?: string | undefined;
  /** The caller's session, where it named it in this header (SSAS). */
  readonly 'x-as-sessionid'?: string | undefined;
  /** The trace that the request is part of (W3C Trace Context). */
  readonly traceparent?: string | undefined;
}

/** How long a replica to which no connection could be made is asked only when all others fail. */
const PAUSE_MS = 5_000;
/** How long the making of a connection may take while there is another replica to be tried. */
const CONNECT_LIMIT_MS = 3_000;
/** Survives `new URL`, which would encode the braces. */
const PLACE = '__project__';
/** Whether the engine is told the project of the request path. */
export const tellsProject = (template: string) => template.includes('{project}');

/**
 * Gives path and query for a decoded project, which is encoded again, canonically, or left out.
 * @param template `engine.url`, which may hold `{project}` as a whole path segment
 */
export function engineTarget(template: string) {
  const { pathname, search } = new URL(template.replace('{project}', PLACE));
  const withoutProject = pathname.replace(`/${PLACE}`, '');
  return (project: string | undefined, parameters: readonly string[]): string => {
    const path =
      project === undefined
        ? withoutProject
        : pathname.replace(PLACE, () => encodeURIComponent(project));
    const all = [...search.slice(1).split('&'), ...parameters].filter(Boolean).join('&');
    return (path === '' ? '/' : path) + (all === '' ? '' : `?${all}`);
  };
}

/** The error of a client when the engine failed. Host names and error codes stay in the log. */
export function engineFailure(error: unknown): GatewayError {
  const cause = reasonOf(error);
  if (cause instanceof GatewayError) return cause;
  // Where no connection was made in time, that says nothing of what is asked.
  return cause instanceof Silence && cause === error
    ? new GatewayError('engine-timeout', 'The engine did not answer in time.', { cause })
    : new GatewayError('engine-unreachable', 'The engine cannot be reached.', { cause });
}

/** Tells of a failure of the engine, unless its client is at fault. */
export function reportFailure(emit: Emit, project: string, error: unknown): void {
  const { reason } = engineFailure(error);
  if (reason !== 'client-gone') {
    emit({ type: 'engine-failed', project, reason, error: reasonOf(error) });
  }
}

/** One of the servers that are an engine together. */
export type Replica = ReturnType<typeof createReplicas>['all'][number];

/** @param keepAlive whether a connection is used for more than one request */
export function createReplicas(
  config: Pick<EngineConfig, 'url' | 'ca' | 'certificate' | 'key'>,
  clock: Pick<Clock, 'now'>,
  keepAlive: boolean,
) {
  const all = config.url.map((url) => {
    // Each `{project}` is at the same server.
    const upstream = createUpstream({ ...config, url: url.replace('{project}', PLACE) }, keepAlive);
    // The URL as the configuration names it, which is also its name in sessions.
    return { url, upstream, target: engineTarget(url) };
  });
  type Replica = (typeof all)[number];
  const failedAt = new Map<Replica, number>();
  // Two turns: where each session is followed by one request, the sessions would all be on every other replica.
  let requests = 0;
  let sessions = 0;

  /** All of them in the order in which they are tried. */
  function inOrder(turn: number): readonly Replica[] {
    if (all.length === 1) return all;
    const since = clock.now() - PAUSE_MS;
    const isPaused = (replica: Replica) => (failedAt.get(replica) ?? -Infinity) > since;
    const [paused, good] = [all.filter(isPaused), all.filter((one) => !isPaused(one))];
    const [first, last] = good.length === 0 ? [paused, []] : [good, paused];
    const start = turn % first.length;
    return [...first.slice(start), ...first.slice(0, start), ...last];
  }

  return {
    all,
    /** The name of the gateway by its certificate; '' without one. */
    certificate: all.map(({ upstream }) => upstream.certificate).find((one) => one !== '') ?? '',
    /**
     * Makes an attempt on one replica after another for as long as no connection can be made, each
     * call from the next one on; those that failed a short time ago come last.
     * @param to.replica the only one to be tried; all are, when the configuration no longer knows it
     * @param to.again whether an attempt on a connection that had ended is made once more, on a new one
     * @param attempt throws {@link NotConnected} when nothing was sent
     */
    async reach<T>(
      { replica: name, again = false }: Partial<Pick<EngineAddressee, 'replica' | 'again'>>,
      signal: AbortSignal,
      attempt: (replica: Replica, connectLimitMs: number | undefined) => Promise<T>,
    ): Promise<T> {
      const only = name === undefined ? [] : all.filter(({ url }) => url === name);
      const ordered = only.length > 0 ? only : inOrder(requests++);
      let left = ordered.length;
      let isSecond = false;
      for (const replica of ordered) {
        const isLast = (left -= 1) === 0;
        const limit = isLast ? undefined : CONNECT_LIMIT_MS;
        try {
          return await attempt(replica, limit).catch((error: unknown) => {
            if (!again || isSecond || !(error instanceof StaleConnection)) throw error;
            isSecond = true;
            // A server that closed one connection has most likely closed them all.
            replica.upstream.closeIdle();
            return attempt(replica, limit);
          });
        } catch (error) {
          // A client that goes away says nothing of the replica.
          if (!(error instanceof NotConnected) || signal.aborted) throw error;
          failedAt.set(replica, clock.now());
          if (isLast) throw error;
        }
      }
      throw new Error('an engine without a replica');
    },
    /** The replica of a session: for a new one any that can be reached, for an unknown one always one and the same. */
    nameFor(sessionId: string | undefined): string {
      if (sessionId === undefined) return inOrder(sessions++)[0]?.url ?? '';
      // Rendezvous hashing, as at every gateway: only the sessions of a replica that goes away
      // move.
      const weight = ({ url }: Replica) => hash('sha256', JSON.stringify([url, sessionId]));
      return all.reduce((best, one) => (weight(one) > weight(best) ? one : best)).url;
    },
    close() {
      for (const { upstream } of all) upstream.close();
    },
  };
}
