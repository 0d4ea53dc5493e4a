import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { faultAnswer, mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, portOf, sendRaw, shortStatus } from '../support/http-client.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/**
 * An engine that reads more strictly, or less so, than the gateway has the last word: no request gets an answer from the
 * cache that the engine would not give to it.
 */

/** What parsers of Java take in a declaration of these. */
const KNOWN_TO_JAVA = /^(?:utf-8|iso-8859-1|us-ascii|latin1)$/i;

let engine: StubEngine;
let gateway: TestGateway;
let asked = 0;

beforeAll(async () => {
  engine = await startStubEngine((response, seen) => {
    const text = seen.body.toString('latin1');
    const [, name = 'utf-8'] = /^<\?xml[^>]* encoding="([^"]*)"/.exec(text) ?? [];
    const { accept = '*/*' } = seen.headers;
    const isRefused = !KNOWN_TO_JAVA.test(name) || !/text\/xml|\*\/\*/.test(accept);
    sendXml(isRefused ? faultAnswer() : mddatasetAnswer())(response, seen);
  });
  gateway = await startTestGateway({ engine: { url: engine.url } });
});
afterAll(async () => {
  await gateway.close();
  await engine.close();
});
beforeEach(() => {
  engine.seen.length = 0;
  asked += 1;
});

/** A query that only this test asks, declared in an encoding. */
const query = (encoding = 'UTF-8') => {
  const body = execute({ statement: `SELECT FROM [As read ${asked}]` }).toString();
  return Buffer.from(body.replace('encoding="UTF-8"', `encoding="${encoding}"`), 'latin1');
};
const plain = { 'content-type': 'text/xml' };
const ask = async (body: Buffer, headers: Record<string, string> = plain) => {
  const answer = await askXmla(gateway.url, body, { headers });
  return [answer.status, shortStatus(answer), answer.text.includes('Fault')];
};

describe('an encoding in the XML declaration', () => {
  test.each([
    ['utf8', 'UTF-8'],
    ['UTF8', 'utf-8'],
    ['ISO8859-1', 'ISO-8859-1'],
    ['iso8859_1', 'ISO-8859-1'],
    ['ascii', 'US-ASCII'],
  ])('called %s gets what the engine says, not the answer under %s', async (odd, right) => {
    expect(await ask(query(right))).toEqual([200, 'miss stored', false]);
    for (let times = 0; times < 2; times += 1) {
      expect(await ask(query(odd))).toEqual([200, 'bypass encoding', true]);
    }
    expect(await ask(query(right))).toEqual([200, 'hit', false]);
  });

  test('that is no registered one purges nothing, and spoils no session', async () => {
    expect(await ask(query())).toEqual([200, 'miss stored', false]);
    const purger = { ...plain, authorization: basic('ADMIN') };
    expect(await ask(query('utf8'), purger)).toEqual([200, 'bypass encoding', true]);
    expect(gateway.events.filter(({ type }) => type === 'purged')).toEqual([]);
    expect(await ask(query())).toEqual([200, 'hit', false]);
  });

  test('is in the key by its name: not every engine knows every registered one', async () => {
    expect(await ask(query('ISO-8859-1'))).toEqual([200, 'miss stored', false]);
    expect(await ask(query('iso_8859-1'))).toEqual([200, 'miss fault', true]);
    expect(await ask(query('latin1'))).toEqual([200, 'miss stored', false]);
    expect(await ask(query('Iso-8859-1'))).toEqual([200, 'hit', false]);
  });

  test.each(['utf8', 'latin1', 'iso8859-1', 'ascii'])(
    'called %s in the Content-Type counts as it did',
    async (charset) => {
      const bare = Buffer.from(
        query()
          .toString()
          .replace(/^<\?xml[^>]*\?>/, ''),
      );
      const headers = { 'content-type': `text/xml; charset=${charset}` };
      expect(await ask(bare, headers)).toEqual([200, 'miss stored', false]);
      expect(await ask(bare, headers)).toEqual([200, 'hit', false]);
    },
  );
});

