import { createHash } from 'node:crypto';
import type { Agent } from 'node:http';
import type { Clock } from '../clock.ts';
import type { EngineConfig } from '../config/config.ts';
import { acceptsConnections } from '../proxy/probe.ts';
import { createUpstreamAgent } from '../proxy/upstream-agent.ts';
import { NotConnected } from './engine-failure.ts';
import { engineOrigin, engineTargetOf, type EngineTarget } from './engine-target.ts';
import { createQuerySender, type QuerySender } from './query-request.ts';

/** For how long (ms) a replica to which no connection could be made is asked only when all others fail. */
const PAUSE = 5_000;
/** How long (ms) the making of a connection may take while there is another replica to be tried. */
const CONNECT_LIMIT = 3_000;

/** One of the servers that are an engine together. */
export interface Replica {
  /** As the configuration names it, which is also its name in sessions. */
  readonly url: string;
  readonly origin: URL;
  /** Of what is passed through. */
  readonly agent: Agent;
  readonly queries: QuerySender;
  /** As `engineTarget` of its URL. */
  readonly target: EngineTarget;
}

export interface Replicas {
  /** Tells client certificates apart; '' without one. */
  readonly certificate: string;
  /**
   * Makes an attempt on one replica after another for as long as no connection can be made. Without a name each
   * call begins with the next one, and those that failed a short time ago come last.
   * @param name the only one to be tried; all are, when the configuration no longer knows it
   * @param attempt throws {@link NotConnected} when nothing was sent; `connectLimit` in ms, undefined for none
   * @throws what the last attempt threw, or what stood behind its `NotConnected`
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

export function createReplicas(options: { config: EngineConfig; clock: Clock }): Replicas {
  const { config, clock } = options;
  let certificate = '';
  const all = config.url.map((url): Replica => {
    const origin = engineOrigin(url);
    const upstream = createUpstreamAgent({ ...config, url: origin.href }, true);
    certificate ||= upstream.certificate;
    const queries = createQuerySender(origin, upstream);
    return { url, origin, agent: upstream.agent, queries, target: engineTargetOf(url) };
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
    const good = all.filter((replica) => !isPaused(replica));
    const first = good.length === 0 ? all : good;
    const start = next(first.length);
    const paused = all.filter((replica) => !first.includes(replica));
    return [...first.slice(start), ...first.slice(0, start), ...paused];
  }

  function candidates(name: string | undefined): readonly Replica[] {
    const only = named(name);
    return only.length > 0 ? only : inOrder(nextOfRequests);
  }

  return {
    certificate,
    async reach(name, signal, attempt) {
      const ordered = all.length === 1 ? all : candidates(name);
      let tried = 0;
      for (const replica of ordered) {
        tried += 1;
        const isLast = tried === ordered.length;
        try {
          return await attempt(replica, isLast ? undefined : CONNECT_LIMIT);
        } catch (error) {
          if (!(error instanceof NotConnected)) throw error;
          // Who goes away says nothing of the replica.
          if (signal.aborted) throw error.cause;
          failedAt.set(replica, clock.now());
          if (isLast) throw error.cause;
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
      const states = (name === undefined ? all : named(name)).map(({ origin }) =>
        acceptsConnections(origin),
      );
      return (await Promise.all(states)).includes(true);
    },
    close() {
      for (const { agent, queries } of all) {
        agent.destroy();
        queries.close();
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
