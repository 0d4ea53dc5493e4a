import { hash } from 'node:crypto';
import type { Clock } from '../common/clock.ts';
import { EngineFailure, GatewayError } from '../common/errors.ts';
import type { Emit } from '../common/events.ts';
import { createAway, serverName } from './away.ts';
import type { EngineConfig } from './config.ts';
import {
  createUpstream,
  NoAnswer,
  NotConnected,
  reasonOf,
  Silence,
  StaleConnection,
} from '../proxy/upstream.ts';

export interface EngineAddressee {
  readonly project: string | undefined;
  readonly query: readonly string[];
  readonly user: string;
  /** Header Authorization of the client, for `engine.login: forward`. */
  readonly authorization: string | undefined;
  /** The only replica that may serve, by `Engine.replicaFor`; undefined for any. */
  readonly replica: string | undefined;
  /** True if it may be sent twice: it only reads, outside of sessions. */
  readonly again?: boolean;
  /** Takes over a place at the engine; undefined, also from the call, without one. */
  readonly admitted?: (() => (() => void) | undefined) | undefined;
  /** The client's headers of `engine.headers`, for the gateway's own questions. */
  readonly named?: Readonly<Record<string, string>> | undefined;
  /** Project or catalog in events; default: the project of the path. */
  readonly label?: string | undefined;
}

/** All headers of a cacheable request, beside those of `engine.headers`. */
export interface QueryHeaders {
  readonly [named: string]: string | undefined;
  readonly 'content-type': string;
  readonly soapaction: string;
  readonly accept?: string | undefined;
  readonly 'user-agent'?: string | undefined;
  /** The session, if the client names it in this header (SSAS). */
  readonly 'x-as-sessionid'?: string | undefined;
  /** W3C Trace Context. */
  readonly traceparent?: string | undefined;
}

const PAUSE_MS = 5_000;
/** Limits of a connection while another replica could step in or the server is away, and else. */
const CONNECT_LIMIT_MS = 3_000;
const LAST_CONNECT_LIMIT_MS = 10_000;
/** Survives `new URL`, which would encode the braces. */
const PLACE = '__project__';
export const tellsProject = (template: string) => template.includes('{project}');

/** @param template `engine.url`, which may hold `{project}` as a whole path segment */
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

/** Hides host names and error codes, which stay in the log. */
export function engineFailure(error: unknown): GatewayError {
  const cause = reasonOf(error);
  if (cause instanceof GatewayError) return cause;
  const Failure = error instanceof NoAnswer ? EngineFailure : GatewayError;
  // A timeout of the connection alone says nothing of the question.
  return cause instanceof Silence && !(error instanceof NotConnected)
    ? new Failure('engine-timeout', 'The engine did not answer in time.', { cause })
    : new Failure('engine-unreachable', 'The engine cannot be reached.', { cause });
}

export function reportFailure(emit: Emit, project: string, error: unknown): void {
  const { reason } = engineFailure(error);
  if (reason !== 'client-gone') {
    emit({ type: 'engine-failed', project, reason, error: reasonOf(error) });
  }
}

export type Replica = ReturnType<typeof createReplicas>['all'][number];

export function createReplicas(
  config: Pick<EngineConfig, 'url' | 'ca' | 'certificate' | 'key'>,
  clock: Pick<Clock, 'now' | 'wall'>,
  keepAlive: boolean,
  away = createAway({ clock }),
) {
  const all = config.url.map((url) => {
    const upstream = createUpstream({ ...config, url: url.replace('{project}', PLACE) }, keepAlive);
    // The URL of the configuration, which names the replica in sessions.
    return { url, upstream, target: engineTarget(url), name: serverName(config, url) };
  });
  type Replica = (typeof all)[number];
  // Two counters: with one, a session followed by a request would always take every other replica.
  let requests = 0;
  let sessions = 0;

  function inOrder(turn: number): readonly Replica[] {
    if (all.length === 1) return all;
    const since = clock.now() - PAUSE_MS;
    const isPaused = ({ name }: Replica) => away.avoidedSince(name) > since;
    const [paused, good] = [all.filter(isPaused), all.filter((one) => !isPaused(one))];
    const [first, last] = good.length === 0 ? [paused, []] : [good, paused];
    const start = turn % first.length;
    return [...first.slice(start), ...first.slice(0, start), ...last];
  }

  function named(name: string | undefined): readonly Replica[] | undefined {
    const only = name === undefined ? [] : all.filter(({ url }) => url === name);
    return only.length > 0 ? only : undefined;
  }
  const namesOf = (replicas: readonly Replica[]) => replicas.map(({ name }) => name);

  return {
    all,
    /** No connection can be made, and no request need try now. @param replica as for `reach` */
    isAway: (replica?: string) => away.isAway(namesOf(named(replica) ?? all)),
    certificate: all.map(({ upstream }) => upstream.certificate).find((one) => one !== '') ?? '',
    /**
     * Tries one replica after another until a connection can be made. Where all are away and a try
     * takes long, one request in a second tries, and the others fail as it did.
     * @param to.replica the only one to try; an unknown name means all
     * @param to.again repeats a try once whose kept connection had ended
     * @param attempt throws {@link NotConnected} when nothing was sent
     */
    async reach<T>(
      { replica: only, again = false }: Partial<Pick<EngineAddressee, 'replica' | 'again'>>,
      signal: AbortSignal,
      attempt: (replica: Replica, connectLimitMs: number) => Promise<T>,
    ): Promise<T> {
      const ordered = named(only) ?? inOrder(requests++);
      const refusal = away.refusal(namesOf(ordered));
      if (refusal !== undefined) throw refusal;
      let left = ordered.length;
      let isSecond = false;
      for (const replica of ordered) {
        const isLast = (left -= 1) === 0;
        const { name, url } = replica;
        const isShort = away.tries(name) || !isLast;
        const limit = isShort ? CONNECT_LIMIT_MS : LAST_CONNECT_LIMIT_MS;
        const began = clock.now();
        try {
          const answer = await attempt(replica, limit).catch((error: unknown) => {
            if (!again || isSecond || !(error instanceof StaleConnection)) throw error;
            isSecond = true;
            // A server that closed one connection has likely closed all.
            replica.upstream.closeIdle();
            return attempt(replica, limit);
          });
          away.answered(name);
          return answer;
        } catch (error) {
          // The client left, which says nothing of the replica.
          if (!(error instanceof NotConnected) || signal.aborted) throw error;
          away.failed(name, url, began, error);
          if (isLast) throw error;
        }
      }
      throw new Error('an engine without a replica');
    },
    /** Picks a replica for a new session; an unknown session always gets the same one. */
    nameFor(sessionId: string | undefined): string {
      if (sessionId === undefined) return inOrder(sessions++)[0]?.url ?? '';
      // Rendezvous hashing, alike at all gateways: only sessions of a lost replica move.
      const weight = ({ url }: Replica) => hash('sha256', JSON.stringify([url, sessionId]));
      return all.reduce((best, one) => (weight(one) > weight(best) ? one : best)).url;
    },
    close() {
      for (const { upstream } of all) upstream.close();
    },
  };
}
