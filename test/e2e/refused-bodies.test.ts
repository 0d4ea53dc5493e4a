import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { connect } from 'node:net';
import {
  configFolder,
  listening,
  runMain,
  type ConfigFolder,
  type GatewayProcess,
} from '../support/gateway-process.ts';
import { portOf, send, shortStatus, until } from '../support/http-client.ts';
import { basic, startTestGateway } from '../support/test-gateway.ts';

const LIMIT = 64 * 1024;
const SETTINGS = { limits: { body: LIMIT } };

test('an answer that refuses a body is told as soon as it was sent, and as complete', async () => {
  const gateway = await startTestGateway(SETTINGS);
  const socket = connect(portOf(gateway.url), '127.0.0.1');
  const head = ['POST /mdx/xmla HTTP/1.1', 'host: x', `authorization: ${basic('alice')}`];
  socket.write([...head, `content-length: ${2 * LIMIT}`, '', 'x'].join('\r\n'));
  const told = () => gateway.events.find(({ type }) => type === 'xmla-answered');
  // The rest of the body is not sent, and the connection not closed by this side.
  await until(() => told() !== undefined);
  expect(told()).toMatchObject({ status: 413, complete: true });
  socket.destroy();
  await gateway.close();
});

describe('a gateway in a process of its own', () => {
  let folder: ConfigFolder;
  let running: GatewayProcess;
  beforeAll(async () => {
    folder = await configFolder();
    running = runMain(['serve', '--config', folder.write(SETTINGS)]);
  });
  afterAll(async () => {
    running.kill('SIGKILL');
    await running.ended;
    folder.remove();
  });

  // Each time both act at one moment, and a reset would overtake the answer now and then.
  const WITH_LENGTH = { 'content-length': String(200 * LIMIT) };
  const IN_CHUNKS = { 'transfer-encoding': 'chunked' };
  const whose = { authorization: basic('alice') };
  test.each([
    ['far too much, with its length', { ...whose, ...WITH_LENGTH }, 413, 'gateway too-big'],
    ['far too much, in chunks', { ...whose, ...IN_CHUNKS }, 413, 'gateway too-big'],
    [
      'much without a login, on a connection that it wants closed',
      { connection: 'close', ...WITH_LENGTH },
      401,
      'gateway unauthenticated',
    ],
  ])('refuses who sends %s, and resets nobody', async (_what, more, status, said) => {
    const base = await listening(running);
    const headers = { 'content-type': 'text/xml', ...more };
    const body = Buffer.alloc(200 * LIMIT, 'x');
    for (let turn = 0; turn < 20; turn += 1) {
      const answer = await send(base, { method: 'POST', headers, body });
      expect([answer.status, shortStatus(answer)]).toEqual([status, said]);
    }
  });
});
