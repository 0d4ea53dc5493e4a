import { expect, test } from '@jest/globals';
import { createDocumentThread } from '../../../src/datasets/read-document.ts';

/** A thread that says which one it is, and breaks down over `!` (by an error) and `?` (silently). */
const FRAGILE = new URL(
  `data:text/javascript,${encodeURIComponent(`
  import { parentPort, threadId } from 'node:worker_threads';
  parentPort.on('message', (bytes) => {
    if (bytes[0] === 33) throw new Error('broken');
    if (bytes[0] === 63) process.exit(0);
    parentPort.postMessage({ bytes, check: { ok: false, problem: String(threadId) } });
  });
`)}`,
);

const bytesOf = (text: string) => new Uint8Array(Buffer.from(text));

async function threadOf(checked: ReturnType<ReturnType<typeof createDocumentThread>['check']>) {
  const { check } = await checked;
  return check.ok ? '' : check.problem;
}

test('one thread checks all documents', async () => {
  const thread = createDocumentThread(FRAGILE);
  const together = ['a', 'b', 'c'].map((text) => threadOf(thread.check(bytesOf(text))));
  const [first, ...others] = await Promise.all(together);
  others.push(await threadOf(thread.check(bytesOf('d'))));
  expect(others).toEqual([first, first, first]);
});

test('a thread that breaks down takes nothing with it but the document that it had', async () => {
  const thread = createDocumentThread(FRAGILE);
  const outcomes = await Promise.allSettled(
    ['a', '!', 'b', '?', 'c'].map((text) => threadOf(thread.check(bytesOf(text)))),
  );
  expect(outcomes.map(({ status }) => status)).toEqual([
    'fulfilled',
    'rejected',
    'fulfilled',
    'rejected',
    'fulfilled',
  ]);
  const threads = outcomes.flatMap((one) => (one.status === 'fulfilled' ? one.value : []));
  expect(new Set(threads).size).toBe(3);
});

test('the bytes come back', async () => {
  const thread = createDocumentThread(FRAGILE);
  const given = bytesOf('some bytes');
  const { bytes } = await thread.check(given);
  expect([Buffer.from(bytes).toString(), given.length]).toEqual(['some bytes', 0]);
});
