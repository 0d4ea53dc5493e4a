import { parse } from 'basic-auth';
import { isAscii, isUtf8 } from 'node:buffer';
import type { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Clock } from '../common/clock.ts';
import { clientGone, EngineFailure, GatewayError } from '../common/errors.ts';
import type { Emit } from '../common/events.ts';
import { basicOf, type Credentials, inLatin1, type Principal } from '../common/principal.ts';
import { createCheckLine, type Place } from './check-line.ts';
import { type AskLeave, clientNetwork, createLoginThrottle, leaveOf } from './login-throttle.ts';
import {
  createVerifiedCredentials,
  createVerifiedTable,
  type Trust,
  type VerifiedTable,
} from './verified-credentials.ts';

/**
 * @param id of the request, for the log
 * @throws GatewayError `unauthenticated`, `throttled`, `login-queue`, `client-gone`, or
 *   `engine-unreachable` if the engine checks; errors of the check
 */
export type Login = (request: IncomingMessage, id: string) => Principal | Promise<Principal>;

type CheckOutcome = 'right' | 'wrong' | 'unavailable' | 'away';

/** Port: checks passwords, `atOnce` at one time. */
export interface PasswordCheck {
  readonly atOnce: number;
  readonly trust: Trust;
  principalOf(credentials: ReadCredentials): Principal;
  /** False if it cannot be checked for certain. */
  mayCheck(password: string): boolean;
  check(credentials: ReadCredentials): Promise<CheckOutcome>;
  /** Tables, since every hit asks them. */
  readonly users: {
    /** Proofs of right credentials, which stay verified while the proof is the same value. */
    readonly accounts: Pick<ReadonlyMap<string, unknown>, 'get' | 'has'>;
    /** Names that differ from another user's only in letter case or Unicode form. */
    readonly lookAlikes: Pick<ReadonlySet<string>, 'has'>;
  };
  close(): void;
}

export interface LoginOptions {
  readonly verified?: VerifiedTable | undefined;
  readonly clock: Pick<Clock, 'now'>;
  readonly random: (bytes: number) => Uint8Array;
  readonly emit: Emit;
  readonly askLeave?: AskLeave | undefined;
}

/** A password that changes twice during its check is refused. */
const ATTEMPTS_WHEN_PROOF_CHANGES = 2;

/** `connection`: its `close` says that no answer is wanted. */
type Caller = Readonly<Record<'id' | 'address', string>> & { readonly connection?: EventEmitter };
type Checked = ReadCredentials & { readonly digest: string; readonly principal: Principal };
type Attempt = Checked & Caller;

export type Authenticator = ReturnType<typeof createPasswordAuthenticator>;

