import { beforeEach, describe, expect, test } from '@jest/globals';
import { gunzipSync } from 'node:zlib';
import {
  answerTo,
  ENCODINGS,
  escapeId,
  FORMS,
  ODD,
  plain,
  XMLA,
  type TextEncoding,
} from '../support/answer-sessions.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { readEngineRequest } from '../support/engine-request.ts';
import { execute, type SessionSpec } from '../support/envelopes.ts';
import { askXmla, shortStatus, type XmlaMessage } from '../support/http-client.ts';
import { stampOf } from '../support/stamps.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { startTestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

/** Answers that show a session are stored once, and each session is sent what the engine would have sent to it. */

const IDS = ['plain-1', 'R&D <"two"> \'quotes\'', 'café-é', '中-Θ-3', ' outer  space '] as const;

const engine = shared(() => startStubEngine(() => {}));
const gateway = shared(() =>
  startTestGateway({
    engine: { url: engine.url, kind: 'generic' },
    cache: { share: 'everyone' },
  }),
);
let count = 0;

beforeEach(() => {
  count += 1;
  engine.seen.length = 0;
});

const PROPERTIES = { Catalog: 'Sales' };
const query = (session?: SessionSpec) =>
  execute({
    statement: `SELECT FROM [é ${count}]`,
    properties: PROPERTIES,
    ...(session && { session }),
  });

/** The engine begins a session of this id for a user. */
async function begin(id: string, user: string): Promise<void> {
  const header = `<Session SessionId="${escapeId(id)}" xmlns="${XMLA}" />`;
  engine.answerWith(sendXml(mddatasetAnswer({ header })));
  const body = execute({ statement: '', properties: PROPERTIES, session: { kind: 'begin' } });
  const answer = await askXmla(gateway.url, body, { user });
  expect(stampOf(answer.body).session).toBe(id);
  engine.seen.length = 0;
}

/** Makes the engine answer each session in one way. */
function answerIn(how: TextEncoding, element: (quoted: string) => string): void {
  engine.answerWith((response, seen) => {
    const { session } = readEngineRequest(seen.body, seen.headers);
    const id = session.kind === 'in' ? session.id : undefined;
    response.writeHead(200, { 'content-type': how.contentType });
    response.end(answerTo(id, how, element));
  });
}

const askIn = (id: string, message: XmlaMessage = {}) =>
  askXmla(gateway.url, query({ kind: 'in', id }), message);

/** Two sessions of one user, and one of another: the same id never serves two. */
async function beginThree(): Promise<readonly (readonly [id: string, user: string])[]> {
  const [first = '', second = '', third = ''] = [0, 1, 2].map(
    (at) => `${IDS[(count + at) % IDS.length] ?? ''}${count}`,
  );
  const sessions = [
    [first, 'alice'],
    [second, 'alice'],
    [third, 'bob'],
  ] as const;
  for (const [id, user] of sessions) await begin(id, user);
  return sessions;
}

