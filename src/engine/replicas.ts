import { createHash } from 'node:crypto';
import type { Clock } from '../common/clock.ts';
import type { EngineConfig } from '../config/config.ts';
import { createForward, type Forward } from '../proxy/proxy.ts';
import { createUpstream, NotConnected, type Upstream } from '../proxy/upstream.ts';
import { createQueryClient, type QueryClient } from './client.ts';
import { engineOrigin, engineTargetOf, type EngineTarget } from './engine-target.ts';

/** For how long (ms) a replica to which no connection could be made is asked only when all others fail. */
const PAUSE = 5_000;
/** How long (ms) the making of a connection may take while there is another replica to be tried. */
export const CONNECT_LIMIT = 3_000;

/** One of the servers that are an engine together. */
export interface Replica {
  /** As the configuration names it, which is also its name in sessions. */
  readonly url: string;
  readonly upstream: Upstream;
  readonly forward: Forward;
  readonly queries: QueryClient;
  readonly target: EngineTarget;
}

export interface Replicas {
  /** As whom the gateway's certificate shows it; '' without one. */
  readonly certificate: string;
  /**
   * Makes an attempt on one replica after another for as long as no connection can be made. Without a name each
   * call begins with the next one, and those that failed a short time ago come last.
   * @param name the only one to be tried; all are, when the configuration no longer knows it
   * @param attempt throws {@link NotConnected} when nothing was sent; `connectLimit` in ms, undefined for none
   * @throws what the last attempt threw
   */
  reach<T>(
    name: string | undefined,
    signal: AbortSignal,
    attempt: (replica: Replica, connectLimit: number | undefined) => Promise<T>,
  ): Promise<T>;
  /** As {@link Engine.replicaFor}. */
  nameFor(sessionId: string | undefined): string;
  /** Whether a connection to one of them, or to the named one, can be made. */
  reachable(name?: string): Promise<boolean>;
  close(): void;
}

/** The server at an engine's URL, of which each `{project}` is the same one. */
export function upstreamOf(
  url: string,
  config: Pick<EngineConfig, 'ca' | 'certificate' | 'key'>,
  keepAlive: boolean,
): Upstream {
  return createUpstream({ ...config, url: engineOrigin(url).href }, keepAlive);
}

export function createReplicas(
  config: Pick<EngineConfig, 'url' | 'ca' | 'certificate' | 'key'>,
  clock: Clock,
): Replicas {
  const all = config.url.map((url): Replica => {
    const upstream = upstreamOf(url, config, true);
    return {
      url,
      upstream,
      forward: createForward(upstream),
      queries: createQueryClient(upstream),
      target: engineTargetOf(url),
    };
  });
  const failedAt = new Map<Replica, number>();
  // Two turns: where each session is followed by one request, the sessions would all be on every other replica.
  const nextOfRequests = turns();
  const nextOfSessions = turns();

  const named = (name: string | undefined) => all.filter(({ url }) => url === name);

  function isPaused(replica: Replica): boolean {
    const failed = failedAt.get(replica);
    return failed !== undefined && clock.now() - failed < PAUSE;
  }

  /** All of them in the order in which they are tried. */
  function inOrder(next: (count: number) => number): readonly Replica[] {
    if (all.length === 1) return all;
    const good = all.filter((replica) => !isPaused(replica));
    const first = good.length === 0 ? all : good;
    const start = next(first.length);
    const paused = all.filter((replica) => !first.includes(replica));
    return [...first.slice(start), ...first.slice(0, start), ...paused];
  }

  return {
    certificate: all.map(({ upstream }) => upstream.certificate).find((one) => one !== '') ?? '',
    async reach(name, signal, attempt) {
      const only = named(name);
      const ordered = only.length > 0 ? only : inOrder(nextOfRequests);
      for (const [index, replica] of ordered.entries()) {
        const isLast = index === ordered.length - 1;
        try {
          return await attempt(replica, isLast ? undefined : CONNECT_LIMIT);
        } catch (error) {
          // A client that goes away says nothing of the replica.
          if (!(error instanceof NotConnected) || signal.aborted) throw error;
          failedAt.set(replica, clock.now());
          if (isLast) throw error;
        }
      }
      throw new Error('an engine without a replica');
    },
    nameFor(sessionId) {
      const { url } =
        sessionId === undefined
          ? (inOrder(nextOfSessions)[0] ?? { url: '' })
          : all.reduce((best, one) =>
              weight(one, sessionId) > weight(best, sessionId) ? one : best,
            );
      return url;
    },
    async reachable(name) {
      const asked = name === undefined ? all : named(name);
      return (await Promise.all(asked.map(({ upstream }) => upstream.reachable()))).includes(true);
    },
    close() {
      for (const { upstream, queries } of all) {
        queries.close();
        upstream.close();
      }
    },
  };
}

/**
 * Rendezvous hashing: every gateway finds the same replica for a session, whatever the order of its list, and
 * only the sessions of a replica that is taken away move.
 */
function weight({ url }: Replica, sessionId: string): string {
  return createHash('sha256')
    .update(JSON.stringify([url, sessionId]))
    .digest('hex');
}

function turns(): (count: number) => number {
  let turn = 0;
  return (count) => {
    turn += 1;
    return (turn - 1) % count;
  };
}
