import { describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import * as fc from 'fast-check';
import { fromLines, toLines } from '../../../src/storage/dump-lines.ts';
import type { StorageRecord } from '../../../src/storage/storage.ts';
import { sizes } from '../../support/sizes.ts';

async function* streamOf<T>(items: Iterable<T>): AsyncGenerator<T, undefined> {
  yield* items;
  return undefined;
}

const write = async (records: readonly StorageRecord[]) =>
  Buffer.concat(await Array.fromAsync(toLines(streamOf(records))));

const read = (...chunks: readonly Uint8Array[]) => Array.fromAsync(fromLines(streamOf(chunks)));

/** What is said of a file. */
async function refusalOf(file: Uint8Array | string): Promise<string> {
  try {
    await read(Buffer.from(file));
  } catch (error) {
    return (error as Error).message;
  }
  return 'nothing';
}

const text = fc.string({ unit: 'binary' });
const id = fc.nat().map((least) => least + 1);
const role = fc.record({
  kind: fc.constant('role' as const),
  role: fc.record({
    id,
    name: text,
    description: text,
    contains: fc.array(fc.record({ type: fc.constant('user' as const), name: text })),
  }),
});
const dataset = fc.record({
  kind: fc.constant('dataset' as const),
  id,
  lastModified: fc.nat(),
  dataset: fc.record({
    project: text,
    name: text,
    type: text,
    document: fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  }),
});
const head = fc.record({
  kind: fc.constant('head' as const),
  roles: fc.nat(),
  datasets: fc.nat(),
  nextRoleId: id,
  nextDatasetId: id,
});
const records = fc
  .tuple(head, fc.array(fc.oneof(role, dataset), { maxLength: 8 }))
  .map(([first, rest]) => [first as StorageRecord].concat(rest));

const SMALL: readonly StorageRecord[] = [
  { kind: 'head', roles: 1, datasets: 1, nextRoleId: 2, nextDatasetId: 8 },
  {
    kind: 'role',
    role: { id: 1, name: 'Größe\0', description: '', contains: [{ type: 'user', name: 'ADMIN' }] },
  },
  {
    kind: 'dataset',
    id: 7,
    lastModified: 1_700_000_000,
    dataset: {
      project: 'p',
      name: 'n',
      type: 'MDX',
      document: Buffer.from('{"a":\xff}', 'latin1'),
    },
  },
];

const HEAD =
  '{"format":"mdx-gateway-store","version":1,"roles":1,"datasets":0,"nextRoleId":2,"nextDatasetId":1}';

/** A file with these lines and an end that fits them, as only somebody with a purpose makes it. */
function forged(...lines: readonly string[]): string {
  const before = lines.map((line) => `${line}\n`).join('');
  return `${before}{"end":"${createHash('sha256').update(before).digest('hex')}"}\n`;
}

describe('what was dumped', () => {
  test('is what is read again, however the bytes are cut', async () => {
    const cuts = fc.array(fc.nat());
    await fc.assert(
      fc.asyncProperty(records, cuts, async (dumped, cuts) => {
        const file = await write(dumped);
        const places = [...new Set(cuts.map((cut) => cut % file.length)), 0, file.length];
        const sorted = places.toSorted((a, b) => a - b);
        const chunks = sorted.slice(1).map((to, index) => file.subarray(sorted[index], to));
        expect(await read(...chunks)).toEqual(dumped);
      }),
      { numRuns: sizes.propertyRuns / 2 },
    );
  });

  test('stands in lines that a newcomer can read', async () => {
    const lines = (await write(SMALL)).toString().split('\n');
    expect(lines).toEqual([
      '{"format":"mdx-gateway-store","version":1,"roles":1,"datasets":1,"nextRoleId":2,"nextDatasetId":8}',
      '{"role":{"id":1,"name":"Größe\\u0000","description":"","contains":[{"type":"user","name":"ADMIN"}]}}',
      '{"dataset":{"id":7,"project":"p","name":"n","type":"MDX","lastModified":1700000000,"bytes":7}}',
      '{"part":"eyJhIjr/fQ=="}',
      expect.stringMatching(/^\{"end":"[0-9a-f]{64}"\}$/),
      '',
    ]);
  });

  test('is never one line for a long document, and nothing of it is lost', async () => {
    const document = Buffer.alloc(7 * 1024 * 1024 + 1, 'a long document ');
    const dumped: StorageRecord[] = [
      { kind: 'head', roles: 0, datasets: 1, nextRoleId: 1, nextDatasetId: 2 },
      {
        kind: 'dataset',
        id: 1,
        lastModified: 0,
        dataset: { project: 'p', name: 'n', type: 't', document },
      },
    ];
    const lines = await Array.fromAsync(toLines(streamOf(dumped)));
    expect(lines.map((line) => line.length < 5 * 1024 * 1024)).toEqual(lines.map(() => true));
    expect(lines).toHaveLength(6);
    const [, after] = await read(...lines);
    expect(after?.kind === 'dataset' && after.dataset.document.equals(document)).toBe(true);
  });

  test('is asked for only as fast as the lines are taken', async () => {
    let asked = 0;
    async function* endless(): AsyncGenerator<StorageRecord, undefined> {
      for (const record of SMALL) {
        asked += 1;
        yield record;
      }
      return undefined;
    }
    const lines = toLines(endless());
    await lines.next();
    expect(asked).toBe(1);
    await lines.next();
    expect(asked).toBe(2);
    await lines.return();
  });
});

describe('a file is refused', () => {
  test('wherever it was cut short', async () => {
    const file = await write(SMALL);
    for (let length = 0; length < file.length; length += 1) {
      expect([length, await refusalOf(file.subarray(0, length))]).toEqual([
        length,
        expect.stringMatching(
          /^line [1-6]: the file ends (within this line|before its line "end")$/,
        ),
      ]);
    }
  });

  test('whichever byte of it was changed', async () => {
    const file = await write(SMALL);
    for (let place = 0; place < file.length; place += 1) {
      for (const bit of [0x01, 0x20, 0x80]) {
        const changed = Buffer.from(file);
        changed[place] = (file[place] ?? 0) ^ bit;
        expect([place, bit, await refusalOf(changed)]).toEqual([
          place,
          bit,
          expect.stringMatching(/^line [1-6]: [^\n]+$/),
        ]);
      }
    }
  });

  test('when a line is missing, doubled or in another place', async () => {
    const lines = (await write(SMALL)).toString().split(/(?<=\n)/);
    for (const [at, line] of lines.slice(0, -1).entries()) {
      const missing = lines.toSpliced(at, 1);
      const doubled = lines.toSpliced(at, 0, line);
      for (const changed of [
        missing,
        doubled,
        [...missing, line],
        [line, ...missing.toReversed()],
      ]) {
        expect([at, await refusalOf(changed.join(''))]).toEqual([
          at,
          expect.stringMatching(/^line /),
        ]);
      }
    }
    expect(await refusalOf(lines.join(''))).toBe('nothing');
  });

  test.each<[string, string, string]>([
    ['nothing', '', 'line 1: the file ends before its line "end"'],
    ['another kind of file', 'PRAGMA foreign_keys=OFF;\n', 'line 1: is not JSON'],
    ['another JSON', '{"a":1}\n', 'line 1: is not the head of an exported store'],
    ['a list', '[1]\n', 'line 1: must be an object'],
    ['a long first line', ' '.repeat(5_000), 'line 1: is not the head of an exported store'],
    ['only an end', forged(), 'line 1: is not the head of an exported store'],
    ['a byte order mark', `\uFEFF${forged(HEAD)}`, 'line 1: is not JSON'],
    [
      'the line ends of another system',
      forged(HEAD).replaceAll('\n', '\r\n'),
      'line 2: the digest does not fit: the file was changed or is damaged',
    ],
    [
      'a newer version',
      forged(HEAD.replace('"version":1', '"version":2')),
      'line 1: the file is of version 2; this program reads version 1 only',
    ],
    [
      'a total that is none',
      forged(HEAD.replace('"roles":1', '"roles":-1')),
      'line 1: "roles" must be a whole number between 0 and 9007199254740991',
    ],
    ['a line after the end', `${forged(HEAD)}{}\n`, 'line 3: nothing may follow the line "end"'],
    ['bytes after the end', `${forged(HEAD)} `, 'line 3: nothing may follow the line "end"'],
    [
      'an unknown record',
      forged(HEAD, '{"rule":{}}'),
      'line 2: must hold "role", "dataset" or "end"',
    ],
    [
      'a part without its dataset',
      forged(HEAD, '{"part":""}'),
      'line 2: must hold "role", "dataset" or "end"',
    ],
    ['a role that is none', forged(HEAD, '{"role":1}'), 'line 2: "role" must be an object'],
    [
      'a role without an id',
      forged(HEAD, '{"role":{"name":"a"}}'),
      'line 2: "id" must be a whole number between 1 and 9007199254740991',
    ],
    [
      'half a character',
      forged(HEAD, '{"role":{"id":1,"name":"\\ud800"}}'),
      'line 2: "name" must be well-formed text',
    ],
    [
      'a member of another type',
      forged(HEAD, '{"role":{"id":1,"name":"","description":"","contains":[{"type":"group"}]}}'),
      'line 2: "type" must be "user"',
    ],
    [
      'members that are none',
      forged(HEAD, '{"role":{"id":1,"name":"","description":"","contains":["a"]}}'),
      'line 2: "contains" must be a list of objects',
    ],
    [
      'a document of impossible size',
      forged(HEAD, '{"dataset":{"bytes":1e15}}'),
      'line 2: "bytes" must be a whole number between 0 and 1073741824',
    ],
    [
      'a document that is not there',
      forged(HEAD, '{"dataset":{"bytes":5}}'),
      'line 2: the last 5 bytes of the document are missing',
    ],
    [
      'a part that is too long',
      forged(HEAD, '{"dataset":{"bytes":2}}', '{"part":"YWFh"}'),
      'line 3: "part" must hold between 1 and 2 bytes (got 3)',
    ],
    [
      'a part that is no base64',
      forged(HEAD, '{"dataset":{"bytes":2}}', '{"part":"YW-="}'),
      'line 3: "part" must be base64',
    ],
    [
      'a record in a document',
      forged(HEAD, '{"dataset":{"bytes":2}}', '{"role":{}}'),
      'line 3: "part" must be base64',
    ],
  ])('that is %s', async (_, file, refusal) => {
    expect(await refusalOf(file)).toBe(refusal);
  });

  test('and is not read on', async () => {
    let returned = false;
    async function* file(): AsyncGenerator<Uint8Array, undefined> {
      try {
        for (;;) yield Buffer.from('no store\n');
      } finally {
        returned = true;
      }
    }
    await expect(Array.fromAsync(fromLines(file()))).rejects.toThrow('line 1: is not JSON');
    expect(returned).toBe(true);
  });
});
