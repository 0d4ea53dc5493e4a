/** What one gateway has met since its start: of the engine, and of logins. */
export type Met = ReturnType<typeof createMet>;

type Failure = 'engine-unreachable' | 'engine-timeout';

/** A right check of a login: when it was sent, and found right; until when nothing else was found (ms). */
interface Right {
  readonly sentAt: number;
  foundAt: number;
  endedAt: number;
}

/** @param now simulated time (ms) */
export function createMet(now: () => number) {
  const failedAt = new Map<string, number>();
  /** Since a connection failed and no head came; until when that was so. */
  let downSince: number | undefined;
  let downUntil = -Infinity;
  let underWay = 0;
  let busyAt = -Infinity;
  const rights = new Map<string, Right[]>();

  return {
    /** The engine is asked. */
    asks(word: string) {
      const ends = () => {
        underWay -= 1;
        busyAt = now();
      };
      underWay += 1;
      return {
        failed(how: Failure): void {
          ends();
          failedAt.set(word, now());
          if (how === 'engine-unreachable') downSince ??= now();
        },
        answers(): void {
          ends();
          if (downSince !== undefined) downUntil = now();
          downSince = undefined;
        },
      };
    },
    /** Whether a request of this word failed since, or the engine counted as down meanwhile. */
    hasFailed: (word: string, since: number) =>
      (failedAt.get(word) ?? -Infinity) >= since || downSince !== undefined || downUntil >= since,
    /** Whether nothing is under way, and was for so long (ms). */
    isQuietFor: (ms: number) => underWay === 0 && now() - busyAt > ms,
    /** A login is checked. */
    checks(login: string) {
      const sentAt = now();
      return (outcome: 'accepted' | 'rejected' | 'unavailable') => {
        const known = rights.get(login)?.slice(-3) ?? [];
        if (outcome === 'rejected') for (const one of known) one.endedAt = Math.min(one.endedAt, now());
        if (outcome === 'accepted') known.push({ sentAt, foundAt: now(), endedAt: Infinity });
        rights.set(login, known);
      };
    },
    /** Right logins count only now that the engine has refused a made-up one. */
    refusesMadeUp(): void {
      for (const one of [...rights.values()].flat()) one.foundAt = now();
    },
    /** Whether it counted for so long (ms) behind a right check at some moment since then. */
    hasCounted: (login: string, forMs: number, since: number) =>
      (rights.get(login) ?? []).some(
        ({ sentAt, foundAt, endedAt }) =>
          foundAt >= since || Math.min(sentAt + forMs, endedAt) > since,
      ),
  };
}
