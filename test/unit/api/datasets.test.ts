import { describe, expect, test } from '@jest/globals';
import { gzipSync } from 'node:zlib';
import { INJECTION_STRINGS } from '../../support/injection-strings.ts';
import { createGate, settle } from '../auth/support.ts';
import { createTestApi, dataOf, failureOf, LIMITS } from './support-api.ts';

const IMPORT = '/dataset?createType=import';
const EXPORT = '/dataset?project=p&datasetType=mdx&datasetName=d';
const documentOf = (fields: object = {}) =>
  JSON.stringify({ project: 'p', dataset_name: 'd', type: 'MDX', ...fields });

/** A house with the dataset d of the project p, number 1. */
async function withDataset(document: Buffer | string = documentOf()) {
  const api = createTestApi();
  expect(dataOf(await api.ask('POST', IMPORT, { body: document }))).toEqual({ dataset_id: 1 });
  api.invalidated.length = 0;
  return api;
}

describe('a dataset', () => {
  test.each([
    [
      'numbers beyond 2^53',
      '{"project":"p","dataset_name":"d","type":"MDX","n":12345678901234567890.10}',
    ],
    ['repeated keys', '{"a":1,"a":2,"project":"p","dataset_name":"d","type":"MDX"}'],
    [
      'escaped and raw text',
      '{"project":"p","dataset_name":"\\u0064","type":"MDX","x":"\\u00fc ü 👍"}',
    ],
    [
      'a byte order mark and white space',
      '\ufeff\r\n{"project": "p",\t"dataset_name":"d","type":"mdx" }\n\n',
    ],
    [
      'nulls and deep nesting',
      `{"project":"p","dataset_name":"d","type":"MDX","x":${'['.repeat(5_000)}null${']'.repeat(5_000)}}`,
    ],
    ['more bytes than are checked at once', documentOf({ rows: 'ü'.repeat(100_000) })],
  ])('with %s comes back byte by byte', async (_what, document) => {
    const { ask } = await withDataset(document);
    const { status, body } = await ask('GET', EXPORT);
    expect([status, body.equals(Buffer.from(document))]).toEqual([200, true]);
  });

  test('may come compressed, and leaves as it was', async () => {
    const { ask } = createTestApi();
    const headers = { 'content-encoding': 'gzip' };
    const document = documentOf({ rows: 'x'.repeat(200_000) });
    const body = gzipSync(document);
    expect(dataOf(await ask('POST', IMPORT, { body, headers }))).toEqual({ dataset_id: 1 });
    expect((await ask('GET', EXPORT)).body.toString()).toBe(document);
  });

  test('is replaced by an update, and keeps its id', async () => {
    const { ask } = await withDataset();
    const body = documentOf({ type: 'other', x: 1 });
    expect(dataOf(await ask('PUT', '/dataset', { body }))).toEqual({ dataset_id: 1 });
    expect((await ask('GET', EXPORT)).body.toString()).toBe(body);
  });

  test('is listed with its project', async () => {
    const { ask } = await withDataset();
    await ask('POST', IMPORT, { body: documentOf({ dataset_name: 'e', type: 'x' }) });
    await ask('POST', IMPORT, { body: documentOf({ project: 'q' }) });
    const listed = await ask('GET', '/datasets/MDX/p/');
    expect(listed.body.toString()).toBe(
      '{"project":"p","semantic_datasets":[{"dataset_id":1,"dataset_name":"d","type":"MDX","last_modified":1700000000},{"dataset_id":2,"dataset_name":"e","type":"x","last_modified":1700000000}]}',
    );
  });

  test('of a project without any: the list is empty', async () => {
    const { ask } = createTestApi();
    expect((await ask('GET', '/datasets/MDX/no%20such%2Fproject')).body.toString()).toBe(
      '{"project":"no such/project","semantic_datasets":[]}',
    );
  });

  test('may have any name, and is found by it and no other', async () => {
    const { ask } = createTestApi();
    for (const text of INJECTION_STRINGS.filter((text) => [...text].length <= 255)) {
      const document = documentOf({ project: text, dataset_name: text, type: text });
      expect((await ask('POST', IMPORT, { body: document })).status).toBe(200);
      const name = encodeURIComponent(text);
      const target = `/dataset?project=${name}&datasetType=${name}&datasetName=${name}`;
      expect((await ask('GET', target)).body.toString()).toBe(document);
      const list = JSON.parse((await ask('GET', `/datasets/MDX/${name}`)).body.toString());
      expect(list).toMatchObject({ project: text, semantic_datasets: [{ dataset_name: text }] });
    }
  });

  test('is found by the exact spelling of project and name only', async () => {
    const { ask } = await withDataset(documentOf({ project: 'É', dataset_name: 'd ' }));
    const found = async (project: string, name: string) => {
      const query = new URLSearchParams({ project, datasetName: name, datasetType: 'mdx' });
      return (await ask('GET', `/dataset?${query}`)).status;
    };
    expect(await found('É', 'd ')).toBe(200);
    expect(await found('é', 'd ')).toBe(404);
    expect(await found('E\u0301', 'd ')).toBe(404);
    expect(await found('É', 'd')).toBe(404);
    expect(await found('É', 'D ')).toBe(404);
  });

  test.each(['mdx', 'SQL', 'sql', '', 'x&datasetType=y'])(
    'is found whatever datasetType says: %s',
    async (type) => {
      const document = documentOf({ type: 'SQL' });
      const { ask } = await withDataset(document);
      const answer = await ask('GET', `/dataset?project=p&datasetName=d&datasetType=${type}`);
      expect([answer.status, answer.body.toString()]).toEqual([200, document]);
      expect((await ask('GET', '/dataset?project=p&datasetName=d')).status).toBe(200);
    },
  );
});

