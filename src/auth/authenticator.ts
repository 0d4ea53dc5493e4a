import { parse } from 'basic-auth';
import { isUtf8 } from 'node:buffer';
import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit } from '../common/events.ts';
import {
  type AskLeave,
  clientNetwork,
  createLoginThrottle,
  leaveOf,
  UNCHARGED,
} from './login-throttle.ts';

/** A user whose credentials were checked, spelt as in the users file, or, where the engine checks, as in the credentials. */
export interface Principal {
  readonly name: string;
}

/**
 * Who sends this request; without a promise where that was checked a short time ago.
 * @throws GatewayError `unauthenticated`, `throttled`, or `engine-unreachable` when the engine checks logins
 */
export type Login = (request: IncomingMessage) => Principal | Promise<Principal>;

/** A login that was checked a short time ago. */
export interface RememberedLogin {
  readonly principal: Principal;
  /** Whether its header would still be answered with this principal and without a promise. */
  counts(): boolean;
}

/** `unavailable` says nothing of the password: the one who knows cannot be asked. */
type CheckOutcome = 'right' | 'wrong' | 'unavailable';

/** Port: where passwords are checked. */
export interface PasswordCheck {
  /** How many checks may run at one time. */
  readonly atOnce: number;
  /** False for a password that cannot be checked for certain; such a login is malformed. */
  mayCheck(password: string): boolean;
  /** Compares with what {@link PasswordCheck.users} hold at the call. Rejects when the check itself failed. */
  check(credentials: Credentials): Promise<CheckOutcome>;
  /** Those that may log in now, in tables, since every hit asks them. */
  readonly users: {
    /**
     * Of a name that is known here, what right credentials are compared with: verified ones count only while it is the
     * same value, by identity. Only a name that it `has` may be told to an operator.
     */
    readonly accounts: Pick<ReadonlyMap<string, unknown>, 'get' | 'has'>;
    /** Names of which another user's may differ in letter case or Unicode form only. */
    readonly lookAlikes: Pick<ReadonlySet<string>, 'has'>;
  };
  /** Ends what is under way, where that is possible. */
  close(): void;
}

/** What an authenticator needs, wherever passwords are checked. */
export interface LoginOptions {
  /** For how long verified credentials are believed without another check (ms); 0: never. */
  readonly verifiedFor: number;
  readonly clock: Pick<Clock, 'now'>;
  /** Gives that many random bytes, fit for keys. */
  readonly random: (bytes: number) => Uint8Array;
  /** No event holds a password or a hash. */
  readonly emit: Emit;
  /** Slows guessing. Default: a throttle of its own. */
  readonly askLeave?: AskLeave | undefined;
}

/** After a full line, room comes within a second or so. */
const RETRY_WHEN_LINE_IS_FULL = 1;
/** A password that changes twice during its check is refused; the client asks again. */
const ATTEMPTS_WHEN_PROOF_CHANGES = 2;

interface Attempt extends Credentials {
  /** Of the exact header value. */
  readonly digest: string;
  readonly address: string;
}

export type Authenticator = ReturnType<typeof createPasswordAuthenticator>;

/**
 * Checks HTTP Basic logins (RFC 7617): refuses what is malformed, remembers for a short time what was right, and slows
 * guessing. Requests that come at once with one header from one client share a check and count as one attempt.
 */
