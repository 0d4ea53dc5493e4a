import { expect } from '@jest/globals';
import express from 'express';
import request from 'supertest';
import { API_ERROR_CODES } from '../../../scripts/api-error-codes.ts';
import { createApiRouter } from '../../../src/api/api.ts';
import { createDatasetOperations } from '../../../src/api/datasets.ts';
import { createDocumentGate, type DocumentGate } from '../../../src/api/documents.ts';
import { createRoleOperations } from '../../../src/api/roles.ts';
import { createPermissions, type Login, unauthenticated } from '../../../src/auth/authenticator.ts';
import type { GatewayEvent, Invalidate } from '../../../src/common/events.ts';
import { storageModel } from '../../contract/storage-model.ts';
import { basic } from '../auth/support.ts';
import { withoutRequestId } from '../../support/request-id.ts';
import { principalOf } from '../../../src/common/principal.ts';

const NOTHING = Buffer.alloc(0);

export const LIMITS = { body: 20_000, dataset: 300_000 };

export const LONGEST_LEASE = 2_000;

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

interface Message {
  /** Whoever is not ADMIN may only read; null: without credentials. */
  readonly user?: string | null;
  readonly body?: Buffer | string | object;
  readonly type?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The API in an app of its own, over a storage in memory whose methods a test may replace. */
export function createTestApi(
  given: {
    readonly invalidate?: Invalidate;
    readonly sleep?: (milliseconds: number) => Promise<void>;
    readonly documents?: DocumentGate;
    readonly login?: Login;
    readonly onEvent?: (event: GatewayEvent) => void;
  } = {},
) {
  const storage = storageModel(['ADMIN'], () => 1_700_000_000);
  const events: GatewayEvent[] = [];
  const invalidated: unknown[] = [];
  let time = 0;
  let ids = 0;
  const app = express();
  app.disable('etag');
  app.disable('x-powered-by');
  const handlers = {
    ...createRoleOperations({
      roles: storage.roles,
      sleep: given.sleep ?? (async () => {}),
      longestLease: LONGEST_LEASE,
      limits: LIMITS,
    }),
    ...createDatasetOperations(storage.datasets, {
      invalidate:
        given.invalidate ??
        (async (...call) => {
          invalidated.push(call);
          return true;
        }),
      documents: given.documents ?? createDocumentGate(),
      limits: LIMITS,
    }),
  };
  const front = {
    login: given.login ?? loginByName,
    during: <T>(request: Promise<T>) => request,
    permissions: createPermissions(
      { admins: ['ADMIN'], viewers: [], purgers: ['purger'] },
      'nobody',
    ),
    clock: { now: () => (time += 5), wall: () => 0 },
    newId: () => `id-${(ids += 1)}`,
    emit(event: GatewayEvent) {
      events.push(event);
      given.onEvent?.(event);
    },
  };
  app.use('/api', createApiRouter(handlers, front));

  /** Sends one request to a path below /api, and checks what is true of every answer. */
  async function ask(method: string, path: string, message: Message = {}): Promise<Answer> {
    const { user = 'ADMIN', body, type = 'application/json;charset=utf8', headers = {} } = message;
    const verb = method.toLowerCase() as 'get';
    const asked = request(app)[verb](`/api${path}`).buffer(true).parse(bytesOf);
    if (user !== null) asked.set('authorization', basic(user, 'x'));
    if (body !== undefined && type !== null) asked.set('content-type', type);
    asked.set(headers);
    // Without this the client would write a Content-Type, and the body, in its own way.
    asked.serialize((value) => value as string);
    const bytes = body === undefined || isBytes(body) ? body : Buffer.from(JSON.stringify(body));
    const { status, headers: got, body: answered } = await asked.send(bytes);
    const answer = { status, headers: got, body: Buffer.isBuffer(answered) ? answered : NOTHING };
    expectWellBehaved(method, answer);
    return answer;
  }

  return { app, ask, storage, events, invalidated };
}

const isBytes = (body: Buffer | string | object): body is Buffer | string =>
  typeof body === 'string' || Buffer.isBuffer(body);

const loginByName: Login = async ({ headers: { authorization = '' } }) => {
  const [, encoded = ''] = authorization.split(' ');
  const [name = ''] = Buffer.from(encoded, 'base64').toString('utf8').split(':');
  if (name === '') throw unauthenticated();
  return principalOf(name);
};

/** Whatever the media type says: the bytes. */
function bytesOf(answer: unknown, done: (error: null, body: Buffer) => void): void {
  const response = answer as NodeJS.ReadableStream;
  const chunks: Buffer[] = [];
  response.on('data', (chunk: Buffer) => chunks.push(chunk));
  response.on('end', () => done(null, Buffer.concat(chunks)));
}

function expectWellBehaved(method: string, { status, headers, body }: Answer): void {
  expect(headers).toMatchObject({
    'cache-control': 'no-store',
    'x-request-id': expect.stringMatching(/./),
  });
  if (status === 204) return;
  expect(headers['content-type']).toBe('application/json');
  expect(body.length).toBe(method === 'HEAD' ? 0 : Number(headers['content-length']));
  if (status < 400 || method === 'HEAD') return;
  const { errorMesg, code, ...rest } = JSON.parse(body.toString()) as Record<string, unknown>;
  expect(rest).toEqual({ status: 1, data: 'failure' });
  // What the web client of the reference server looks for.
  const [begin] = /^\[[A-Z0-9_-]+\](?= \S)/.exec(String(errorMesg)) ?? [];
  expect(begin).toBe(`[${String(code).toUpperCase()}]`);
  expect(API_ERROR_CODES).toContainEqual(expect.objectContaining({ code, status }));
  expect(errorMesg).not.toMatch(/\bat .*:\d|node:|\.ts\b|node_modules/);
}

/** The data of a success, and nothing else. */
export function dataOf({ status, body }: Answer): unknown {
  const envelope = JSON.parse(body.toString()) as { data: unknown };
  expect([status, envelope]).toEqual([200, { status: 0, data: envelope.data }]);
  return envelope.data;
}

/** `404 [no-such-role] roleId: …` */
export function failureOf({ status, headers, body }: Answer): string {
  const { errorMesg, code } = JSON.parse(body.toString()) as Record<'errorMesg' | 'code', string>;
  return `${status} [${code}]${withoutRequestId(errorMesg.replace(/^\[[^\]]*\]/, ''), headers)}`;
}