/** Checks HTTP Basic logins (RFC 7617). Concurrent equal headers of one client are one attempt. */
export function createPasswordAuthenticator(options: LoginOptions, check: PasswordCheck) {
  const { clock, emit, askLeave = leaveOf(createLoginThrottle(options)) } = options;
  const { users, trust } = check;
  const table = options.verified ?? createVerifiedTable(options.random(32));
  const verified = createVerifiedCredentials({ table, trust, users, clock });
  const line = createCheckLine(check.atOnce, clock);
  const checks = new Map<string, ReturnType<typeof checkAgain>>();
  const flights = new Map<string, ReturnType<typeof createFlight>>();
  const refusal = createRefusal(users, emit);
  let closed = false;

  /** Equal for all spellings of a header, which so share a check and an entry of the table. */
  const digestOf = (header: string) =>
    verified.digest(header.length > MAX_HEADER_LENGTH ? header : header.replace(SCHEME, 'Basic '));

  /** The proof may change during the check; the one at its end counts. */
  async function verify(attempt: Checked): Promise<CheckOutcome | 'failed'> {
    const { principal, digest } = attempt;
    for (let count = 0; count < ATTEMPTS_WHEN_PROOF_CHANGES; count += 1) {
      if (closed) break;
      const proof = users.accounts.get(principal.name);
      // The engine may look at its users when it is asked; nothing is proved of later.
      const at = clock.now();
      const outcome = await check.check(attempt);
      if (closed || users.accounts.get(principal.name) !== proof) continue;
      if (outcome === 'right') verified.remember(digest, principal, proof, at);
      if (outcome === 'wrong') verified.forget(digest);
      return outcome;
    }
    return 'failed';
  }

  /** Checks again what was right before, ahead of all others and once for all who wait for it. */
  function checkAgain(attempt: Checked): Promise<CheckOutcome | 'failed'> {
    const { digest } = attempt;
    const underWay = checks.get(digest);
    if (underWay !== undefined) return underWay;
    const leaving = new AbortController();
    const place = { network: undefined, bytes: bytesOf(attempt), leaving, throttled };
    const begun = line.check(place, () => verify(attempt)).finally(() => checks.delete(digest));
    checks.set(digest, begun);
    return begun;
  }

  const tryFirst = createFirstTry(askLeave, line, verify, refusal);
  async function login(attempt: Attempt, inLine: () => AbortController): Promise<Principal> {
    // These users must get in while others guess.
    const wasRight = verified.wasRight(attempt.digest);
    const outcome = await (wasRight ? checkAgain(attempt) : tryFirst(attempt, inLine));
    if (outcome === 'right') return attempt.principal;
    if (outcome === 'away') throw new EngineFailure('engine-unreachable', UNAVAILABLE);
    if (outcome === 'unavailable') throw new GatewayError('engine-unreachable', UNAVAILABLE);
    throw refusal(attempt, 'rejected');
  }

  return {
    /** Returns a recently verified login without a promise. @throws as {@link Login} */
    authenticate(authorization: string | undefined, caller: Caller): ReturnType<Login> {
      // Browsers send their first request without a login.
      if (closed || !authorization) throw unauthenticated();
      const digest = digestOf(authorization);
      const remembered = verified.find(digest);
      if (remembered?.counts()) return remembered.principal;
      const credentials = readBasicCredentials(authorization);
      if (typeof credentials === 'string') throw refusal(caller, 'malformed', { why: credentials });
      const principal = check.principalOf(credentials);
      const attempt: Attempt = { ...credentials, ...caller, principal, digest };
      if (!check.mayCheck(attempt.password)) throw refusal(attempt, 'malformed', UNCHECKABLE);
      const key = `${digest} ${clientNetwork(caller.address)}`;
      const logIn = (inLine: () => AbortController) =>
        login(attempt, inLine).finally(() => flights.delete(key));
      const join = flights.get(key) ?? createFlight(logIn);
      flights.set(key, join);
      return join(caller.connection);
    },
    waiting: line.waiting,
    /** The verified login of a header, if it is good for a hit at least. */
    remembered: (authorization: string) => verified.find(digestOf(authorization)),
    /** Checks a login again in the background: no attempt of its user, and no request waits. */
    checkBehind(authorization: string): void {
      const digest = digestOf(authorization);
      const credentials = readBasicCredentials(authorization);
      const end = typeof credentials === 'string' ? undefined : verified.beginTry(digest);
      if (typeof credentials === 'string' || end === undefined) return;
      const principal = check.principalOf(credentials);
      checkAgain({ ...credentials, principal, digest }).then(end, end);
    },
    kept: (): Pick<LoginOptions, 'verified'> => ({ verified: table }),
    /** True if a comparison without letter case might take it for another user's name. */
    isLookAlike: (name: string) => users.lookAlikes.has(name),
    async close(): Promise<void> {
      closed = true;
      check.close();
      verified.close();
    },
  };
}

/** Tries new credentials. An attempt counts as failed while it is under way. */
function createFirstTry(
  askLeave: AskLeave,
  line: ReturnType<typeof createCheckLine>,
  verify: (attempt: Checked) => Promise<CheckOutcome | 'failed'>,
  refusal: ReturnType<typeof createRefusal>,
) {
  return async function tryFirst(attempt: Attempt, inLine: () => AbortController) {
    const { principal, address } = attempt;
    const network = clientNetwork(address);
    const settle = await askLeave(principal.owner, address);
    if (typeof settle === 'number') throw refusal(attempt, 'throttled', { retryAfter: settle });
    const place: Place = {
      network,
      bytes: bytesOf(attempt),
      leaving: inLine(),
      throttled: (retryAfter) => refusal(attempt, 'throttled', { retryAfter }),
    };
    let ended: Parameters<typeof settle>[0] = 'abandoned';
    try {
      const outcome = await line.check(place, () => verify(attempt));
      if (outcome === 'right') ended = 'succeeded';
      if (outcome === 'wrong') ended = 'failed';
      return outcome;
    } finally {
      if (ended !== 'abandoned') line.ended(network, ended === 'succeeded');
      void settle(ended).then((wait) => wait > 0 && line.throttle(network, wait));
    }
  };
}

function createFlight(login: (inLine: () => AbortController) => Promise<Principal>) {
  let clients = 0;
  /** Undefined until the attempt stands in the line: others may join. */
  let leaving: AbortController | undefined;
  const look = () => {
    if (clients === 0) leaving?.abort(clientGone());
  };
  const inLine = () => {
    leaving = new AbortController();
    look();
    return leaving;
  };
  const answer = login(inLine);
  return (connection?: EventEmitter) => {
    clients += 1;
    const leave = () => {
      clients -= 1;
      look();
    };
    connection?.once('close', leave);
    return answer.finally(() => connection?.off('close', leave));
  };
}

