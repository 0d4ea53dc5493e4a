import { API_REASONS, GATEWAY_REASONS, type ApiReason, type GatewayReason } from './reasons.ts';

interface ErrorOptions {
  readonly cause?: unknown;
  /** Seconds. */
  readonly retryAfter?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** XMLA code of the SOAP Fault, an unsigned decimal. */
  readonly faultCode?: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

const WORDS = { ...GATEWAY_REASONS, ...API_REASONS };

abstract class AnsweredError<Reason extends GatewayReason | ApiReason> extends Error {
  readonly reason: Reason;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly faultCode: ErrorOptions['faultCode'];
  readonly details: ErrorOptions['details'];

  constructor(reason: Reason, message: string, options: ErrorOptions = {}) {
    const { stackTraceLimit } = Error;
    // Clients need no stack, which took most of the time of a refusal.
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

export class GatewayError extends AnsweredError<GatewayReason> {
  override readonly name = 'GatewayError';
}

export const clientGone = (what = 'went away') =>
  new GatewayError('client-gone', `The client ${what}.`);

/** No connection to the engine, or no byte of an answer: an entry past its ttl may answer. */
export class EngineFailure extends GatewayError {}

/** @throws any other error */
export function asEngineFailure(error: unknown): EngineFailure {
  if (error instanceof EngineFailure) return error;
  throw error;
}

export class ApiError extends AnsweredError<ApiReason> {
  override readonly name: string = 'ApiError';
}

export class StorageUnavailable extends ApiError {
  override readonly name = 'StorageUnavailable';
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

export const messageOf = (error: unknown): string =>
  Error.isError(error) ? error.message : String(error);

/** Codes of OpenSSL for certificates that are not trusted (X509_V_ERR_…). */
const UNTRUSTED =
  /^(?:DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_GET_ISSUER_CERT(?:_LOCALLY)?|UNABLE_TO_VERIFY_LEAF_SIGNATURE)$/;

/** Advice on an untrusted certificate, where Node.js would name its own flags. */
export const unknownAuthority = (code: string, setting: string) =>
  UNTRUSTED.test(code)
    ? `its certificate is of an authority that is not known; name a PEM file with that authority (of a self-signed certificate, itself) as ${setting}`
    : undefined;

/** Undefined where the message of the error says why no connection was made. */
export function connectionTrouble(
  error: NodeJS.ErrnoException,
  settings: Readonly<Record<'ca' | 'url', string>>,
): string | undefined {
  const { code = '', message } = error;
  if (message.includes('wrong version number')) {
    // Text of OpenSSL, for which Node.js has no code.
    return `what answers there does not speak TLS; for plain HTTP ${settings.url} begins with http://`;
  }
  if (message === '' && error instanceof AggregateError) {
    return error.errors.map((one: Error) => one.message).join('; ');
  }
  return unknownAuthority(code, settings.ca);
}
