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
  failedAt: number;
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
    failedAt: (name: string) => servers.get(name)?.failedAt ?? -Infinity,
    /** Begins a try. @returns whether the server is away */
    tries(name: string): boolean {
      const server = servers.get(name);
      if (server !== undefined) server.triedAt = clock.now();
      return server !== undefined;
    },
    /** @param began when the try did */
    failed(name: string, url: string, began: number, error: Error): void {
      const now = clock.now();
      const isSlow = now - began >= TRY_MS;
      const known = servers.get(name);
      if (known !== undefined) return void Object.assign(known, { failedAt: now, isSlow, error });
      const since = clock.wall();
      servers.set(name, { url, since, failedAt: now, triedAt: now, isSlow, error });
      tell({ url, state: 'down', why: messageOf(reasonOf(error)), ms: 0 });
    },
    answered(name: string): void {
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
