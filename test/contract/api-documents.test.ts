import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import type { Answer } from '../support/http-client.ts';
import { sizes } from '../support/sizes.ts';
import { closeDrivers, DRIVERS, startDriver } from '../support/storage-drivers.ts';
import type { TestGateway } from '../support/test-gateway.ts';
import { apiOf, ask, dataOf, failureOf, type Api } from './api-client.ts';

afterAll(closeDrivers);

/** The fields that each document must have. `N` becomes a number. */
const IDENTITY = '"project":"p","dataset_name":"N","type":"MDX"';

/** A document of about so many bytes that no coding makes much shorter. */
function large(bytes: number): string {
  const noise = randomBytes(Math.floor((bytes * 3) / 4)).toString('base64');
  return `{${IDENTITY},"noise":"${noise}"}`;
}

/** Documents that a reader who builds values of them would write differently. */
const DOCUMENTS: readonly (readonly [what: string, document: string])[] = [
  ['numbers beyond 2^53', `{${IDENTITY},"a":9007199254740993,"b":123456789012345678901234567890}`],
  ['numbers with their scale', `{${IDENTITY},"a":1.10,"b":1e400,"c":-0,"d":0.1E-7,"e":1E+2}`],
  ['duplicate keys', `{${IDENTITY},"a":1,"a":2,"b":{"c":null,"c":[]},"a":1}`],
  ['an identity that is said twice', `{${IDENTITY},"project":"p"}`],
  ['keys that objects have', `{"__proto__":{"a":1},"constructor":1,${IDENTITY},"toString":{}}`],
  ['keys in any order', `{"z":1,"10":2,"2":3,"a":4,${IDENTITY},"1":5}`],
  ['raw non-ASCII', `{${IDENTITY},"Größe":"日本語 🐘 e\u0301"}`],
  ['escaped non-ASCII', `{${IDENTITY},"Gr\\u00f6\\u00DFe":"\\ud83d\\udc18 \\/ \\b"}`],
  ['an escaped identity', '{"pro\\u006aect":"\\u0070","dataset_name":"N","type":"M\\u0044X"}'],
  ['halves of characters in data', `{${IDENTITY},"a":"\\ud800","b":"\\udc00\\ud800"}`],
  ['NUL escapes', `{${IDENTITY},"a\\u0000b":"\\u0000"}`],
  ['line separators', `{${IDENTITY},"a":"\u2028\u2029\u007f"}`],
  ['a byte order mark', `\uFEFF{${IDENTITY}}`],
  ['blanks around and within', ` \r\n\t{ ${IDENTITY.replaceAll(',', ' ,\n')} \t}\r\n \n`],
  ['explicit nulls', `{${IDENTITY},"a":null,"b":[null],"c":{}}`],
  ['deep nesting', `{${IDENTITY},"a":${'['.repeat(50_000)}${']'.repeat(50_000)}}`],
  ['deep objects', `{${IDENTITY},"a":${'{"a":'.repeat(9_000)}0${'}'.repeat(9_000)}}`],
  ['a long key', `{${IDENTITY},"${'k'.repeat(60_000)}":1}`],
  ['many keys', `{${IDENTITY},${Array.from({ length: 4_000 }, (_, i) => `"k${i}":${i}`).join()}}`],
  ['just more than what is read at once', `{${IDENTITY},"a":"${'x'.repeat(65_536)}"}`],
];

describe.each(DRIVERS)('documents over %s', (driver) => {
  let gateway: TestGateway;
  let api: Api;
  let counter = 0;

  beforeAll(async () => {
    gateway = await startDriver(driver);
    api = apiOf(gateway.url);
  });
  afterAll(() => gateway?.close());

  /** The document under a name of its own. */
  function named(document: string): { readonly name: string; readonly bytes: Buffer } {
    counter += 1;
    const name = `d${counter}`;
    return { name, bytes: Buffer.from(document.replaceAll('"N"', `"${name}"`)) };
  }

  function expectBytes(answer: Answer, bytes: Buffer): void {
    expect([answer.status, answer.body.length]).toEqual([200, bytes.length]);
    expect(answer.body.equals(bytes)).toBe(true);
    expect(answer.headers['content-type']).toBe('application/json');
    expect(answer.headers['content-encoding']).toBeUndefined();
  }

  test.each(DOCUMENTS)('with %s come back byte for byte', async (_, document) => {
    const { name, bytes } = named(document);
    expect(dataOf(await api.import(bytes))).toEqual({ dataset_id: expect.any(Number) });
    expectBytes(await api.export('p', name), bytes);
    const changed = Buffer.concat([bytes, Buffer.from('\n')]);
    expect(dataOf(await api.replace(changed))).toEqual({ dataset_id: expect.any(Number) });
    expectBytes(await api.export('p', name), changed);
  });

  test('of many megabytes come back byte for byte, also two at one time', async () => {
    const both = [named(large(sizes.largeDocument)), named(large(sizes.largeDocument))];
    const imported = await Promise.all(both.map(({ bytes }) => api.import(bytes)));
    for (const answer of imported) dataOf(answer);
    const exported = await Promise.all(both.map(({ name }) => api.export('p', name)));
    for (const [index, answer] of exported.entries()) {
      expectBytes(answer, both[index]?.bytes ?? Buffer.of());
    }
  });

  test('that come compressed are kept as they were before', async () => {
    for (const [coding, encode] of [
      ['gzip', gzipSync],
      ['deflate', deflateSync],
    ] as const) {
      const { name, bytes } = named(large(100_000));
      const answer = await ask(gateway.url, '/dataset?createType=import', {
        method: 'POST',
        body: encode(bytes),
        headers: { 'content-encoding': coding },
      });
      dataOf(answer);
      expectBytes(await api.export('p', name), bytes);
    }
    const brotli = await ask(gateway.url, '/dataset?createType=import', {
      method: 'POST',
      body: brotliCompressSync(named('{}').bytes),
      headers: { 'content-encoding': 'br' },
    });
    expect(failureOf(brotli)).toBe('415 content-coding');
  });

  test('of any JSON come back byte for byte', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.json({ stringUnit: 'binary', maxDepth: 3, depthSize: 'small' }),
        fc.constantFrom('', ' ', '\n\t', '\r\n'),
        async (json, blank) => {
          const { name, bytes } = named(`${blank}{"data":${json}${blank},${IDENTITY}${blank}}`);
          dataOf(await api.import(bytes));
          expectBytes(await api.export('p', name), bytes);
        },
      ),
      { numRuns: sizes.apiRuns * 2 },
    );
  });
});
