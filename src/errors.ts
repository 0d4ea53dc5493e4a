import type { GatewayReason } from './reasons.ts';

/** HTTP status of each failure that the gateway answers by itself. */
export const GATEWAY_STATUS: Readonly<Record<GatewayReason, number>> = {
  unauthenticated: 401,
  throttled: 429,
  'bad-request': 400,
  'not-found': 404,
  forbidden: 403,
  'purge-failed': 503,
  'identity-refused': 403,
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

/** A failure that the gateway answers by itself, in the shape that the path's protocol expects. */
export class GatewayError extends Error {
  readonly reason: GatewayReason;
  readonly status: number;
  /** Headers that belong to the answer, such as Allow and Retry-After. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    reason: GatewayReason,
    message: string,
    options: {
      cause?: unknown;
      /** Seconds. */
      retryAfter?: number;
      headers?: Record<string, string>;
    } = {},
  ) {
    super(message, { cause: options.cause });
    this.name = 'GatewayError';
    this.reason = reason;
    this.status = GATEWAY_STATUS[reason];
    this.headers = {
      ...options.headers,
      ...(options.retryAfter !== undefined && { 'retry-after': String(options.retryAfter) }),
    };
  }
}
