import { expect, test } from '@jest/globals';
import { loadConfig } from '../../../src/config/load-config.ts';
import { fakeReadFile } from './fake-files.ts';
import { CERTIFICATE, PRIVATE_KEY } from './pem-samples.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const HTTPS = 'listen: { certificate: ./c.pem, key: ./k.pem }';

/** @param memory bytes that one process may take */
const connectionsOf = (text: string, memory?: number) =>
  loadConfig({
    file: 'gateway.yaml',
    env: {},
    workingFolder: '/',
    readFile: fakeReadFile({
      '/gateway.yaml': text,
      '/users.htpasswd': '',
      '/c.pem': CERTIFICATE,
      '/k.pem': PRIVATE_KEY,
    }),
    ...(memory !== undefined && { memory }),
  }).limits.connections;

test('connections take no more than 160 MiB, however large the memory is', () => {
  const most = Math.ceil((160 * MIB) / (56 * KIB));
  expect(
    [undefined, 64 * 1024 * MIB, 640 * MIB].map((memory) => connectionsOf('', memory)),
  ).toEqual([most, most, most]);
});

test('they take no more than a quarter of the memory, more of them where heads are short, fewer with HTTPS', () => {
  const memory = 512 * MIB;
  const room = 128 * MIB;
  expect(connectionsOf('', memory)).toBe(Math.ceil(room / (56 * KIB)));
  expect(connectionsOf('limits: { head: 4KiB }', memory)).toBe(Math.ceil(room / (32 * KIB)));
  expect(connectionsOf(HTTPS, memory)).toBe(Math.ceil(room / (128 * KIB)));
  expect(connectionsOf('', 1)).toBe(1);
});

test('what is written in the file wins', () => {
  expect(connectionsOf('limits: { connections: 50000 }', 512 * MIB)).toBe(50_000);
  expect(connectionsOf('limits: { connections: null }', 512 * MIB)).toBe(
    connectionsOf('', 512 * MIB),
  );
});
