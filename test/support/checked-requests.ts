import { callbackify } from 'node:util';
import supertest from 'supertest';
import { checkGatewayAnswer } from './openapi-check.ts';

type Done = (error: unknown, response: supertest.Response) => void;

const check = callbackify(checkGatewayAnswer);

/** Sends requests by supertest; each answer of a gateway must be one that the OpenAPI document describes. */
export function checkedSupertest(base: string): ReturnType<typeof supertest.agent> {
  return supertest.agent(base).use((request: supertest.Test) => {
    const end = request.end.bind(request);
    request.end = ((done: Done) =>
      end((error: unknown, response: supertest.Response) => {
        const { pathname, search } = new URL(request.url);
        const { status, headers, text } = response;
        const answer = { status, headers, body: Buffer.from(text ?? '') };
        check(base, request.method, `${pathname}${search}`, answer, (undescribed: unknown) => {
          done(undescribed ?? error, response);
        });
      })) as typeof request.end;
  });
}

/** The same by fetch. */
export async function checkedFetch(url: string, init: RequestInit = {}): Promise<Response> {
  const response = await fetch(url, init);
  const { pathname, search, origin } = new URL(url);
  const { status } = response;
  await checkGatewayAnswer(origin, init.method ?? 'GET', `${pathname}${search}`, {
    status,
    headers: Object.fromEntries(response.headers),
    body: Buffer.from(await response.clone().arrayBuffer()),
  });
  return response;
}
