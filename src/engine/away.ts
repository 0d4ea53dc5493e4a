import type { Clock } from '../common/clock.ts';
import { messageOf } from '../common/errors.ts';
import type { Emit, EngineAway, EventMap } from '../common/events.ts';
import { reasonOf } from '../proxy/upstream.ts';
import type { EngineConfig } from './config.ts';

/** Pause between two tries of a server that is away (ms). */
const TRY_MS = 1_000;

export const serverName = (
  { ca, certificate, key }: Pick<EngineConfig, 'ca' | 'certificate' | 'key'>,
  url: string,
) => JSON.stringify([url, ca, certificate, key]);

/** Monotonic (ms). */
interface Server {
  readonly url: string;
  /** Wall clock (ms). */
  readonly since: number;
  triedAt: number;
  /** The last try took so long that no request should wait for another. */
  isSlow: boolean;
  error: Error;
}

export type Away = ReturnType<typeof createAway>;

/**
 * Servers of engines to which no connection could be made, and that have sent no head since. All
 * that this process sends them is seen here: requests, logins, probes.
 */
export function createAway({ clock, emit }: { clock: Pick<Clock, 'now' | 'wall'>; emit?: Emit }) {
  const servers = new Map<string, Server>();
  /** Monotonic (ms), of every server. */
  const failedAt = new Map<string, number>();
  const answeredAt = new Map<string, number>();
  const tell = (event: EventMap['engine-away']) => emit?.({ type: 'engine-away', ...event });
  const isTriedNow = ({ triedAt }: Server) => clock.now() - triedAt < TRY_MS;
  /** All of them, if each is away. */
  const allOf = (names: readonly string[]) => {
    const found = names.flatMap((name) => servers.get(name) ?? []);
    return found.length === names.length ? found : [];
  };

  return {
    /** Away, and tried within the last second: no request need try now. */
    isAway: (names: readonly string[]): boolean => allOf(names).some(isTriedNow),
    /** Error of the last try, where another one now would keep its client waiting in vain. */
    refusal: (names: readonly string[]): Error | undefined =>
      allOf(names).find((one) => one.isSlow && isTriedNow(one))?.error,
    /** When a connection last failed, or a try of a server that is away last began. */
    avoidedSince: (name: string): number =>
      Math.max(failedAt.get(name) ?? -Infinity, servers.get(name)?.triedAt ?? -Infinity),
    /** Begins a try. @returns whether the server is away */
    tries(name: string): boolean {
      const server = servers.get(name);
      if (server !== undefined) server.triedAt = clock.now();
      return server !== undefined;
    },
    /** @param began when the try did */
    failed(name: string, url: string, began: number, error: Error): void {
      const now = clock.now();
      failedAt.set(name, now);
      // Others reached it meanwhile: late failures are no new outage.
      if ((answeredAt.get(name) ?? -Infinity) > began) return;
      const isSlow = now - began >= TRY_MS;
      const known = servers.get(name);
      if (known !== undefined) return void Object.assign(known, { isSlow, error });
      const since = clock.wall();
      servers.set(name, { url, since, triedAt: now, isSlow, error });
      tell({ url, state: 'down', why: messageOf(reasonOf(error)), ms: 0 });
    },
    answered(name: string): void {
      answeredAt.set(name, clock.now());
      const server = servers.get(name);
      if (server === undefined) return;
      servers.delete(name);
      const ms = Math.max(0, clock.wall() - server.since);
      tell({ url: server.url, state: 'up', why: 'it answers again', ms });
    },
    list: (): readonly EngineAway[] =>
      [...servers.values()].map(({ url, since }) => ({
        url,
        since: new Date(since).toISOString(),
      })),
  };
}
