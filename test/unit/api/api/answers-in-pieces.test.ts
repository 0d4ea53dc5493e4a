import { expect, test } from '@jest/globals';
import express from 'express';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createPermissions } from '../../../../src/auth/authenticator.ts';
import type { GatewayEvent } from '../../../../src/common/events.ts';
import { API_OPERATIONS, createApiRouter, type ApiHandlers } from '../../../../src/api/api.ts';
import { createGate, settle } from '../../auth/support.ts';
import { principalOf } from '../../../../src/common/principal.ts';

/** A server whose operations are all done by `handler`, and the answer to one request. */
async function answeredBy(handler: ApiHandlers['readRole'], path: string) {
  const events: GatewayEvent[] = [];
  const router = createApiRouter(
    Object.fromEntries(API_OPERATIONS.map(({ name }) => [name, handler])) as Parameters<
      typeof createApiRouter
    >[0],
    {
      login: async () => principalOf('alice'),
      during: (request) => request,
      permissions: createPermissions({ admins: [], viewers: [], purgers: [] }, 'nobody'),
      clock: { now: () => 0, wall: () => 0 },
      newId: () => 'id',
      emit: (event) => void events.push(event),
    },
  );
  const server = express().use('/api', router).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const request = httpRequest({ port, path }).on('error', () => {});
  request.end();
  const [answer] = (await once(request, 'response')) as [IncomingMessage];
  answer.on('error', () => {}).resume();
  const ended = new Promise((resolve) => answer.once('close', resolve));
  return {
    events,
    async whole() {
      await ended;
      await new Promise((resolve) => server.close(resolve));
      return answer.complete;
    },
  };
}

function begin(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.write('[');
}

test('an answer that comes in pieces is told when it has ended, not before', async () => {
  const handed = createGate();
  let held: ServerResponse | undefined;
  const { events, whole } = await answeredBy(async ({ response }) => {
    begin(response);
    held = response;
    handed.open();
  }, '/api/role/7');
  await handed.passed;
  for (let turn = 0; turn < 20; turn += 1) await settle();
  expect(events).toEqual([]);
  held?.end(']');
  expect(await whole()).toBe(true);
  expect(events).toMatchObject([{ type: 'api-answered', operation: 'readRole', status: 200 }]);
});

test('an answer that fails after its beginning is broken off, so that nobody takes it for whole', async () => {
  const begun = createGate();
  const { events, whole } = await answeredBy(async ({ response }) => {
    begin(response);
    await begun.passed;
    throw new Error('a mistake');
  }, '/api/role/7');
  begun.open();
  expect(await whole()).toBe(false);
  expect(events).toMatchObject([
    { type: 'internal-error', id: 'id' },
    { type: 'api-answered', id: 'id', reason: 'internal' },
  ]);
});

test('an operation gets the parameters of its path decoded once, and who asks', async () => {
  const told = Promise.withResolvers<unknown>();
  const { whole } = await answeredBy(async ({ response, ...exchange }) => {
    const { id, principal, parameters, operation } = exchange;
    told.resolve({ id, principal, parameters: { ...parameters }, name: operation.name });
    begin(response);
    response.end(']');
  }, '/api/datasets/MDX/a%2Fb%2525%20%C3%A4');
  expect(await told.promise).toEqual({
    id: 'id',
    principal: principalOf('alice'),
    parameters: { project: 'a/b%25 ä' },
    name: 'listDatasets',
  });
  expect(await whole()).toBe(true);
});