describe('the header Accept', () => {
  test.each(['TEXT/XML', 'Text/Xml;q=0.5', 'TEXT/XML, text/html'])(
    'reaches the engine as %s, and gets what it says to that',
    async (accept) => {
      expect(await ask(query())).toEqual([200, 'miss stored', false]);
      expect(await ask(query(), { ...plain, accept })).toEqual([200, 'bypass accept', true]);
      expect(engine.seen.at(-1)?.headers.accept).toBe(accept);
      expect(await ask(query(), { ...plain, accept: 'text/xml' })).toEqual([
        200,
        'miss stored',
        false,
      ]);
    },
  );
});

describe('a Content-Encoding that names no coding', () => {
  test.each(['utf-8', 'UTF-8', ' utf-8 ', 'identity', ''])(
    'such as "%s" is none',
    async (coding) => {
      const headers = { ...plain, 'content-encoding': coding };
      expect(await ask(query(), headers)).toEqual([200, 'miss stored', false]);
      expect(await ask(query(), headers)).toEqual([200, 'hit', false]);
      expect(await ask(query())).toEqual([200, 'hit', false]);
      const passing = execute({ statement: 'ALTER CUBE [Sales]' });
      expect(await ask(passing, headers)).toEqual([200, 'bypass not-a-query', false]);
      for (const seen of engine.seen) expect(seen.headers).not.toHaveProperty('content-encoding');
      expect(engine.seen.at(-1)?.body).toEqual(passing);
    },
  );

  test.each(['utf-8, gzip', 'utf-16', 'br', 'text/xml'])('is not "%s"', async (coding) => {
    const headers = { ...plain, 'content-encoding': coding };
    expect(await ask(query(), headers)).toEqual([415, 'gateway content-coding', true]);
    expect(engine.seen).toEqual([]);
  });
});

describe('a transfer coding beside chunked', () => {
  /** Its head, and a body in chunks. */
  const message = (path: string, coding: string, body: Buffer) =>
    [
      `POST ${path} HTTP/1.1`,
      'Host: gateway',
      `Authorization: ${basic('ADMIN')}`,
      'Content-Type: text/xml',
      coding,
      '',
      body.length.toString(16),
      `${body.toString('latin1')}`,
      '0\r\n\r\n',
    ].join('\r\n');
  const tell = async (path: string, coding: string, body = query()) =>
    (await sendRaw(portOf(gateway.url), message(path, coding, body))).bytes.toString('latin1');

  test.each([
    ['/mdx/xmla', 'text/xml', '<SOAP-ENV:Fault>'],
    ['/mdx/xmla/Sales', 'text/xml', '<SOAP-ENV:Fault>'],
    ['/api/role', 'application/json', '"errorMesg":"[TRANSFER-CODING] '],
    ['/mdx/xmla/clearCache', 'text/plain', 'Transfer-Encoding'],
    ['/admin/explain', 'application/json', '"error":"transfer-coding"'],
  ])('is told at %s with 501, as %s, and the connection ends', async (path, type, said) => {
    for (const coding of [
      'Transfer-Encoding: gzip, chunked',
      'Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked',
      'Transfer-Encoding: identity, Chunked',
    ]) {
      const answer = await tell(path, coding);
      expect(answer).toMatch(/^HTTP\/1\.1 501 Not Implemented\r\n/);
      expect(answer).toMatch(/\r\nconnection: close\r\n/i);
      expect(answer.toLowerCase()).toContain(`\r\ncontent-type: ${type}`);
      expect(answer).toContain(said);
    }
    expect(engine.seen).toEqual([]);
  });

  test('is not chunked in other letters', async () => {
    const close = 'Connection: close\r\nTransfer-Encoding: Chunked';
    expect(await tell('/mdx/xmla', close)).toMatch(/^HTTP\/1\.1 200 /);
  });
});
