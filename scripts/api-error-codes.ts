/** What docs/API.md tells of errors: every code that the gateway itself answers below /api, by status. */

import { API_REASONS, GATEWAY_REASONS } from '../src/common/reasons.ts';

/** The reasons of the gateway that can end a request below /api. */
const COMMON = [
  'bad-request',
  'unauthenticated',
  'forbidden',
  'identity-refused',
  'not-found',
  'method-not-allowed',
  'too-big',
  'content-coding',
  'throttled',
  'login-queue',
  'overloaded',
  'engine-unreachable',
  'internal',
] as const;

interface ErrorCode {
  /** The word in `code`, which also begins `errorMesg`, in capitals and between brackets. */
  readonly code: string;
  readonly status: number;
  readonly meaning: string;
}

export const API_ERROR_CODES: readonly ErrorCode[] = [
  ...COMMON.map((code) => [code, GATEWAY_REASONS[code]] as const),
  ...Object.entries(API_REASONS),
]
  .map(([code, [status, meaning]]) => ({ code, status, meaning }))
  .sort((a, b) => a.status - b.status);
