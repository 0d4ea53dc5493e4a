import { afterAll, beforeAll, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { once } from 'node:events';
import { createServer, request, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { endWith, SHORT_BODY_BYTES } from '../../../../src/proxy/forwarded.ts';
import { sizes } from '../../../support/sizes.ts';

const server = createServer(async (asked, response) => {
  const body = await buffer(asked);
  if (asked.headers['x-length'] === 'said') response.setHeader('content-length', body.length);
  endWith(response, body);
});

beforeAll(() => once(server.listen(0, '127.0.0.1'), 'listening'));
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

async function echo(body: Buffer, length: 'said' | 'open'): Promise<Buffer> {
  const { port } = server.address() as AddressInfo;
  const headers = {
    'x-length': length,
    ...(length === 'said' ? { 'content-length': body.length } : { 'transfer-encoding': 'chunked' }),
  };
  const asked = request({ host: '127.0.0.1', port, method: 'POST', headers });
  endWith(asked, body);
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  return buffer(answer);
}

test('a body of any bytes and any length goes out as it is, in both directions', async () => {
  const around = fc.integer({ min: SHORT_BODY_BYTES - 2, max: SHORT_BODY_BYTES + 2 });
  const length = fc.oneof(around, fc.nat({ max: 2 * SHORT_BODY_BYTES }), fc.constant(0));
  const body = length.chain((bytes) => fc.uint8Array({ minLength: bytes, maxLength: bytes }));
  await fc.assert(
    fc.asyncProperty(body, fc.constantFrom('said', 'open'), async (bytes, how) => {
      const sent = Buffer.from(bytes);
      expect((await echo(sent, how)).equals(sent)).toBe(true);
    }),
    { numRuns: sizes.propertyRuns },
  );
});
