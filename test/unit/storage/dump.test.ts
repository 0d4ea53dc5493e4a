import { describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import * as fc from 'fast-check';
import { foldCase } from '../../../src/common/fold-case.ts';
import { roleBody } from '../../../src/roles/role.ts';
import { fromLines, toLines } from '../../../src/storage/dump.ts';
import type { StorageRecord } from '../../../src/storage/sql-database.ts';
import { sizes } from '../../support/sizes.ts';
import { codePoint } from '../../support/code-point.ts';

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

const text = fc.string({ unit: codePoint, minLength: 1 });
const name = fc
  .string({ unit: 'grapheme', maxLength: 12 })
  .map((middle) => `a${middle}b`)
  .filter((name) => roleBody.safeParse({ name, description: '', contains: [] }).success);
const member = fc.record({ type: fc.constant('user' as const), name });
const id = fc.nat().map((least) => least + 1);
const role = fc.record({
  kind: fc.constant('role' as const),
  role: fc.record({
    id,
    name,
    description: fc.string({ unit: codePoint }),
    contains: fc.uniqueArray(member, { selector: (member) => foldCase(member.name) }),
  }),
});
const dataset = fc.record({
  kind: fc.constant('dataset' as const),
  id,
  lastModified: fc.nat(),
  dataset: fc
    .tuple(fc.record({ project: text, name: text, type: text }), fc.jsonValue())
    .map(([identity, more]) => Object.assign(identity, { document: documentOf(identity, more) })),
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

function documentOf(
  { project, name, type }: { project: string; name: string; type: string },
  more: unknown,
): Buffer {
  return Buffer.from(JSON.stringify({ more, project, dataset_name: name, type }));
}

const IDENTITY = { project: 'p', name: 'n', type: 'MDX' };
const DOCUMENT = documentOf(IDENTITY, 1.5).toString();

const SMALL: readonly StorageRecord[] = [
  { kind: 'head', roles: 1, datasets: 1, nextRoleId: 2, nextDatasetId: 8 },
  {
    kind: 'role',
    role: { id: 1, name: 'Größe', description: '\0', contains: [{ type: 'user', name: 'ADMIN' }] },
  },
  {
    kind: 'dataset',
    id: 7,
    lastModified: 1_700_000_000,
    dataset: { ...IDENTITY, document: Buffer.from(DOCUMENT) },
  },
];

const HEAD =
  '{"format":"mdx-gateway-store","version":1,"roles":1,"datasets":0,"nextRoleId":2,"nextDatasetId":1}';

/** The line of a dataset. */
const datasetLine = (given: object) =>
  JSON.stringify({ dataset: { id: 7, ...IDENTITY, lastModified: 0, ...given } });
/** The lines of a dataset with its document. */
const datasetLines = (document: string, given: object = {}) => [
  datasetLine({ bytes: document.length, ...given }),
  JSON.stringify({ part: Buffer.from(document).toString('base64') }),
];
const roleLine = (given: object) =>
  JSON.stringify({ role: { id: 2, name: 'a', description: '', contains: [], ...given } });

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
      '{"role":{"id":1,"name":"Größe","description":"\\u0000","contains":[{"type":"user","name":"ADMIN"}]}}',
      '{"dataset":{"id":7,"project":"p","name":"n","type":"MDX","lastModified":1700000000,"bytes":58}}',
      '{"part":"eyJtb3JlIjoxLjUsInByb2plY3QiOiJwIiwiZGF0YXNldF9uYW1lIjoibiIsInR5cGUiOiJNRFgifQ=="}',
      expect.stringMatching(/^\{"end":"[0-9a-f]{64}"\}$/),
      '',
    ]);
  });

  test('is never one line for a long document, and nothing of it is lost', async () => {
    const filler = 'x'.repeat(7 * 1024 * 1024 + 1);
    const document = documentOf(IDENTITY, filler);
    const dumped: StorageRecord[] = [
      { kind: 'head', roles: 0, datasets: 1, nextRoleId: 1, nextDatasetId: 2 },
      {
        kind: 'dataset',
        id: 1,
        lastModified: 0,
        dataset: { ...IDENTITY, document },
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
      'line 1: roles: must be a whole number between 0 and 9007199254740991',
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
    ['a role that is none', forged(HEAD, '{"role":1}'), 'line 2: role: must be an object'],
    [
      'a role without an id',
      forged(HEAD, '{"role":{"name":"a"}}'),
      'line 2: role.id: must be a whole number between 1 and 9007199254740991',
    ],
    [
      'half a character',
      forged(HEAD, roleLine({ name: '\ud800' })),
      'line 2: role.name: must not hold control characters, line breaks or halves of surrogate pairs',
    ],
    [
      'a member of another type',
      forged(HEAD, roleLine({ contains: [{ type: 'group', name: 'a' }] })),
      'line 2: role.contains[0].type: must be "user"',
    ],
    [
      'members that are none',
      forged(HEAD, roleLine({ contains: ['a'] })),
      'line 2: role.contains[0]: must be an object with type and name',
    ],
    [
      'a role with a name that is blank',
      forged(HEAD, roleLine({ name: ' \0 ' })),
      'line 2: role.name: must not begin or end with white space',
    ],
    [
      'a member with a name that nobody sees',
      forged(HEAD, roleLine({}), roleLine({ contains: [{ type: 'user', name: '\u200b' }] })),
      'line 3: role.contains[0].name: must hold a visible character',
    ],
    [
      'a role without a description',
      forged(HEAD, roleLine({ description: undefined })),
      'line 2: role.description: is missing',
    ],
    [
      'a dataset without a name',
      forged(HEAD, ...datasetLines('{"project":"p","dataset_name":"","type":"MDX"}', { name: '' })),
      'line 2: the document is refused: dataset_name: must have 1 to 255 characters.',
    ],
    [
      'a document that is no JSON',
      forged(HEAD, roleLine({}), ...datasetLines('PK')),
      'line 3: the document is refused: The document cannot be read as JSON: line 1, column 1: expected a value.',
    ],
    [
      'a dataset of another project than its document',
      forged(HEAD, ...datasetLines(DOCUMENT, { project: 'q' })),
      'line 2: dataset.project: must be what the document says',
    ],
    [
      'a dataset of another name than its document',
      forged(HEAD, ...datasetLines(DOCUMENT, { name: 'N' })),
      'line 2: dataset.name: must be what the document says',
    ],
    [
      'a dataset of another type than its document',
      forged(HEAD, ...datasetLines(DOCUMENT, { type: 'mdx' })),
      'line 2: dataset.type: must be what the document says',
    ],
    [
      'a document of impossible size',
      forged(HEAD, datasetLine({ bytes: 1e15 })),
      'line 2: dataset.bytes: must be a whole number between 0 and 1073741824',
    ],
    [
      'a document that is not there',
      forged(HEAD, datasetLine({ bytes: 5 })),
      'line 2: the last 5 bytes of the document are missing',
    ],
    [
      'a part that is too long',
      forged(HEAD, datasetLine({ bytes: 2 }), '{"part":"YWFh"}'),
      'line 3: part: must hold between 1 and 2 bytes (got 3)',
    ],
    [
      'a part that is no base64',
      forged(HEAD, datasetLine({ bytes: 2 }), '{"part":"YW-="}'),
      'line 3: part: must be base64',
    ],
    [
      'a record in a document',
      forged(HEAD, datasetLine({ bytes: 2 }), '{"role":{}}'),
      'line 3: part: must be base64',
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