describe.each(ENCODINGS.map((one) => [one.name, one] as const))('in %s', (_name, how) => {
  test.each(FORMS)(
    'a hit holds the bytes that the engine would have sent: %s',
    async (_f, element) => {
      const sessions = await beginThree();
      answerIn(how, element);
      const statuses = [];
      for (const [id, user] of [...sessions, ...sessions]) {
        const answer = await askIn(id, { user });
        statuses.push(shortStatus(answer));
        expect(answer.body.equals(answerTo(id, how, element))).toBe(true);
        expect(answer.headers).toMatchObject({
          'content-type': how.contentType,
          'content-length': String(answer.body.length),
        });
        // And a parser of its own reads that id.
        if (how.mark.length > 0 || how.declared !== '' || how.bytes('a').length === 1) {
          expect(stampOf(answer.body).session).toBe(id);
        }
      }
      expect(statuses).toEqual(['miss stored', 'hit', 'hit', 'hit', 'hit', 'hit']);
      expect(engine.seen).toHaveLength(1);
    },
  );

  test('of a session that the engine begins by itself everybody else sees nothing', async () => {
    const own = 'its own & é';
    for (const [, element, left] of FORMS) {
      count += 1;
      engine.answerWith((response) => {
        response.writeHead(200, { 'content-type': how.contentType });
        response.end(answerTo(own, how, element));
      });
      const answers = [];
      for (const user of ['alice', 'alice', 'bob']) {
        answers.push(await askXmla(gateway.url, query(), { user }));
      }
      expect(answers.map(shortStatus)).toEqual(['miss stored', 'hit', 'hit']);
      const [first, ...hits] = answers.map(({ body }) => body);
      expect(first).toEqual(answerTo(own, how, element));
      for (const hit of hits) expect(hit.equals(answerTo(own, how, () => left))).toBe(true);
    }
  });

  test('a compressed hit holds the bytes of the session that asks', async () => {
    const sessions = await beginThree();
    const [, element] = FORMS[count % FORMS.length] ?? [];
    if (element === undefined) throw new Error('no form');
    answerIn(how, element);
    for (const [id, user] of sessions) {
      const headers = { 'accept-encoding': 'gzip' };
      let answer = await askIn(id, { user, headers });
      // It is compressed when there is time; every answer before is whole as well.
      while (answer.headers['content-encoding'] === undefined) {
        expect(answer.body.equals(answerTo(id, how, element))).toBe(true);
        answer = await askIn(id, { user, headers });
      }
      expect(shortStatus(answer)).toBe('hit');
      expect(gunzipSync(answer.body).equals(answerTo(id, how, element))).toBe(true);
      const plain = await askIn(id, { user });
      expect(plain.headers['content-encoding']).toBeUndefined();
      expect(plain.body.equals(answerTo(id, how, element))).toBe(true);
    }
    expect(engine.seen).toHaveLength(1);
  });
});

const [UTF8] = ENCODINGS as readonly [TextEncoding];
const LATIN1 = ENCODINGS.find(({ name }) => name === 'ISO-8859-1') as TextEncoding;

test('a request in UTF-16 reaches the engine as it is, and its answer in ISO-8859-1 the client', async () => {
  const sessions = await beginThree();
  answerIn(LATIN1, plain);
  const statuses = [];
  for (const [id, user] of [...sessions, ...sessions]) {
    const text = query({ kind: 'in', id }).toString().replace('"UTF-8"', '"UTF-16"');
    const body = Buffer.from(`\u{FEFF}${text}`, 'utf16le');
    const headers = { 'content-type': 'text/xml; charset=utf-16' };
    const answer = await askXmla(gateway.url, body, { user, headers });
    statuses.push(shortStatus(answer));
    expect(answer.body.equals(answerTo(id, LATIN1, plain))).toBe(true);
    if (statuses.length === 1) expect(engine.seen[0]?.body.equals(body)).toBe(true);
    expect(answer.body.includes(Buffer.from('Café', 'latin1'))).toBe(true);
  }
  expect(statuses).toEqual(['miss stored', 'hit', 'hit', 'hit', 'hit', 'hit']);
});

test('an id that the engine escapes in another way is the same id in every hit', async () => {
  const escapes = (id: string) => id.replace(/[^A-Za-z0-9]/gu, (one) => `&#${one.codePointAt(0)};`);
  const sessions = await beginThree();
  engine.answerWith((response, seen) => {
    const { session } = readEngineRequest(seen.body, seen.headers);
    response.writeHead(200, { 'content-type': UTF8.contentType });
    response.end(answerTo('', UTF8, () => plain(`"${escapes(session.id)}"`)));
  });
  for (const [id, user] of [...sessions, ...sessions]) {
    const { body } = await askIn(id, { user });
    expect(stampOf(body).session).toBe(id);
    const value = /(?<=<Session xmlns="[^"]*" SessionId=")[^"]*/;
    expect(body.toString().replace(value, '')).toBe(answerTo('', UTF8, plain).toString());
  }
  expect(engine.seen).toHaveLength(1);
});

test.each(ODD)(
  'an answer that shows its session with %s is passed on, and not stored',
  async (_w, element) => {
    const sessions = await beginThree();
    answerIn(UTF8, element);
    for (const [id, user] of [...sessions, ...sessions]) {
      const answer = await askIn(id, { user });
      expect(shortStatus(answer)).toBe('miss session-in-answer');
      expect(answer.body.equals(answerTo(id, UTF8, element))).toBe(true);
    }
    expect(engine.seen).toHaveLength(6);
  },
);