export function createPasswordAuthenticator(check: PasswordCheck, options: LoginOptions) {
  const { clock, emit, askLeave = leaveOf(createLoginThrottle(options)) } = options;
  const { users } = check;
  const verified = createVerifiedCredentials({ ...options, secret: options.random(32), users });
  const inTurn = createCheckLine(check.atOnce);
  const flights = new Map<string, Promise<Principal>>();
  let closed = false;

  /** The proof may change during a check: what counts is the one that the user has at the end. */
  async function verify(attempt: Attempt): Promise<CheckOutcome | 'failed'> {
    const { name, digest } = attempt;
    for (let count = 0; count < ATTEMPTS_WHEN_PROOF_CHANGES && !closed; count += 1) {
      const proof = users.accounts.get(name);
      // An engine may look at its users as soon as it is asked; what it knew later is not proved.
      const at = clock.now();
      const outcome = await check.check(attempt).catch((error: unknown) => {
        emit({ type: 'warning', message: 'a login could not be checked', error });
        return 'failed' as const;
      });
      if (closed || users.accounts.get(name) !== proof) continue;
      if (outcome === 'right') verified.remember(digest, name, proof, at);
      // From now on they are a guess like any other.
      if (outcome === 'wrong') verified.forget(digest);
      return outcome;
    }
    return 'failed';
  }

  async function login(attempt: Attempt): Promise<Principal> {
    const { name, digest, address } = attempt;
    // Credentials that were right before are no guess, and must work while others guess.
    const wasRight = verified.wasRight(digest);
    const leave = wasRight ? UNCHARGED : await askLeave(name, address);
    if (typeof leave === 'number') throw refusal(attempt, 'throttled', leave);
    const outcome = await inTurn(() => verify(attempt), wasRight);
    if (outcome === 'right') {
      leave('succeeded');
      return { name };
    }
    if (outcome !== 'wrong') leave('abandoned');
    if (outcome === undefined) throw refusal(attempt, 'throttled', RETRY_WHEN_LINE_IS_FULL);
    // Nothing was refused, so that nothing is told as a refusal, and no other password is asked for.
    if (outcome === 'unavailable') throw new GatewayError('engine-unreachable', UNAVAILABLE);
    throw refusal(attempt, 'rejected');
  }

  /** Tells a name only when there is such a user: another may be a password typed into the wrong field. */
  function refusal(
    { name, address }: Attempt,
    reason: 'malformed' | 'rejected' | 'throttled',
    retryAfter?: number,
  ): GatewayError {
    const user = users.accounts.has(name) ? name : undefined;
    emit({ type: 'login-refused', reason, user, address });
    return retryAfter === undefined ? unauthenticated() : throttled(retryAfter);
  }

  return {
    /**
     * Checks the value of a request header `Authorization`; without a promise when it was verified a short time ago,
     * because this stands on the path of every request.
     * @throws GatewayError `unauthenticated`, `throttled`, `engine-unreachable`
     */
    authenticate(
      authorization: string | undefined,
      address: string,
    ): Principal | Promise<Principal> {
      if (closed || authorization === undefined) throw unauthenticated();
      const digest = verified.digest(authorization);
      const remembered = verified.find(digest);
      if (remembered !== undefined) return remembered.principal;
      const credentials = parseBasicCredentials(authorization);
      if (credentials === undefined) throw unauthenticated();
      const attempt: Attempt = { ...credentials, digest, address };
      if (!check.mayCheck(attempt.password)) throw refusal(attempt, 'malformed');
      const key = `${digest} ${clientNetwork(address)}`;
      const flight = flights.get(key) ?? login(attempt).finally(() => flights.delete(key));
      flights.set(key, flight);
      return flight;
    },
    /**
     * The login of a header that was verified a short time ago, for callers that see it many times: it costs a digest
     * once, and then a look at the clock each time. Undefined when the header must be checked.
     */
    remembered: (authorization: string) => verified.find(verified.digest(authorization)),
    /** Whether what compares names without regard to case, as roles do, might take this one for another user's. */
    isLookAlike: (name: string) => users.lookAlikes.has(name),
    /** Ends what is under way, and forgets everything. */
    async close(): Promise<void> {
      closed = true;
      check.close();
      verified.clear();
    },
  };
}

/** One text for every reason, so that no client learns which user names exist. */
export function unauthenticated(): GatewayError {
  const text = 'A valid user name and password are needed (HTTP Basic authentication).';
  return new GatewayError('unauthenticated', text, {
    // RFC 9110 §11.6.1; the parameter charset: RFC 7617 §2.1.
    headers: { 'www-authenticate': 'Basic realm="mdx-gateway", charset="UTF-8"' },
  });
}

/** @param retryAfter seconds after which the client may try again */
export const throttled = (retryAfter: number): GatewayError =>
  new GatewayError('throttled', 'Too many failed logins. Try again later.', { retryAfter });

const UNAVAILABLE =
  'The login could not be checked, because the engine that knows the users did not say. Try again later.';

/** Longest header value that is read, in characters. */
export const MAX_HEADER_LENGTH = 4096;

/** Well-formed credentials, exactly as they were sent. */
export interface Credentials {
  readonly name: string;
  readonly password: string;
}

const BASIC = /^ *basic +([A-Za-z0-9+/]+={0,2}) *$/i;
/** Cc holds the CTL of RFC 5234, forbidden by RFC 7617 §2, and the C1 controls, forbidden by RFC 8265. */
const CONTROL = /\p{Cc}/u;

/**
 * Reads a header `Authorization` as Basic credentials (RFC 7617) in UTF-8. Stricter than the npm package that takes it
 * apart: the token is padded standard base64 (RFC 4648 §4), the bytes are valid UTF-8, the user name is not empty, and
 * neither part holds a control character. So one pair of name and password has one token. Names are kept as spelt.
 * @returns undefined for another scheme, and for what cannot be read
 */
export function parseBasicCredentials(authorization: string): Credentials | undefined {
  if (authorization.length > MAX_HEADER_LENGTH) return undefined;
  const token = BASIC.exec(authorization)?.[1];
  if (token === undefined) return undefined;
  const bytes = Buffer.from(token, 'base64');
  // The decoder skips what it does not know; encoding again shows whether it skipped anything.
  if (bytes.toString('base64') !== token || !isUtf8(bytes)) return undefined;
  const { name = '', pass: password = '' } = parse(authorization) ?? {};
  return name === '' || CONTROL.test(name + password) ? undefined : { name, password };
}

