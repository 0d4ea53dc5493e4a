import { afterEach, describe, expect, test } from '@jest/globals';
import { sessionBytes } from '../../../../src/cache/stored-answer.ts';
import type { TextEncoding } from '../../../../src/xml/text-encoding.ts';
import { answerWith } from '../../cache/stored-answer/session-documents.ts';
import { closeServers, replay, serve } from './replay-server.ts';

afterEach(closeServers);

const IN_ENCODING: Readonly<Record<TextEncoding, (text: string) => Buffer>> = {
  'utf-8': (text) => Buffer.from(text),
  'utf-16le': (text) => Buffer.from(text, 'utf16le'),
  'utf-16be': (text) => Buffer.from(text, 'utf16le').swap16(),
  'iso-8859-1': (text) => Buffer.from(text, 'latin1'),
  'us-ascii': (text) => Buffer.from(text, 'latin1'),
};

/** Short answers and long ones are sent in two ways. */
const FILLERS = { short: '', long: 'x'.repeat(5_000) };

const cases = Object.entries(FILLERS).flatMap(([length, filler]) =>
  Object.entries(IN_ENCODING).map(([name, inEncoding]) => ({ length, filler, name, inEncoding })),
);

describe.each(cases)('a $length answer in $name', ({ filler, name, inEncoding }) => {
  const encoding = name as TextEncoding;
  const [before, behind] = ['<Session SessionId="', `"/><a>xyz${filler}</a>`].map(inEncoding);
  if (before === undefined || behind === undefined) throw new Error('no answer');
  const answer = answerWith({
    body: Buffer.concat([before, behind]),
    session: { at: before.length, encoding },
  });

  // A plain id is written in another way than one that needs escapes.
  test.each(['Plain-id_09', `a"b&c<é`, ''])('shows the session %j in that encoding', async (id) => {
    const { ask } = await serve((client) => replay(client, answer, { sessionId: id }));
    const { status, headers, body } = await ask();
    expect(status).toBe(200);
    expect(headers['content-length']).toBe(String(body.length));
    expect(body).toEqual(Buffer.concat([before, sessionBytes(id, encoding), behind]));
  });

  test('shows a plain id letter by letter', async () => {
    const { ask } = await serve((client) => replay(client, answer, { sessionId: 'Plain-id_09' }));
    expect((await ask()).body).toEqual(Buffer.concat([before, inEncoding('Plain-id_09'), behind]));
  });
});

test('every byte of an answer arrives as it was stored, whatever its length', async () => {
  const { ask } = await serve((client) => replay(client, stored));
  let stored = answerWith({ body: Buffer.alloc(0), session: undefined });
  for (const length of [0, 1, 256, 3_071, 3_072, 3_073, 70_000]) {
    const body = Buffer.from(Array.from({ length }, (_, at) => at % 256));
    stored = answerWith({ body, session: undefined });
    const answer = await ask();
    expect([answer.status, answer.headers['content-length']]).toEqual([200, String(length)]);
    expect(answer.body.equals(body)).toBe(true);
  }
});
