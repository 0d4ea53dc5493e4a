import { expect, test } from '@jest/globals';
import type { Memory } from '../../../../src/config/fit-memory.ts';
import { loadConfig } from '../../../../src/config/load-config.ts';
import { fakeReadFile } from '../fake-files.ts';
import { CERTIFICATE, PRIVATE_KEY } from '../pem-samples.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const HTTPS = 'listen: { certificate: ./c.pem, key: ./k.pem }';

/** @param memory bytes that there are in the heap of a process, or in the container */
const connectionsOf = (text: string, memory: Partial<Memory> = {}) =>
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
    memory: { heap: Infinity, container: Infinity, ...memory },
  }).limits.connections;

test('connections take no more than 160 MiB, however large the memory is', () => {
  const most = Math.ceil((160 * MIB) / (56 * KIB));
  const memories = [{}, { heap: 640 * MIB }, { container: 1280 * MIB }];
  expect(memories.map((memory) => connectionsOf('', memory))).toEqual([most, most, most]);
});

test('they take no more than a quarter of the heap or an eighth of the container, more of them where heads are short, fewer with HTTPS', () => {
  const room = 128 * MIB;
  for (const memory of [{ heap: 512 * MIB }, { container: 1024 * MIB }]) {
    expect(connectionsOf('', memory)).toBe(Math.ceil(room / (56 * KIB)));
    expect(connectionsOf('limits: { head: 4KiB }', memory)).toBe(Math.ceil(room / (32 * KIB)));
    expect(connectionsOf(HTTPS, memory)).toBe(Math.ceil(room / (128 * KIB)));
  }
  expect(connectionsOf('', { heap: 1 })).toBe(1);
});

test('what is written in the file wins', () => {
  const memory = { container: 512 * MIB };
  expect(connectionsOf('limits: { connections: 50000 }', memory)).toBe(50_000);
  expect(connectionsOf('limits: { connections: null }', memory)).toBe(connectionsOf('', memory));
});
