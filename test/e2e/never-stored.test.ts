import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { gzipSync } from 'node:zlib';
import {
  brokenOffAnswer,
  errorCellAnswer,
  faultAnswer,
  kylinErrorAnswer,
  largeMddatasetAnswer,
  mddatasetAnswer,
  rowsetAnswer,
  sessionAnswer,
} from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus } from '../support/http-client.ts';
import {
  sendXml,
  startStubEngine,
  type StubAnswer,
  type StubEngine,
} from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

let engine: StubEngine;
let gateway: TestGateway;
let count = 0;
const newQuery = () => execute({ statement: `SELECT FROM [Sales ${(count += 1)}]` });

beforeAll(async () => {
  engine = await startStubEngine(() => {});
  gateway = await startTestGateway({ engine: { url: engine.url }, cache: { max_entry: '256KiB' } });
});
afterAll(async () => {
  await gateway.close();
  await engine.close();
});
beforeEach(() => {
  engine.seen.length = 0;
});

const withHead =
  (
    head: Record<string, string>,
    body: string | Buffer = mddatasetAnswer(),
    status = 200,
  ): StubAnswer =>
  (response) => {
    response.writeHead(status, head);
    response.end(body);
  };
const xml = { 'content-type': 'text/xml' };

/** Answers that must reach the client as they are, every time from the engine. */
const NEVER_STORED: readonly (readonly [what: string, answer: StubAnswer, detail: string])[] = [
  ['a Fault with status 200', sendXml(faultAnswer()), 'fault'],
  ['an error in the middle of the cells', sendXml(brokenOffAnswer()), 'fault'],
  ['a cell that could not be evaluated', sendXml(errorCellAnswer()), 'error-cell'],
  ['an error told as a member', sendXml(kylinErrorAnswer()), 'error-cell'],
  ['the header success: false', withHead({ ...xml, success: 'false' }), 'error-cell'],
  ['a session of the engine’s own', sendXml(sessionAnswer()), 'session-in-answer'],
  ['a rowset for an Execute', sendXml(rowsetAnswer()), 'answer-shape'],
  ['no XMLA at all', sendXml('<a/>'), 'answer-shape'],
  ['half of the XML', sendXml(mddatasetAnswer().slice(0, -20)), 'not-well-formed'],
  ['nothing', sendXml(''), 'not-well-formed'],
  ['status 500', withHead(xml, mddatasetAnswer(), 500), 'engine-status'],
  ['status 202', withHead(xml, mddatasetAnswer(), 202), 'engine-status'],
  ['a redirect', withHead({ location: '/elsewhere' }, '', 302), 'engine-status'],
  ['text/html', withHead({ 'content-type': 'text/html' }), 'media-type'],
  [
    'binary XML',
    withHead({ 'content-type': 'application/sx' }, Buffer.from([1, 2, 0xff])),
    'media-type',
  ],
  ['no media type', withHead({}), 'media-type'],
  [
    'a content coding',
    withHead({ ...xml, 'content-encoding': 'gzip' }, gzipSync(mddatasetAnswer())),
    'content-coding',
  ],
  [
    'another charset than its bytes',
    withHead({ 'content-type': 'text/xml; charset=utf-16' }),
    'answer-encoding',
  ],
  ['more than the cap', sendXml(largeMddatasetAnswer(300_000)), 'too-large'],
];

describe('an answer that is never stored', () => {
  test.each(NEVER_STORED)(
    '%s reaches every client from the engine',
    async (_what, reply, detail) => {
      engine.answerWith(reply);
      const query = newQuery();
      const answers = [await askXmla(gateway.url, query), await askXmla(gateway.url, query)];
      expect(engine.seen).toHaveLength(2);
      const direct = await send(engine.url, { method: 'POST', path: '/xmla' });
      for (const answer of answers) {
        expect(answer.status).toBe(direct.status);
        expect(answer.body.equals(direct.body)).toBe(true);
        expect(answer.headers['content-type']).toBe(direct.headers['content-type']);
        expect(answer.headers['content-encoding']).toBe(direct.headers['content-encoding']);
        // A large answer has left before anybody could know.
        expect(['miss', `miss ${detail}`]).toContain(shortStatus(answer));
      }
      expect(gateway.events.findLast(({ type }) => type === 'not-stored')).toMatchObject({
        reason: detail,
      });
    },
  );
});
