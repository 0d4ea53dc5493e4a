import { API_REASONS, GATEWAY_REASONS, type ApiReason, type GatewayReason } from './reasons.ts';

interface ErrorOptions {
  readonly cause?: unknown;
  /** Seconds. */
  readonly retryAfter?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** The code of XMLA that a SOAP Fault carries, an unsigned decimal. */
  readonly faultCode?: string;
  /** What programs are told beside word and text, where the failure is answered as JSON. */
  readonly details?: Readonly<Record<string, unknown>>;
}

const WORDS = { ...GATEWAY_REASONS, ...API_REASONS };

/** Answered in the shape that the path's protocol expects. */
abstract class AnsweredError<Reason extends GatewayReason | ApiReason> extends Error {
  readonly reason: Reason;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly faultCode: ErrorOptions['faultCode'];
  readonly details: ErrorOptions['details'];

  constructor(reason: Reason, message: string, options: ErrorOptions = {}) {
    const { stackTraceLimit } = Error;
    // What a client is told has no use for its stack, and making that took most of the time of a refusal.
    Error.stackTraceLimit = 0;
    super(message, { cause: options.cause });
    Error.stackTraceLimit = stackTraceLimit;
    this.reason = reason;
    [this.status] = WORDS[reason];
    this.faultCode = options.faultCode;
    this.details = options.details;
    this.headers = {
      ...options.headers,
      ...(options.retryAfter !== undefined && { 'retry-after': String(options.retryAfter) }),
    };
  }
}

/** A failure that can end a request on any path. */
export class GatewayError extends AnsweredError<GatewayReason> {
  override readonly name = 'GatewayError';
}

/** A failure of the role and dataset API. */
export class ApiError extends AnsweredError<ApiReason> {
  override readonly name: string = 'ApiError';
}

export class StorageUnavailable extends ApiError {
  override readonly name = 'StorageUnavailable';
  /** Whether it is certain that nothing was changed. */
  readonly outcome: 'nothing-done' | 'unknown';

  constructor(
    outcome: 'nothing-done' | 'unknown',
    cause: unknown,
    message = outcome === 'nothing-done'
      ? 'The storage cannot be reached; nothing was changed.'
      : 'The storage did not answer; whether the change was made is not known.',
  ) {
    super('storage-unavailable', message, { cause, retryAfter: 5 });
    this.outcome = outcome;
  }
}

/** What an error says. */
export const messageOf = (error: unknown): string =>
  Error.isError(error) ? error.message : String(error);

/** As OpenSSL names certificates of authorities that are not trusted (X509_V_ERR_…). */
const UNTRUSTED =
  /^(?:DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_GET_ISSUER_CERT(?:_LOCALLY)?|UNABLE_TO_VERIFY_LEAF_SIGNATURE)$/;

/**
 * What an operator is to do about a server whose certificate is not trusted, where Node.js would name its own flags.
 * @param code of the error of Node.js
 * @param setting that names the file of an authority, such as `engine.ca`
 * @returns undefined for any other error
 */
export const unknownAuthority = (code: string, setting: string) =>
  UNTRUSTED.test(code)
    ? `its certificate is of an authority that is not known; name a PEM file with that authority (of a self-signed certificate, itself) as ${setting}`
    : undefined;

/**
 * The same for all that keeps a connection to an HTTP server from being made. `ca`, `url`: the names of these settings.
 * @returns undefined where the message of the error says it
 */
export function connectionTrouble(
  error: NodeJS.ErrnoException,
  settings: Readonly<Record<'ca' | 'url', string>>,
): string | undefined {
  const { code = '', message } = error;
  if (message.includes('wrong version number')) {
    // As OpenSSL tells what is no TLS. Node.js has no code for it alone.
    return `what answers there does not speak TLS; for plain HTTP ${settings.url} begins with http://`;
  }
  if (message === '' && error instanceof AggregateError) {
    // Of a host with several addresses.
    return error.errors.map((one: Error) => one.message).join('; ');
  }
  return unknownAuthority(code, settings.ca);
}
