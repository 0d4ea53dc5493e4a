import { LRUCache } from 'lru-cache';
import { shareFor } from '../common/clock.ts';
import { basicAuthorization, principalOf } from '../common/principal.ts';
import { createPasswordAuthenticator, type LoginOptions } from './authenticator.ts';

/** Port: tries a login at the engine. A rejection means `unavailable`; `away`: no answer came. */
export type TryLogin = (
  authorization: string,
  signal: AbortSignal,
) => Promise<'accepted' | 'rejected' | 'unavailable' | 'away'>;

const MAX_KNOWN = 10_000;
/** How long an engine that rejected made-up credentials is trusted. */
const CHECKED_FOR_MS = 3_600_000;

const UNCHECKED =
  'all logins are refused: the engine accepts every login, so that auth.provider: engine proves nothing';

/** Tries logins at the engine, names exactly as sent: `admin` and `ADMIN` are two here. */
export function createEngineAuthenticator(
  options: LoginOptions & {
    readonly tryLogin: TryLogin;
    /** ms; a minute by default */
    readonly verifiedFor: number | undefined;
    readonly believedFor: number;
  },
) {
  const { tryLogin, clock, random, emit, verifiedFor = 60_000, believedFor } = options;
  const known = new LRUCache<string, true>({ max: MAX_KNOWN });
  const closing = new AbortController();
  let checkedUntil = -Infinity;

  const ask = (authorization: string): ReturnType<TryLogin> =>
    tryLogin(authorization, closing.signal).catch(() => 'unavailable');

  const token = () => Buffer.from(random(12)).toString('hex');
  const rejectsMadeUpLogin = shareFor(0, clock, async () => {
    const at = clock.now();
    // The operator may find the name in the engine's log.
    const madeUp = { name: `mdx-gateway-test-${token()}`, password: token() };
    const answer = await ask(basicAuthorization(madeUp));
    if (answer === 'accepted') emit({ type: 'warning', message: UNCHECKED });
    if (answer === 'rejected') checkedUntil = at + CHECKED_FOR_MS;
    return answer === 'rejected';
  });

  /** An engine that accepts everything proves nothing, so it must have rejected first. */
  const checksLogins = async () => clock.now() < checkedUntil || rejectsMadeUpLogin();

  return createPasswordAuthenticator(options, {
    atOnce: 8,
    trust: { verifiedFor, since: 'check', believedFor },
    // The engine decides which letters they are.
    principalOf: ({ nameAsSent }) => principalOf(nameAsSent),
    // Directories accept an empty password as an anonymous login (RFC 4513 §5.1.2).
    mayCheck: (password) => password !== '',
    async check({ authorization, nameAsSent }) {
      const answer = await ask(authorization);
      if (answer === 'rejected') return 'wrong';
      if (answer === 'away') return 'away';
      if (answer === 'unavailable' || !(await checksLogins())) return 'unavailable';
      known.set(nameAsSent, true);
      return 'right';
    },
    users: {
      // The engine does not list its users.
      accounts: { get: () => 'engine', has: (name) => known.has(name) },
      lookAlikes: { has: () => true },
    },
    close: () => closing.abort(),
  });
}
