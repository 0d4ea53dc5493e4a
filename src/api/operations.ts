import type { Request, Response } from 'express';
import type { Principal } from '../auth/authenticator.ts';
import { API_REASONS, GATEWAY_REASONS } from '../common/reasons.ts';

/** The operations of the interface document §4.1 and §4.2, in its order; paths below /api, in Express's words. */
export const API_OPERATIONS = [
  { name: 'createRole', method: 'POST', path: '/role', changes: 'roles' },
  { name: 'updateRole', method: 'PUT', path: '/role/:roleId', changes: 'roles' },
  { name: 'readRole', method: 'GET', path: '/role/:roleId', changes: undefined },
  { name: 'deleteRole', method: 'DELETE', path: '/role/:roleId', changes: 'roles' },
  { name: 'addUser', method: 'POST', path: '/role/user/visibility/:roleId', changes: 'roles' },
  { name: 'removeUser', method: 'DELETE', path: '/role/user/visibility/:roleId', changes: 'roles' },
  { name: 'listRoles', method: 'GET', path: '/roles', changes: undefined },
  { name: 'exportDataset', method: 'GET', path: '/dataset', changes: undefined },
  { name: 'importDataset', method: 'POST', path: '/dataset', changes: 'datasets' },
  { name: 'updateDataset', method: 'PUT', path: '/dataset', changes: 'datasets' },
  { name: 'listDatasets', method: 'GET', path: '/datasets/MDX/:project', changes: undefined },
] as const satisfies readonly {
  readonly name: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  /** What it changes; only administrators may change anything. */
  readonly changes: 'roles' | 'datasets' | undefined;
}[];

export type ApiOperation = (typeof API_OPERATIONS)[number];

/** One request of an operation that its sender may do. */
export interface ApiExchange {
  /** Ties the request to the log. */
  readonly id: string;
  readonly request: Request;
  readonly response: Response;
  readonly principal: Principal;
  readonly operation: ApiOperation;
  /** Parameters of the path by name, percent-decoded once. */
  readonly parameters: Readonly<Record<string, string>>;
}

/** Does an operation and answers it. What it throws is answered in the envelope. */
export type ApiHandler = (exchange: ApiExchange) => Promise<void>;

export type ApiHandlers = Readonly<Record<ApiOperation['name'], ApiHandler>>;

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
  'overloaded',
  'engine-unreachable',
  'internal',
] as const;

export interface ErrorCode {
  /** The word between the brackets of `errorMesg`. */
  readonly code: string;
  readonly status: number;
  readonly meaning: string;
}

/** Every error that the gateway itself answers below /api, by status. */
export const API_ERROR_CODES: readonly ErrorCode[] = Object.entries({
  ...Object.fromEntries(COMMON.map((code) => [code, GATEWAY_REASONS[code]] as const)),
  ...API_REASONS,
})
  .map(([code, [status, meaning]]) => ({ code, status, meaning }))
  .sort((a, b) => a.status - b.status);
