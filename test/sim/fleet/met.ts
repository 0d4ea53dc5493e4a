import type { Failed, LoggedIn } from './engine.ts';
import { loginIn } from './questions.ts';

/** A query that was met with silence is tried again so long behind that (ms). */
const RETRIED_WITHIN = 20_000;

/** What one gateway has met since its start: of the engine, and of logins. */
export type Met = ReturnType<typeof createMet>;

/** A right check of a login: when it was sent, and found right; until when nothing else was found (ms). */
interface Right {
  readonly sentAt: number;
  foundAt: number;
  endedAt: number;
}

/** @param now simulated time (ms) */
export function createMet(now: () => number) {
  /** By what was asked, or a login that was checked: the latest failure, and the latest silence. */
  const failedAt = new Map<string, number>();
  const silentAt = new Map<string, number>();
  /** Since a connection failed and no head came; until when that was so. */
  let downSince: number | undefined;
  let downUntil = -Infinity;
  const inVain = new Set<number>();
  let underWay = 0;
  let busyAt = -Infinity;
  const rights = new Map<string, Right[]>();

  return {
    /** The engine is to be asked. @param isTry false where it is not, because it is known to be away */
    asks(word: string, isTry: boolean) {
      const ends = () => {
        if (!isTry) return;
        underWay -= 1;
        busyAt = now();
      };
      if (isTry) underWay += 1;
      return {
        /** It found no place at the engine. */
        refused: ends,
        failed(how: Failed): void {
          ends();
          failedAt.set(word, now());
          if (how === 'unconnected') downSince ??= now();
          if (how === 'silence') silentAt.set(word, now());
        },
        answers(): void {
          ends();
          if (downSince !== undefined) downUntil = now();
          downSince = undefined;
        },
      };
    },
    /**
     * Why an old answer may be given to a request of that moment: one for the same failed since, none could be connected
     * meanwhile, or one was met with silence a short time ago.
     */
    failure(word: string, login: string, since: number): 'own' | 'down' | 'silence' | undefined {
      const hasFailed = (what: string) => (failedAt.get(what) ?? -Infinity) >= since;
      if (hasFailed(word) || hasFailed(login)) return 'own';
      if (downSince !== undefined || downUntil >= since) return 'down';
      return since - (silentAt.get(word) ?? -Infinity) < RETRIED_WITHIN ? 'silence' : undefined;
    },
    /**
     * A request of that moment was not answered before it, or another for the same, had tried an engine that was known to
     * be away. @returns how many tries there were in the last second of which that was so
     */
    triedInVain(word: string, since: number): number {
      const isKnown = downSince !== undefined && downSince < since;
      const failed = failedAt.get(word) ?? -Infinity;
      if (isKnown && failed >= since) inVain.add(failed);
      for (const at of inVain) if (at < now() - 1_000) inVain.delete(at);
      return inVain.size;
    },
    /** Whether nothing is under way, and was for so long (ms). */
    isQuietFor: (ms: number) => underWay === 0 && now() - busyAt > ms,
    /** A login is checked. */
    checks(login: string) {
      const sentAt = now();
      return (outcome: LoggedIn) => {
        const known = rights.get(login)?.slice(-3) ?? [];
        if (outcome === 'away') failedAt.set(login, now());
        if (outcome === 'rejected')
          for (const one of known) one.endedAt = Math.min(one.endedAt, now());
        if (outcome === 'accepted') known.push({ sentAt, foundAt: now(), endedAt: Infinity });
        rights.set(login, known);
      };
    },
    /** Right logins count only now that the engine has refused a made-up one. */
    refusesMadeUp(): void {
      for (const one of [...rights.values()].flat()) one.foundAt = now();
    },
    /** Whether any login of that user did. */
    hasUserCounted(user: string, forMs: number, since: number): boolean {
      return rights
        .keys()
        .some((login) => loginIn(login).user === user && this.hasCounted(login, forMs, since));
    },
    /** Whether it counted for so long (ms) behind a right check at some moment since then. */
    hasCounted: (login: string, forMs: number, since: number) =>
      (rights.get(login) ?? []).some(
        ({ sentAt, foundAt, endedAt }) =>
          foundAt >= since || Math.min(sentAt + forMs, endedAt) > since,
      ),
  };
}
