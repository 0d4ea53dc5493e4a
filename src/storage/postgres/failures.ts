import { DatabaseError } from 'pg';

/** The connection broke, or its end was announced: nothing more can be asked on it. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost';

  constructor(cause: unknown) {
    super('The connection to PostgreSQL was lost.', { cause });
  }
}

/** No answer came in time. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';

  constructor() {
    super('PostgreSQL did not answer in time.');
  }
}

/** Classes and codes of SQLSTATE (PostgreSQL manual, appendix A) that may be gone at the next try. */
const PASSING = [
  '08', // connection exception
  '25006', // read-only: a standby, or a server under maintenance
  '25P03', // idle in a transaction for too long
  '40', // rolled back: deadlock, serialization
  '53', // out of disk, memory, connections
  '55P03', // a lock was not free in time
  '57', // cancelled by a timeout, shutting down, starting
  '58', // system error
];

/** With these the server says that it ends the connection. The severity does not tell: it may be translated. */
const LAST_WORDS = /^(?:08|57P|25P03)/;

/** What ended a connection, as `ConnectionLost`; what the server answered instead of a result, as it is. */
export function statementFailure(error: unknown): unknown {
  const answered = error instanceof DatabaseError && !LAST_WORDS.test(error.code ?? '');
  return answered ? error : new ConnectionLost(error);
}

/** Whether the storage is not to be had now, rather than asked something wrong. */
export function isPassing(error: unknown): boolean {
  if (error instanceof ConnectionLost || error instanceof NoAnswer) return true;
  return error instanceof DatabaseError && PASSING.some((code) => error.code?.startsWith(code));
}

/** Whether PostgreSQL answered with one of these codes of SQLSTATE. */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof DatabaseError && error.code !== undefined && codes.includes(error.code);
}

const TLS_PROBLEM = /^(?:CERT_|ERR_TLS_|ERR_SSL_|ERR_OSSL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/;

/**
 * Why only an operator can make connections possible, in one line; undefined when they may become possible by
 * themselves. Never holds the password.
 */
export function connectionProblem(error: unknown): string | undefined {
  if (!Error.isError(error)) return undefined;
  const code = 'code' in error ? String(error.code) : '';
  const text = oneLine(error.message);
  // 28: login refused, 3D000: no such database, 42501: no right to connect to it
  if (/^28|^3D000$|^42501$/.test(code)) return `it refuses the login: ${text}`;
  if (TLS_PROBLEM.test(code)) return `its certificate or the encryption does not fit: ${text}`;
  if (/\bSSL\b|\bSASL\b/.test(text)) return text;
  return undefined;
}

export function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').trim();
}