/**
 * Basic credentials in the one spelling that every server reads: some take a header that is spelt otherwise, by its
 * scheme or its spaces, for none. Undefined for what is no Basic credentials.
 */
export function canonicalAuthorization(authorization = ''): string | undefined {
  const credentials = parseBasicCredentials(authorization);
  return credentials && basicAuthorization(credentials);
}

/** The header `Authorization` of these credentials. */
export const basicAuthorization = ({ name, password }: Credentials): string =>
  `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;

/**
 * Remembers verified credentials under a keyed digest, so that not every request costs a check. The time runs from the
 * check and is not extended by use. An entry counts only while its user has the very proof it was compared with, so a
 * user that was changed or removed is out at once.
 * @param secret random bytes of this process, so that a digest is worth nothing anywhere else
 * @param max the longest unused entry makes room; each is a few hundred bytes
 */
export function createVerifiedCredentials({
  secret,
  verifiedFor,
  users,
  clock,
  max = 10_000,
}: Pick<LoginOptions, 'verifiedFor' | 'clock'> & {
  readonly secret: Uint8Array;
  readonly users: { readonly accounts: Pick<ReadonlyMap<string, unknown>, 'get'> };
  readonly max?: number;
}) {
  const entries = new LRUCache<string, RememberedLogin & { readonly proof: unknown }>({ max });
  const key = Buffer.from(secret).toString('base64');

  const current = (digest: string) => {
    const entry = entries.get(digest);
    return entry && users.accounts.get(entry.principal.name) === entry.proof ? entry : undefined;
  };

  return {
    /**
     * SHA-256 of the secret and the exact header value: what stands here instead of the password. An HMAC, which is
     * slower, guards digests that others see and could extend; these never leave the process.
     */
    digest: (authorization: string) => hash('sha256', key + authorization, 'base64url'),
    /** The login of these credentials, if they were verified less than `verifiedFor` ago. */
    find(digest: string): RememberedLogin | undefined {
      const entry = entries.get(digest);
      return entry?.counts() ? entry : undefined;
    },
    /** Whether these credentials, at any time, were right by the proof that the user still has: they are no guess. */
    wasRight: (digest: string) => current(digest) !== undefined,
    /** Keeps credentials that were found right by comparing them with this proof, `at` that time. */
    remember(digest: string, name: string, proof: unknown, at: number): void {
      if (verifiedFor <= 0) return;
      const entry = Object.freeze({
        principal: Object.freeze({ name }),
        proof,
        // By the entry itself, not by its name: one that was forgotten and verified anew is another check.
        counts: () => current(digest) === entry && clock.now() < at + verifiedFor,
      });
      entries.set(digest, entry);
    },
    /** Forgets credentials that turned out wrong. */
    forget: (digest: string) => void entries.delete(digest),
    clear: () => entries.clear(),
  };
}

/**
 * Keeps a flood of logins from taking every thread, or every place at an engine.
 * @param atOnce checks that run at one time
 * @param waiting checks that may wait; comparisons of cost 10, two at one time, let the last of 64 wait two seconds
 */
export function createCheckLine(atOnce: number, waiting = 64) {
  const preferredLine: (() => void)[] = [];
  const commonLine: (() => void)[] = [];
  let running = 0;

  /**
   * Runs a check when it is its turn.
   * @param preferred goes before all that are not, and finds room in a full line: for credentials that were right
   *   before, so that a flood of guesses does not put out those who work
   * @returns undefined, at once, when the line is full; otherwise what the check says
   */
  return async <T>(check: () => Promise<T>, preferred: boolean): Promise<T | undefined> => {
    if (running < atOnce) running += 1;
    else if (!preferred && commonLine.length >= waiting) return undefined;
    else await new Promise<void>((go) => void (preferred ? preferredLine : commonLine).push(go));
    try {
      return await check();
    } finally {
      const next = preferredLine.shift() ?? commonLine.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}

export type Permissions = ReturnType<typeof createPermissions>;

/**
 * What a principal may do beyond querying and reading. Names count exactly as spelt, like those of the users file.
 * @param lists `auth.admins` and `auth.purgers`
 * @param controlling `cache.client_control`
 */
export function createPermissions(
  { admins, purgers }: { readonly admins: readonly string[]; readonly purgers: readonly string[] },
  controlling: 'nobody' | 'purgers' | 'everybody',
) {
  const administering = new Set(admins);
  const purging = administering.union(new Set(purgers));
  return {
    /** Change roles and datasets, and purge. */
    mayAdminister: ({ name }: Principal) => administering.has(name),
    /** Purge the cache. Every administrator may. */
    mayPurge: ({ name }: Principal) => purging.has(name),
    /** Have the cache passed by or renewed for a request, by its header Cache-Control. */
    mayControlCache: ({ name }: Principal) =>
      controlling === 'everybody' || (controlling === 'purgers' && purging.has(name)),
  };
}
