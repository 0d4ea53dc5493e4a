import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { RECORDINGS_LIST, loadRecordings } from '../../../src/demo/replay-engine.ts';
import { inspectAnswer } from '../../../src/xmla/answer/inspect-answer.ts';
import { ENGINE_KINDS } from '../../../src/engine-kinds.ts';
import { classify } from '../../../src/xmla/request/classify.ts';
import { readRequest } from '../../../src/xmla/request/read-request.ts';

describe('the recordings that come with the program', () => {
  test('are at least eight, each with a name and a question of its own', async () => {
    const recordings = await loadRecordings();
    expect(recordings.length).toBeGreaterThanOrEqual(8);
    expect(new Set(recordings.map(({ name }) => name)).size).toBe(recordings.length);
    expect(new Set(recordings.map(({ request }) => request.body)).size).toBe(recordings.length);
  });

  test('may all be cached, question and answer', async () => {
    for (const { name, request, answer } of await loadRecordings()) {
      const reading = readRequest(Buffer.from(request.body), 'text/xml; charset=UTF-8');
      if (reading.kind !== 'understood') throw new Error(`"${name}" is not understood`);
      expect([name, classify(reading.request, ENGINE_KINDS.mondrian)]).toEqual([name, undefined]);
      const inspector = inspectAnswer({
        contentType: answer.contentType,
        method: reading.request.method,
        errorsAsData: ENGINE_KINDS.mondrian.errorsAsData,
      });
      inspector.write(answer.body);
      expect([name, inspector.end()]).toEqual([name, { ok: true, session: undefined }]);
    }
  });
});

describe('a folder of recordings', () => {
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mdx-gateway-recordings-'));
  });

  afterEach(() => rm(folder, { recursive: true }));

  const ENTRY = {
    name: 'One',
    engineMs: 12,
    request: { soapAction: '""', body: '<q/>' },
    answer: { status: 200, contentType: 'text/xml', bytes: 4, file: '01.xml.gz' },
  };

  const load = async (list: unknown): ReturnType<typeof loadRecordings> => {
    await writeFile(join(folder, RECORDINGS_LIST), JSON.stringify(list));
    return loadRecordings(pathToFileURL(`${folder}/`));
  };

  test('gives the bytes that went over the wire', async () => {
    await writeFile(join(folder, '01.xml.gz'), gzipSync('<a/>'));
    expect(await load([ENTRY])).toEqual([
      {
        name: 'One',
        engineMs: 12,
        request: { soapAction: '""', body: '<q/>' },
        answer: { status: 200, contentType: 'text/xml', body: Buffer.from('<a/>') },
      },
    ]);
  });

  test('is refused when an answer is not as long as the list says', async () => {
    await writeFile(join(folder, '01.xml.gz'), gzipSync('<a>'));
    await expect(load([ENTRY])).rejects.toThrow('01.xml.gz holds 3 bytes, the list says 4');
  });

  test('is refused when an answer is missing', async () => {
    await expect(load([ENTRY])).rejects.toThrow('ENOENT');
  });

  test.each([
    ['lacks a field', { ...ENTRY, engineMs: undefined }],
    ['holds a field too many', { ...ENTRY, note: 'x' }],
    [
      'names a file of another folder',
      { ...ENTRY, answer: { ...ENTRY.answer, file: '../01.xml.gz' } },
    ],
  ])('is refused when an entry %s', async (_, entry) => {
    await expect(load([entry])).rejects.toThrow(RECORDINGS_LIST);
  });
});
