import { describe, expect, test } from '@jest/globals';
import { watchFor } from '../../../../src/line/pass.ts';
import { rowset, sessionElement } from '../../cache/fakes.ts';

/** What is told of the sessions of an answer that comes in these pieces, each time with those before it. */
async function told(header: string | undefined, pieces: readonly Buffer[], status = 200) {
  const calls: (readonly [string, readonly string[]])[] = [];
  const watch = watchFor({
    began: async (id, before) => void calls.push([id, before]),
    changed: undefined,
    undoneByFault: false,
  });
  watch?.head({
    status,
    statusMessage: '',
    headers: {
      'content-type': 'text/xml',
      ...(header !== undefined && { 'x-as-sessionid': header }),
    },
  });
  for (const piece of pieces) await watch?.write(piece);
  const whileWritten = calls.length;
  await watch?.end('whole');
  return { calls, whileWritten };
}

const answer = (id?: string) => rowset('a', id === undefined ? '' : sessionElement(id));
const inTwo = (bytes: Buffer) => [bytes.subarray(0, 60), bytes.subarray(60)];
const inOne = (bytes: Buffer) => [bytes];

describe.each([
  ['in one piece', inOne],
  ['in two pieces', inTwo],
])('of an answer %s', (_what, pieces) => {
  test.each([
    ['the HTTP header', 'S1', undefined, [['S1', []]]],
    ['the SOAP header', undefined, 'S1', [['S1', []]]],
    ['both, which name the same', 'S1', 'S1', [['S1', []]]],
    ['neither', undefined, undefined, []],
    ['an empty HTTP header', '', 'S1', [['S1', []]]],
  ])('the session of %s is told, once and before its end', async (_from, http, soap, expected) => {
    const { calls, whileWritten } = await told(http, pieces(answer(soap)));
    expect([calls, whileWritten]).toEqual([expected, expected.length]);
  });

  test.each([
    ['S1', 'S2'],
    ['ABC', 'abc'],
  ])('both sessions are told where the headers name %s and %s', async (http, soap) => {
    const { calls, whileWritten } = await told(http, pieces(answer(soap)));
    expect([calls, whileWritten]).toEqual([
      [
        [http, []],
        [soap, [http]],
      ],
      2,
    ]);
  });

  test('nothing is told of one that is an error', async () => {
    expect((await told('S1', pieces(answer('S2')), 500)).calls).toEqual([]);
  });
});

test('the session of the HTTP header is told though the answer has no body', async () => {
  expect((await told('S1', [])).calls).toEqual([['S1', []]]);
});
