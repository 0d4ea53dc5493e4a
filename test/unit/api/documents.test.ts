import { describe, expect, test } from '@jest/globals';
import type { ServerResponse } from 'node:http';
import { createDocumentGate, type DocumentGate } from '../../../src/api/documents.ts';
import { createGate, settle } from '../auth/support.ts';
import { createTestApi, failureOf } from './support-api.ts';

const EXPORT = '/dataset?project=p&datasetType=mdx&datasetName=d';
const DOCUMENT = JSON.stringify({ project: 'p', dataset_name: 'd', type: 'MDX' });

/** An API with one place for documents of a user, which an export has until it is let go on, and a queue of one. */
async function fullHouse() {
  const began = createGate();
  const end = createGate();
  const inner = createDocumentGate({ slots: 1, own: 1, queue: 1 });
  /** Who asked for a place, in order. */
  const arrived: ServerResponse[] = [];
  const documents: DocumentGate = {
    receive(asker, ...work) {
      arrived.push(asker.response);
      return inner.receive(asker, ...work);
    },
    pass(asker, ...work) {
      arrived.push(asker.response);
      return inner.pass(asker, ...work);
    },
  };
  const api = createTestApi({ documents });
  const { datasets } = api.storage;
  await datasets.create({
    ...{ project: 'p', name: 'd', type: 'MDX' },
    document: Buffer.from(DOCUMENT),
  });
  const { read } = datasets;
  Object.assign(datasets, {
    async read(project: string, name: string) {
      began.open();
      await end.passed;
      return read(project, name);
    },
  });
  const first = api.ask('GET', EXPORT);
  await began.passed;
  return { ...api, arrived, first, letGoOn: end.open };
}

describe('while a user has all places for documents that he may have', () => {
  test.each([
    ['POST', '/dataset?createType=import', DOCUMENT.replace('"d"', '"e"')],
    ['PUT', '/dataset', DOCUMENT],
    ['GET', EXPORT, undefined],
    ['HEAD', EXPORT, undefined],
  ])(
    '%s %s waits with its body unread, and the next one is refused',
    async (method, path, body) => {
      const { ask, storage, arrived, first, letGoOn } = await fullHouse();
      const waiting = ask(method, path, { ...(body !== undefined && { body }) });
      while (arrived.length < 2) await settle();
      const refused = await ask(method, path, { ...(body !== undefined && { body }) });
      expect(refused.status).toBe(503);
      expect(refused.headers['retry-after']).toBe('5');
      if (method !== 'HEAD')
        expect(failureOf(refused)).toMatch(/^503 \[overloaded\] .*nothing was done/);
      expect([arrived[1]?.headersSent, arrived[1]?.req.readableDidRead]).toEqual([false, false]);
      expect(await storage.datasets.list('p')).toHaveLength(1);
      letGoOn();
      expect((await first).body.toString()).toBe(DOCUMENT);
      expect((await waiting).status).toBe(200);
    },
  );

  test('what is short does not wait', async () => {
    const { ask, first, letGoOn } = await fullHouse();
    const paths = ['/role/1', '/roles?pageNum=0&pageSize=9&containsDesc=true', '/datasets/MDX/p'];
    for (const path of paths) expect((await ask('GET', path)).status).toBe(200);
    const role = { name: 'Sales', description: '', contains: [] };
    expect((await ask('POST', '/role', { body: role })).status).toBe(200);
    letGoOn();
    await first;
  });
});

test.each([
  ['a document that cannot be read', 'PUT', '/dataset', '{]', 400],
  ['a dataset that is not there', 'GET', EXPORT.replace('=d', '=x'), undefined, 404],
  ['a dataset that is there', 'GET', EXPORT, undefined, 200],
])('%s gives its place back', async (_what, method, path, body, status) => {
  const { ask, first, letGoOn } = await fullHouse();
  letGoOn();
  await first;
  for (let time = 0; time < 3; time += 1) {
    expect((await ask(method, path, { ...(body !== undefined && { body }) })).status).toBe(status);
  }
});
