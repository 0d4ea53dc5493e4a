import { expect } from '@jest/globals';
import { API_REASONS, GATEWAY_REASONS } from '../../src/common/reasons.ts';
import { send, type Answer, type Message } from '../support/http-client.ts';
import { basic } from '../support/test-gateway.ts';

const REASONS: Readonly<Record<string, readonly [status: number, meaning: string]>> = {
  ...GATEWAY_REASONS,
  ...API_REASONS,
};

/** As the documented clients spell it. */
const CONTENT_TYPE = 'application/json;charset=utf8';

export interface ApiMessage extends Omit<Message, 'path' | 'body'> {
  readonly user?: 'ADMIN' | 'alice' | 'bob';
  /** Becomes the body, as JSON. */
  readonly json?: unknown;
  readonly body?: Buffer | string;
}

export interface Role {
  readonly name: string;
  readonly description: string;
  readonly contains: readonly { readonly type: string; readonly name: string }[];
}

/** Sends one request of the API as ADMIN, or whoever is named. `path` begins below /api. */
export function ask(base: string, path: string, message: ApiMessage = {}): Promise<Answer> {
  const { user = 'ADMIN', json, body, headers, ...rest } = message;
  const bytes = json === undefined ? body : JSON.stringify(json);
  return send(base, {
    ...rest,
    path: `/api${path}`,
    headers: {
      authorization: basic(user),
      ...(bytes !== undefined && {
        'content-type': CONTENT_TYPE,
        'content-length': String(Buffer.byteLength(bytes)),
      }),
      ...headers,
    },
    ...(bytes !== undefined && { body: bytes }),
  });
}

/** The data of an answer that must be a success. */
export function dataOf(answer: Answer): unknown {
  expect([answer.status, answer.text]).toEqual([200, expect.stringMatching(/^\{"status":0,/)]);
  const { status, data, ...rest } = JSON.parse(answer.text) as Record<string, unknown>;
  expect([status, rest]).toEqual([0, {}]);
  expect(answer.headers['content-type']).toMatch(/^application\/json/);
  expect(answer.headers['cache-control']).toBe('no-store');
  return data;
}

/**
 * An answer that must be a failure, as `404 no-such-role`. The envelope must be the documented one, the status
 * that of the code, and the text one for a reader: no stack, no path, nothing of the program.
 */
export function failureOf(answer: Answer): string {
  const { status, data, errorMesg, code, ...rest } = JSON.parse(answer.text) as Record<
    string,
    unknown
  >;
  expect([status, data, rest]).toEqual([1, 'failure', {}]);
  expect(answer.headers['content-type']).toMatch(/^application\/json/);
  expect(answer.headers['cache-control']).toBe('no-store');
  const [, begin, text] = /^(\[[A-Z0-9_-]+\]) (\S.*)$/su.exec(String(errorMesg)) ?? [];
  expect(begin).toBe(`[${String(code).toUpperCase()}]`);
  expect(text).toEqual(expect.not.stringMatching(/\n\s*at |node_modules|\.ts\b|\.js\b|Error:/));
  expect([code, answer.status]).toEqual([code, REASONS[String(code)]?.[0]]);
  return `${answer.status} ${code}`;
}

/** The text of a failure, without its code. */
export function messageOf(answer: Answer): string {
  const { errorMesg } = JSON.parse(answer.text) as { errorMesg: string };
  return errorMesg.replace(/^\[[A-Z-]+\] /, '').replace(/ \(request [!-~]{1,128}\)$/, '');
}

/** In short what an answer says: `200` with its data, or the failure. */
export function outcomeOf(answer: Answer): unknown {
  return answer.status === 200 ? dataOf(answer) : failureOf(answer);
}

export interface Api {
  create(role: unknown): Promise<Answer>;
  update(id: number, role: unknown): Promise<Answer>;
  read(id: number): Promise<Answer>;
  remove(id: number): Promise<Answer>;
  /** @param name the role's */
  add(id: number, name: string, user: string): Promise<Answer>;
  drop(id: number, name: string, user: string): Promise<Answer>;
  list(query: Readonly<Record<string, string>>): Promise<Answer>;
  export(project: string, name: string, type?: string): Promise<Answer>;
  import(document: Buffer | string): Promise<Answer>;
  replace(document: Buffer | string): Promise<Answer>;
  datasets(project: string): Promise<Answer>;
  /** Creates a role that must be possible. */
  created(role: Partial<Role>): Promise<number>;
}

/** The operations of the API, one function for each, as ADMIN. */
export function apiOf(base: string): Api {
  const call = (method: string, path: string, message: ApiMessage = {}) =>
    ask(base, path, { method, ...message });
  const membership = (name: string, user: string) => ({
    name,
    contains: [{ type: 'user', name: user }],
    description: '',
  });
  const query = (parameters: Readonly<Record<string, string>>) =>
    Object.entries(parameters)
      .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
      .join('&');
  const api: Api = {
    create: (json) => call('POST', '/role', { json }),
    update: (id, json) => call('PUT', `/role/${id}`, { json }),
    read: (id) => call('GET', `/role/${id}`),
    remove: (id) => call('DELETE', `/role/${id}`),
    add: (id, name, user) =>
      call('POST', `/role/user/visibility/${id}`, { json: membership(name, user) }),
    drop: (id, name, user) =>
      call('DELETE', `/role/user/visibility/${id}`, { json: membership(name, user) }),
    list: (parameters) => call('GET', `/roles?${query(parameters)}`),
    export: (project, datasetName, datasetType = 'MDX') =>
      call('GET', `/dataset?${query({ project, datasetType, datasetName })}`),
    import: (body) => call('POST', '/dataset?createType=import', { body }),
    replace: (body) => call('PUT', '/dataset', { body }),
    datasets: (project) => call('GET', `/datasets/MDX/${encodeURIComponent(project)}`),
    async created(role) {
      const answer = await api.create({ name: 'unnamed', description: '', contains: [], ...role });
      return (dataOf(answer) as { role_id: number }).role_id;
    },
  };
  return api;
}

export const users = (...names: readonly string[]) => names.map((name) => ({ type: 'user', name }));

/** A dataset's document. */
export const documentOf = (project: string, name: string, type = 'MDX') =>
  JSON.stringify({ project, dataset_name: name, type, cubes: [] });
