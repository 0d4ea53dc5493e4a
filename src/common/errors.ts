import type { ApiReason, GatewayReason } from './reasons.ts';

/** HTTP status of each failure that the gateway answers by itself. */
export const GATEWAY_STATUS: Readonly<Record<GatewayReason, number>> = {
  unauthenticated: 401,
  throttled: 429,
  'bad-request': 400,
  'not-found': 404,
  forbidden: 403,
  'purge-failed': 503,
  'engine-not-cleared': 502,
  'identity-refused': 403,
  // Engines send a Fault with 200, and clients look for it there.
  'unknown-session': 200,
  'session-unavailable': 503,
  'method-not-allowed': 405,
  'too-big': 413,
  'content-coding': 415,
  overloaded: 503,
  'engine-unreachable': 502,
  'engine-login': 502,
  'engine-timeout': 504,
  'client-gone': 499,
  internal: 500,
};

/** HTTP status of each failure of the role and dataset API. */
export const API_STATUS: Readonly<Record<ApiReason, number>> = {
  'media-type': 415,
  'no-such-role': 404,
  'not-a-member': 404,
  'no-such-dataset': 404,
  'name-taken': 409,
  'already-member': 409,
  'dataset-exists': 409,
  'built-in-role': 409,
  'storage-unavailable': 503,
  'not-cleared': 503,
};

export interface ErrorOptions {
  readonly cause?: unknown;
  /** Seconds. */
  readonly retryAfter?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** The code of XMLA that a SOAP Fault carries, an unsigned decimal. */
  readonly faultCode?: string;
  /** What programs are told beside word and text, where the failure is answered as JSON. */
  readonly details?: Readonly<Record<string, unknown>>;
}

/** A failure that is answered in the shape that the path's protocol expects. */
abstract class AnsweredError<Reason extends string> extends Error {
  readonly reason: Reason;
  readonly status: number;
  /** Headers that belong to the answer, such as Allow and Retry-After. */
  readonly headers: Readonly<Record<string, string>>;
  readonly faultCode: string | undefined;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(reason: Reason, status: number, message: string, options: ErrorOptions) {
    super(message, { cause: options.cause });
    this.reason = reason;
    this.status = status;
    this.faultCode = options.faultCode;
    this.details = options.details ?? {};
    this.headers = {
      ...options.headers,
      ...(options.retryAfter !== undefined && { 'retry-after': String(options.retryAfter) }),
    };
  }
}

/** A failure that can end a request on any path. */
export class GatewayError extends AnsweredError<GatewayReason> {
  override readonly name = 'GatewayError';

  constructor(reason: GatewayReason, message: string, options: ErrorOptions = {}) {
    super(reason, GATEWAY_STATUS[reason], message, options);
  }
}

/** A failure of the role and dataset API. */
export class ApiError extends AnsweredError<ApiReason> {
  override readonly name: string = 'ApiError';

  constructor(reason: ApiReason, message: string, options: ErrorOptions = {}) {
    super(reason, API_STATUS[reason], message, options);
  }
}

/** The storage cannot be reached or did not answer in time. */
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
