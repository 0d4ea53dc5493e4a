import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { gzipSync } from 'node:zlib';
import { XMLA } from '../../../../src/xmla/names.ts';
import { readRequest } from '../../../../src/xmla/request/read-request.ts';
import { envelope, faultAnswer } from '../../../support/answers.ts';
import { until } from '../../../support/http-client.ts';
import { sizes } from '../../../support/sizes.ts';
import { gate, sendXml, startStubEngine } from '../../../support/stub-engine.ts';
import { ADDRESSEE, DEAD, engineHouse, type EngineHouse } from '../engine-house.ts';
import { shared } from '../../../support/opened.ts';

const EMPTY = envelope(
  `<ExecuteResponse xmlns="${XMLA}"><return><root xmlns="${XMLA}:empty"/></return></ExecuteResponse>`,
);
const never = new AbortController().signal;

const stub = shared(() => startStubEngine(() => {}));
let house: EngineHouse;

beforeEach(() => {
  stub.seen.length = 0;
  stub.answerWith(sendXml(EMPTY));
  house = engineHouse([stub.url]);
});
afterEach(() => house.engine.close());

const touch = (id = 'one') => house.engine.touch(ADDRESSEE, id, never);

describe('a touch', () => {
  test('is an empty Execute in that session, with the login of any request, and changes nothing', async () => {
    house.engine.close();
    house = engineHouse([stub.url], { login: 'forward' });
    expect(await touch('a"b')).toEqual({ kind: 'alive' });
    const [seen] = stub.seen;
    expect(seen?.headers).toMatchObject({
      'content-type': 'text/xml; charset=utf-8',
      soapaction: `"${XMLA}:Execute"`,
      authorization: ADDRESSEE.authorization,
    });
    expect(seen?.headers).not.toHaveProperty('user-agent');
    const body = seen?.body.toString();
    expect(body).toContain(
      `<Execute xmlns="${XMLA}"><Command><Statement/></Command><Properties><PropertyList/></Properties></Execute>`,
    );
    expect(body).toContain(`<Session xmlns="${XMLA}" mustUnderstand="1" SessionId="a&#34;b"/>`);
  });

  test('names the session and nothing else, whatever its id is', async () => {
    const ids = fc
      .string({ unit: 'grapheme', minLength: 1 })
      .filter((id) => /^[\P{C}]*$/u.test(id));
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(ids, fc.constantFrom('"/><a>', '&lt;', "'\t\r\n", ' x ')),
        async (id) => {
          expect(await touch(id)).toEqual({ kind: 'alive' });
          const seen = stub.seen.at(-1);
          const reading = readRequest(seen?.body ?? Buffer.alloc(0), 'text/xml');
          expect(reading).toMatchObject({
            kind: 'understood',
            request: { method: 'Execute', session: { kind: 'in', id } },
          });
        },
      ),
      { numRuns: sizes.touches },
    );
  });

  test.each([200, 500])('that a Fault answers with %i brings it as it came', async (status) => {
    stub.answerWith(
      sendXml(gzipSync(faultAnswer()), { status, headers: { 'content-encoding': 'gzip' } }),
    );
    const touched = await touch();
    expect(touched).toMatchObject({
      kind: 'fault',
      head: { status, headers: { 'content-type': 'text/xml; charset=utf-8' } },
      body: Buffer.from(faultAnswer()),
    });
    expect(touched).not.toHaveProperty('head.headers.content-encoding');
  });

  test.each([
    ['another status without a Fault', sendXml(EMPTY, { status: 503 })],
    [
      'a page',
      sendXml('<html><body>Log in</body></html>', { headers: { 'content-type': 'text/html' } }),
    ],
    ['no body', sendXml('')],
    ['half an envelope', sendXml(EMPTY.slice(0, -5))],
    ['half a Fault', sendXml(faultAnswer().slice(0, -20))],
    [
      'a Fault in another coding',
      sendXml(faultAnswer(), { headers: { 'content-encoding': 'br' } }),
    ],
    ['a long answer', sendXml(EMPTY + ' '.repeat(64 * 1024))],
    ['a refused login', sendXml(faultAnswer(), { status: 401 })],
    [
      'an answer that breaks off',
      (response: Parameters<ReturnType<typeof sendXml>>[0]) => {
        response.writeHead(200, { 'content-type': 'text/xml', 'content-length': 9_999 });
        response.write(EMPTY, () => response.destroy());
      },
    ],
  ])('that %s answers has failed', async (_what, answer) => {
    stub.answerWith(answer);
    expect(await touch()).toEqual({ kind: 'failed' });
    await until(() => house.atEngine() === 0);
  });

  test('has failed when the engine cannot be reached', async () => {
    house.engine.close();
    house = engineHouse([DEAD]);
    expect(await touch()).toEqual({ kind: 'failed' });
    expect(house.failures()).toEqual(['engine-unreachable']);
  });

  test('has failed when nobody waits for it any more', async () => {
    const arrived = gate();
    stub.answerWith(() => arrived.open());
    const gone = new AbortController();
    const touched = house.engine.touch(ADDRESSEE, 'one', gone.signal);
    await arrived.opened;
    gone.abort();
    expect(await touched).toEqual({ kind: 'failed' });
  });

  test('goes to the replica of its session and to no other', async () => {
    house.engine.close();
    house = engineHouse([`${DEAD}/a`, stub.url]);
    const to = (replica: string) => house.engine.touch({ ...ADDRESSEE, replica }, 'one', never);
    expect(await to(`${DEAD}/a`)).toEqual({ kind: 'failed' });
    expect(stub.seen).toEqual([]);
    expect(await to(stub.url)).toEqual({ kind: 'alive' });
  });
});
