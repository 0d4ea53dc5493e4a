import type { RequestHandler } from 'express';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import type { Login, Permissions } from '../auth/authenticator.ts';
import { HEADER_VALUE } from '../cache/stored-answer.ts';
import { GatewayError } from '../common/errors.ts';
import { type Principal, principalOf } from '../common/principal.ts';
import { type Query, readQuery, word } from './admin-page.ts';
import { sendWhole } from './answers.ts';
import { readBody } from './read-body.ts';
import { forgedAct, isXmlaHeader, refuseDelegation, REQUEST_ID } from './request-head.ts';
import { readXmlaPath } from './xmla-path.ts';

/** Call of a `POST` below /admin by an administrator. */
export interface AdminCall {
  readonly id: string;
  readonly administrator: Principal;
  readonly request: IncomingMessage;
  /** Reads the body, without content coding. @param mostBytes default: `limits.body` */
  readonly body: (mostBytes?: number) => Promise<Buffer>;
  /** Aborted when the administrator has gone. */
  readonly signal: AbortSignal;
}

/** Port: one `POST` below /admin, for administrators. */
export interface AdminAct {
  /** Begins the message to a user who may not. */
  readonly refusal: 'Nothing is told' | 'Nothing was done';
  /** Status of the answer; default: 200. */
  readonly status?: number;
  /** @throws GatewayError `bad-request`, and what {@link AdminCall.body} throws */
  readonly act: (call: AdminCall) => Promise<object>;
}

/** @throws what the login and the act throw; GatewayError `forbidden`, `identity-refused` */
export const createActHandler =
  (
    options: Readonly<{ login: Login; permissions: Permissions; maxBodyBytes: number }>,
    { refusal, status, act }: AdminAct,
  ): RequestHandler =>
  async (request, response) => {
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const id = idOf(response);
    const administrator = await options.login(request, id);
    refuseDelegation(request.headers, '');
    const why = options.permissions.mayAdminister(administrator)
      ? forgedAct(request.headers)
      : `${administrator.name} is not in auth.admins`;
    if (why !== undefined) throw new GatewayError('forbidden', `${refusal}: ${why}.`);
    const body = (mostBytes = options.maxBodyBytes) => readBody(request, mostBytes);
    const told = await act({ id, administrator, request, body, signal: gone.signal });
    sendPretty(response, told, status);
  };

/** XMLA request that an administrator asks about. */
export interface AdminQuestion {
  /** Id of the call. */
  readonly id: string;
  readonly administrator: Principal;
  /** User whose request it would be. */
  readonly principal: Principal;
  /** Headers by which an XMLA request is understood. */
  readonly headers: IncomingHttpHeaders;
  /** Login of the administrator, for an engine that gets that of the client. */
  readonly authorization: string | undefined;
  /** Body without content coding. */
  readonly body: Buffer;
  /** Project of the path /mdx/xmla/{project}, decoded. */
  readonly project: string | undefined;
  /** Aborted when the administrator has gone. */
  readonly signal: AbortSignal;
}

/** Port: tells what becomes of an XMLA request, or of what is in the cache for it, and changes nothing, not even a metric of users. */
export type TellAbout = (question: AdminQuestion) => Promise<object>;

/**
 * Asks about an XMLA request. Only administrators may: the answer tells when a user has asked something and which sessions
 * are known.
 * @param may.user whether the query may name another user whose request it would be
 */
export const questionAct = (tell: TellAbout, may: { readonly user: boolean }): AdminAct => ({
  refusal: 'Nothing is told',
  async act({ id, administrator, request, body: read, signal }) {
    const words = may.user ? { ...QUESTION, user: userName.optional() } : QUESTION;
    const query: Query<typeof QUESTION> & { user?: string | undefined } = readQuery(request, words);
    const { project, user, user_agent, content_type } = query;
    const principal = user === undefined ? administrator : principalOf(user);
    const headers = {
      ...xmlaHeaders(request.headers),
      ...(user_agent && { 'user-agent': user_agent }),
      ...(content_type && { 'content-type': content_type }),
    };
    const { authorization } = request.headers;
    const body = await read();
    const who = { id, administrator, principal, authorization, signal };
    const told = await tell({ ...who, headers, body, project });
    return { project, user: principal.name, ...told };
  },
});

/** Id of a request below /admin, which has one by then. */
export const idOf = (response: ServerResponse) => String(response.getHeader(REQUEST_ID));

const isHeader = (text: string) => HEADER_VALUE.test(text);
const header = word('a value of a header: letters of ISO-8859-1', isHeader).optional();
/** Project in a query. Names that no path can carry are refused here as they are there. */
export const projectWord = z.string().superRefine((project, { addIssue }) => {
  const path = readXmlaPath(`/mdx/xmla/${encodeURIComponent(project)}`);
  if (path?.kind === 'xmla' && path.project === project) return;
  const why = path?.kind === 'bad-project' ? ` ${path.message}` : '';
  addIssue(`must be a name that can stand in the path /mdx/xmla/{project}.${why}`);
});
/** Name that the header Authorization can carry (RFC 7617 §2), at most as long as in a password file. */
const userName = word('a user name: 1 to 255 characters, no colon, no control characters', (text) =>
  /^(?:iso-8859-1:)?[^:\p{Cc}]{1,255}$/u.test(text),
);
/** Browsers do not send the headers of another program: two words count in the place of theirs. */
const QUESTION = { project: projectWord.optional(), user_agent: header, content_type: header };

const xmlaHeaders = (headers: IncomingHttpHeaders): IncomingHttpHeaders =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => isXmlaHeader(name)));

export function sendPretty(response: ServerResponse, value: unknown, status = 200): void {
  sendWhole(response, 'application/json', `${JSON.stringify(value, null, 2)}\n`, status);
}
