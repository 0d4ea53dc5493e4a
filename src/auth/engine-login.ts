import { LRUCache } from 'lru-cache';
import type { Clock } from '../clock.ts';
import type { Authenticator } from './authenticator.ts';
import { basicAuthorization } from './canonical-authorization.ts';
import { createCheckLine } from './check-line.ts';
import type { LoginAdmission } from './login-admission.ts';
import { createPasswordAuthenticator, type LoginRefused } from './password-authenticator.ts';
import type { CheckOutcome, Credentials, PasswordCheck } from './password-check.ts';

/**
 * Port: tries a login at the engine.
 * @param authorization a header Authorization of Basic credentials (RFC 7617)
 * @returns `unavailable` when the engine did not say; it may reject, which means the same
 */
export type TryLogin = (
  authorization: string,
  signal: AbortSignal,
) => Promise<'accepted' | 'rejected' | 'unavailable'>;

export type EngineLoginEvent =
  | LoginRefused
  /** The engine accepts a login that nobody has. It checks none, so that nobody is let in. */
  | { readonly type: 'logins-unchecked' };

export interface EngineAuthenticatorOptions {
  readonly tryLogin: TryLogin;
  /** For how long verified credentials are believed without asking the engine, in milliseconds; 0: never. */
  readonly verifiedFor: number;
  readonly clock: Pick<Clock, 'now'>;
  /** Gives that many random bytes, fit for keys. */
  readonly random: (bytes: number) => Uint8Array;
  /** Called for every event. What it throws is lost: a login does not fail for it. */
  readonly onEvent?: (event: EngineLoginEvent) => void;
  /** Default: a throttle of its own. */
  readonly admission?: LoginAdmission | undefined;
}

/** Logins that are tried at one time: the engine has queries to answer. */
const TRIALS_AT_ONCE = 8;

/** Names of which it is remembered that the engine has such a user. */
const MAX_KNOWN = 10_000;

/** For how long an engine that refused a login of nobody's is taken to check logins (ms). */
const CHECKED_FOR = 3_600_000;

/** There is nothing here that could change: what an engine knows of its users it does not tell. */
const PROOF = 'engine';

/**
 * Checks HTTP Basic logins by trying them at the engine. Names are those of the credentials, exactly as sent:
 * where the engine takes `admin` and `ADMIN` for one user, they are two here.
 */
export function createEngineAuthenticator({
  tryLogin,
  verifiedFor,
  clock,
  random,
  onEvent = () => {},
  admission,
}: EngineAuthenticatorOptions): Authenticator {
  const emit = (event: EngineLoginEvent): void => {
    try {
      onEvent(event);
    } catch {
      // A listener's fault is not the client's.
    }
  };
  const check = createEngineCheck({ tryLogin, clock, random, onEvent: emit });
  return createPasswordAuthenticator({
    check,
    verifiedFor,
    clock,
    random,
    onEvent: emit,
    admission,
  });
}

function createEngineCheck({
  tryLogin,
  clock,
  random,
  onEvent,
}: Required<Omit<EngineAuthenticatorOptions, 'verifiedFor' | 'admission'>>): PasswordCheck {
  const line = createCheckLine({ atOnce: TRIALS_AT_ONCE });
  const known = new LRUCache<string, true>({ max: MAX_KNOWN });
  const closing = new AbortController();

  const ask: (credentials: Credentials) => ReturnType<TryLogin> = async (credentials) => {
    if (closing.signal.aborted) return 'unavailable';
    return tryLogin(basicAuthorization(credentials), closing.signal).catch(() => 'unavailable');
  };
  const checksLogins = createStrangerTest({ ask, clock, random, onEvent });

  const attempt = async (credentials: Credentials): Promise<CheckOutcome> => {
    // The engine may look at its users as soon as it is asked; what it knew later is not proved.
    const at = clock.now();
    const answer = await ask(credentials);
    if (answer === 'rejected') return { kind: 'wrong' };
    if (answer === 'unavailable' || !(await checksLogins())) return { kind: 'unavailable' };
    known.set(credentials.name, true);
    return { kind: 'right', proof: PROOF, at };
  };

  return {
    // Directories take a name without a password for an anonymous login, and accept it (RFC 4513 §5.1.2).
    mayCheck: (password) => password !== '',
    async check(credentials, isKnown) {
      return (await line.run(() => attempt(credentials), isKnown)) ?? { kind: 'full' };
    },
    proofOf: () => PROOF,
    onChange: () => {},
    isKnown: (name) => known.has(name),
    // Nobody knows the other users of an engine.
    isLookAlike: () => true,
    close: () => closing.abort(),
  };
}

/**
 * Whether the engine checks logins at all: one that answers everybody would let everybody in under any name. So
 * before an acceptance counts, a login that nobody has must have been refused.
 */
function createStrangerTest({
  ask,
  clock,
  random,
  onEvent,
}: {
  readonly ask: (credentials: Credentials) => ReturnType<TryLogin>;
  readonly clock: Pick<Clock, 'now'>;
  readonly random: (bytes: number) => Uint8Array;
  readonly onEvent: (event: EngineLoginEvent) => void;
}): () => Promise<boolean> {
  let until = -Infinity;
  let underWay: Promise<boolean> | undefined;

  const test = async (): Promise<boolean> => {
    const at = clock.now();
    // The first part is for the operator who finds it in the log of the engine.
    const name = `mdx-gateway-test-${token(random)}`;
    const answer = await ask({ name, password: token(random) });
    if (answer === 'accepted') onEvent({ type: 'logins-unchecked' });
    if (answer === 'rejected') until = at + CHECKED_FOR;
    return answer === 'rejected';
  };

  return async () => {
    if (clock.now() < until) return true;
    underWay ??= test().finally(() => {
      underWay = undefined;
    });
    return underWay;
  };
}

function token(random: (bytes: number) => Uint8Array): string {
  return Buffer.from(random(12)).toString('hex');
}