describe('is refused with its code and its field:', () => {
  const cannot = 'The document cannot be read as JSON: line 1, column 2: ';
  const once = 'must be given exactly once';

  test.each([
    ['POST', IMPORT, documentOf(), '409 [dataset-exists] dataset_name: '],
    ['PUT', '/dataset', documentOf({ project: 'P' }), '404 [no-such-dataset] dataset_name: '],
    [
      'GET',
      '/dataset?project=p&datasetType=mdx&datasetName=D',
      undefined,
      '404 [no-such-dataset] ',
    ],
    [
      'GET',
      '/dataset?project=P&datasetType=mdx&datasetName=d',
      undefined,
      '404 [no-such-dataset] ',
    ],
    ['GET', '/dataset', undefined, `400 [bad-request] project: ${once}; datasetName: ${once}.`],
    ['GET', `${EXPORT}&project=p`, undefined, `400 [bad-request] project: ${once}.`],
    [
      'GET',
      '/dataset?project=&datasetType=mdx&datasetName=d',
      undefined,
      '400 [bad-request] project: must not be empty.',
    ],
    ['GET', '/dataset?project=%ff', undefined, '400 [bad-request] The query is not well-formed'],
    ['GET', '/dataset?project=%zz', undefined, '400 [bad-request] The query is not well-formed'],
    ['GET', '/datasets/MDX/%ff', undefined, '400 [bad-request] The path is not well-formed'],
    ['GET', '/datasets/MDX/%', undefined, '400 [bad-request] The path is not well-formed'],
    ['POST', '/dataset', documentOf(), '400 [bad-request] createType: '],
    ['POST', '/dataset?createType=Import', documentOf(), '400 [bad-request] createType: '],
    ['POST', `${IMPORT}&createType=import`, documentOf(), '400 [bad-request] createType: '],
    ['POST', IMPORT, '{]', `400 [bad-request] ${cannot}`],
    ['PUT', '/dataset', '{]', `400 [bad-request] ${cannot}`],
    ['POST', IMPORT, '[]', '400 [bad-request] The document must be a JSON object.'],
    ['POST', IMPORT, documentOf({ type: 1 }), '400 [bad-request] type: must be a string.'],
    ['PUT', '/dataset', documentOf({ project: '' }), '400 [bad-request] project: '],
    ['POST', IMPORT, undefined, '400 [bad-request] The request has no body'],
    ['PUT', '/dataset', undefined, '400 [bad-request] The request has no body'],
    ['PUT', '/dataset', documentOf({ x: 'x'.repeat(LIMITS.dataset) }), '413 [too-big] '],
    ['POST', IMPORT, documentOf({ x: 'x'.repeat(LIMITS.dataset) }), '413 [too-big] '],
  ])('%s %s', async (method, target, body, expected) => {
    const { ask, invalidated } = await withDataset();
    const failure = failureOf(await ask(method, target, { ...(body !== undefined && { body }) }));
    expect(failure.slice(0, expected.length)).toBe(expected);
    // An update announces itself before it is made, and it is only then that nothing is found.
    const announced = method === 'PUT' && failure.startsWith('404');
    // What is there already may be what the same client sent before.
    const there = failure.startsWith('409');
    expect(invalidated).toHaveLength(announced || there ? 1 : 0);
    expect((await ask('GET', EXPORT)).body.toString()).toBe(documentOf());
  });

  test('a document over the limit, by the name of its own limit', async () => {
    const { ask } = createTestApi();
    const body = documentOf({ x: 'x'.repeat(LIMITS.dataset) });
    expect(failureOf(await ask('POST', IMPORT, { body }))).toContain('(limits.dataset)');
    const small = documentOf({ x: 'x'.repeat(LIMITS.body) });
    expect((await ask('POST', IMPORT, { body: small })).status).toBe(200);
  });

  test('a long document, with the place of its mistake', async () => {
    const { ask } = createTestApi();
    const body = documentOf({ x: 'ü'.repeat(100_000) }).replace(/\}$/, ',}');
    expect(failureOf(await ask('POST', IMPORT, { body }))).toMatch(
      /^400 \[bad-request\] The document cannot be read as JSON: line 1, column 100\d\d\d: expected a property name/,
    );
  });
});

describe('an import of a dataset that is there already', () => {
  /** The first attempt may have been saved and never answered; who repeats it takes this for its answer. */
  test('clears the cache of its project before it says so', async () => {
    const began = createGate();
    const end = createGate();
    const api = createTestApi({
      async invalidate() {
        began.open();
        await end.passed;
        return true;
      },
    });
    const identity = { project: 'p', name: 'd', type: 'MDX' };
    await api.storage.datasets.create({ ...identity, document: Buffer.from(documentOf()) });
    let answered = false;
    const answer = api.ask('POST', IMPORT, { body: documentOf() }).finally(() => (answered = true));
    await began.passed;
    for (let turn = 0; turn < 20; turn += 1) await settle();
    expect(answered).toBe(false);
    end.open();
    expect(failureOf(await answer)).toMatch(/^409 \[dataset-exists\] /);
  });

  test('says when it could not be cleared', async () => {
    const api = createTestApi({ invalidate: async () => false });
    const identity = { project: 'p', name: 'd', type: 'MDX' };
    await api.storage.datasets.create({ ...identity, document: Buffer.from(documentOf()) });
    const answer = await api.ask('POST', IMPORT, { body: documentOf() });
    expect(failureOf(answer)).toBe('503 [not-cleared] saved; cache of p not yet cleared');
  });
});
