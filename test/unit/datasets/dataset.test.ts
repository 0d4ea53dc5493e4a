import { describe, expect, test } from '@jest/globals';
import { gunzipSync, gzipSync } from 'node:zlib';
import { readDocument } from '../../../src/datasets/dataset.ts';
import { sizes } from '../../support/sizes.ts';

const IDENTITY = { project: 'p', name: 'd', type: 'MDX' };

/** A document of about that many bytes, with what a reader could change by mistake. */
function documentOf(bytes: number): Buffer {
  const head =
    '{ "project":"p", "dataset_name":"d","type":"MDX","n":12345678901234567890.10,"n":1,"rows":[';
  const row = '\n  {"größe":"\\u00fc ü 👍","x":1e5}';
  return Buffer.from(
    `${head}${Array(Math.ceil(bytes / row.length))
      .fill(row)
      .join(',')}] }\n`,
  );
}

/** Twins that share no memory: the first may be given away. */
const twins = (bytes: number) => [documentOf(bytes), documentOf(bytes)] as const;

describe.each([
  ['short', 100],
  ['long', 200_000],
  ['very long', sizes.largeDocument],
])('a %s document', (_what, bytes) => {
  test('comes back byte by byte with its identity', async () => {
    const [given, twin] = twins(bytes);
    const { document, ...check } = await readDocument(given);
    expect(check).toEqual({ ok: true, identity: IDENTITY });
    expect(document.equals(twin)).toBe(true);
  });

  test('comes back also when it is refused, with the place of the mistake', async () => {
    const wrong = (text: Buffer) => Buffer.concat([text, Buffer.from('!')]);
    const [given, twin] = twins(bytes).map(wrong) as [Buffer, Buffer];
    const { document, ...check } = await readDocument(given);
    expect(check).toEqual({
      ok: false,
      problem: expect.stringMatching(/^The document cannot be read as JSON: line \d+, column 1: /),
    });
    expect(document.equals(twin)).toBe(true);
  });
});

test('a part of a larger memory block does not take its neighbours along', async () => {
  const text = documentOf(200_000);
  const block = Buffer.concat([Buffer.from('before'), text, Buffer.from('after')]);
  const { document, ok } = await readDocument(block.subarray(6, 6 + text.length));
  expect([ok, document.equals(text)]).toEqual([true, true]);
  expect(block.subarray(0, 6).toString()).toBe('before');
});

test('what was decompressed is read as well', async () => {
  const text = documentOf(200_000);
  const { document, ok } = await readDocument(gunzipSync(gzipSync(text)));
  expect([ok, document.equals(text)]).toEqual([true, true]);
});

test('a long document leaves the event loop to others', async () => {
  const given = documentOf(sizes.largeDocument);
  const { buffer } = given;
  let over = false;
  const reading = readDocument(given).finally(() => (over = true));
  // No answer of a thread comes before the event loop turns, and in all of these steps it does not.
  for (let step = 0; step < 100; step += 1) await Promise.resolve();
  // The thread has the bytes: nobody looks at them here, nor waits for it.
  expect([(buffer as ArrayBuffer).detached, over]).toEqual([true, false]);
  expect((await reading).ok).toBe(true);
});

test('several long documents at once keep apart', async () => {
  const named = (name: string) =>
    Buffer.from(documentOf(100_000).toString().replace('"d"', JSON.stringify(name)));
  const names = ['a', 'b', 'c', 'd'];
  const read = await Promise.all(names.map((name) => readDocument(named(name))));
  for (const [index, name] of names.entries()) {
    expect(read[index]).toMatchObject({ ok: true, identity: { ...IDENTITY, name } });
    expect(read[index]?.document.equals(named(name))).toBe(true);
  }
});
