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

export interface AdminCall {
  readonly id: string;
  readonly administrator: Principal;
  readonly request: IncomingMessage;
  /** Reads the decoded body. @param mostBytes default: `limits.body` */
  readonly body: (mostBytes?: number) => Promise<Buffer>;
  readonly signal: AbortSignal;
}

export interface AdminAct {
  readonly refusal: 'Nothing is told' | 'Nothing was done';
  readonly status?: number;
  readonly act: (call: AdminCall) => Promise<object>;
}

/** @throws GatewayError `forbidden`, `identity-refused`; errors of login and act */
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

export interface AdminQuestion extends Pick<AdminCall, 'id' | 'administrator' | 'signal'> {
  readonly principal: Principal;
  readonly headers: IncomingHttpHeaders;
  readonly authorization: string | undefined;
  readonly body: Buffer;
  readonly project: string | undefined;
}

/** Port: explains an XMLA request without any effect, even on metrics of users. */
export type TellAbout = (question: AdminQuestion) => Promise<object>;

/** @param may.user allows to name the user whose request it would be */
export const questionAct = (tell: TellAbout, may: { readonly user: boolean }): AdminAct => ({
  refusal: 'Nothing is told',
  async act({ id, administrator, request, body: read, signal }) {
    const words = may.user ? { ...QUESTION, user: userName.optional() } : QUESTION;
    const query: Query<typeof QUESTION> & { user?: string | undefined } = readQuery(request, words);
    const { project, user, user_agent, content_type } = query;
    const principal = user === undefined ? administrator : principalOf(user);
    const given = Object.entries(request.headers).filter(([name]) => isXmlaHeader(name));
    const headers: IncomingHttpHeaders = {
      ...Object.fromEntries(given),
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

export const idOf = (response: ServerResponse) => String(response.getHeader(REQUEST_ID));

const isHeader = (text: string) => HEADER_VALUE.test(text);
const header = word('a value of a header: letters of ISO-8859-1', isHeader).optional();
export const projectWord = z.string().superRefine((project, { addIssue }) => {
  const path = readXmlaPath(`/mdx/xmla/${encodeURIComponent(project)}`);
  if (path?.kind === 'xmla' && path.project === project) return;
  const why = path?.kind === 'bad-project' ? ` ${path.message}` : '';
  addIssue(`must be a name that can stand in the path /mdx/xmla/{project}.${why}`);
});
/** A name that Authorization can carry (RFC 7617 §2), at most as long as in a password file. */
const userName = word('a user name: 1 to 255 characters, no colon, no control characters', (text) =>
  /^(?:iso-8859-1:)?[^:\p{Cc}]{1,255}$/u.test(text),
);
/** Two words replace the headers of another program, which browsers do not send. */
const QUESTION = { project: projectWord.optional(), user_agent: header, content_type: header };

export function sendPretty(response: ServerResponse, value: unknown, status = 200): void {
  sendWhole(response, 'application/json', `${JSON.stringify(value, null, 2)}\n`, status);
}