/** Tells a name only if there is such a user: another may be a password in the wrong field. */
const createRefusal =
  (users: Pick<PasswordCheck['users'], 'accounts'>, emit: Emit) =>
  (
    { id, address, principal }: Caller & Partial<Pick<Attempt, 'principal'>>,
    reason: 'malformed' | 'rejected' | 'throttled',
    { why, retryAfter }: { readonly why?: string; readonly retryAfter?: number } = {},
  ): GatewayError => {
    const user = principal && users.accounts.has(principal.name) ? principal.name : undefined;
    emit({ type: 'login-refused', id, reason, why, user, address });
    return retryAfter === undefined ? unauthenticated() : throttled(retryAfter);
  };

/** One text for every reason, so that it does not reveal user names. */
export function unauthenticated(): GatewayError {
  const text =
    'A valid user name and password are needed, in the header Authorization (HTTP Basic authentication).';
  return new GatewayError('unauthenticated', text, {
    // RFC 9110 §11.6.1; the parameter charset: RFC 7617 §2.1.
    headers: { 'www-authenticate': 'Basic realm="mdx-gateway", charset="UTF-8"' },
  });
}

export const throttled = (retryAfter: number): GatewayError =>
  new GatewayError('throttled', 'Too many failed logins. Try again later.', { retryAfter });

const bytesOf = ({ authorization }: Checked) => 4 * authorization.length + 1024;

const UNAVAILABLE =
  'The login could not be checked, because the engine that knows the users did not say. Try again later.';

export const MAX_HEADER_LENGTH = 4096;

const SCHEME = /^ *basic +/i;
const BASIC = /^ *basic +([A-Za-z0-9+/]+={0,2}) *$/i;
/** Cc holds the CTL of RFC 5234 (barred by RFC 7617 §2) and the C1 controls (by RFC 8265). */
const CONTROL = /\p{Cc}/u;
const UNCHECKABLE = { why: 'its password is one that cannot be checked' };

export interface ReadCredentials extends Credentials {
  /** A client writes both in one encoding. */
  readonly encoding: 'utf-8' | 'iso-8859-1';
  /** The name by its bytes: different bytes are different texts. */
  readonly nameAsSent: string;
  /** The bytes in the header spelling that every server reads. */
  readonly authorization: string;
}

/**
 * Reads Basic credentials (RFC 7617): padded standard base64 (RFC 4648 §4), a user name, no control
 * characters; so one pair has one token in each encoding. Older clients write ISO-8859-1.
 * @returns why they cannot be read, for the log
 */
export function readBasicCredentials(authorization: string): ReadCredentials | string {
  if (authorization.length > MAX_HEADER_LENGTH)
    return `longer than ${MAX_HEADER_LENGTH} characters`;
  if (!/^ *basic(?: |$)/i.test(authorization)) return 'another scheme than Basic';
  const token = BASIC.exec(authorization)?.[1];
  const bytes = Buffer.from(token ?? '', 'base64');
  // The decoder skips unknown characters; encoding again shows that.
  if (token === undefined || bytes.toString('base64') !== token) return 'no padded base64';
  const encoding = isUtf8(bytes) ? 'utf-8' : 'iso-8859-1';
  const text = bytes.toString(encoding === 'utf-8' ? encoding : 'latin1');
  // The library reads UTF-8.
  const { name = '', pass: password = '' } = parse(basicOf(Buffer.from(text))) ?? {};
  if (name === '') return 'no user name with a colon behind it';
  if (CONTROL.test(name + password)) return 'a control character';
  // An engine may read both in one encoding.
  const isPlain = encoding === 'utf-8' || isAscii(Buffer.from(name));
  const nameAsSent = isPlain ? name : inLatin1(name);
  return { name, password, encoding, nameAsSent, authorization: basicOf(bytes) };
}

export function canonicalAuthorization(authorization = ''): string | undefined {
  const read = readBasicCredentials(authorization);
  return typeof read === 'string' ? undefined : read.authorization;
}

export type Permissions = ReturnType<typeof createPermissions>;
type UserLists = Readonly<Record<'admins' | 'viewers' | 'purgers', readonly string[]>>;

export function createPermissions(
  { admins, viewers, purgers }: UserLists,
  controlling: 'nobody' | 'purgers' | 'everybody',
) {
  const administering = new Set(admins);
  const viewing = administering.union(new Set(viewers));
  const purging = administering.union(new Set(purgers));
  return {
    mayAdminister: ({ name }: Principal) => administering.has(name),
    mayView: ({ name }: Principal) => viewing.has(name),
    mayPurge: ({ name }: Principal) => purging.has(name),
    mayControlCache: ({ name }: Principal) =>
      controlling === 'everybody' || (controlling === 'purgers' && purging.has(name)),
    rightsOf: ({ name }: Principal) => ({
      administer: administering.has(name),
      view: viewing.has(name),
      purge: purging.has(name),
    }),
  };
}
