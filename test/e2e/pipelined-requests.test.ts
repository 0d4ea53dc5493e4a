import { afterAll, beforeAll, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { untilRemembered } from '../support/remembered.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, portOf, sendRaw } from '../support/http-client.ts';
import { sizes } from '../support/sizes.ts';
import { startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

let engine: StubEngine;
let gateway: TestGateway;
let count = 0;

/** The last one is too long to leave in one write. */
const KNOWN = [0, 1, 2] as const;
const query = (stamp: string) => execute({ statement: `SELECT FROM [Sales] WHERE [${stamp}]` });

beforeAll(async () => {
  engine = await startStubEngine(async (response, { body }) => {
    const stamp = /stamp\w+/.exec(body.toString())?.[0] ?? 'none';
    for (let turns = stamp.length % 3; turns > 0; turns -= 1) await new Promise(setImmediate);
    const cells = stamp === 'stampKnown2' ? 3_000 : 2;
    response.writeHead(200, { 'content-type': 'text/xml; charset=utf-8' });
    response.end(mddatasetAnswer({ cells, cell: () => `<Value>${stamp}</Value>` }));
  });
  gateway = await startTestGateway({ engine: { url: engine.url } });
  for (const known of KNOWN) {
    const ask = () => askXmla(gateway.url, query(`stampKnown${known}`), { headers: HEADERS });
    await ask();
    await untilRemembered(ask);
  }
});
afterAll(async () => {
  await gateway.close();
  await engine.close();
});

const HEADERS = { host: 'gateway', 'content-type': 'text/xml' };

interface Asked {
  readonly bytes: Buffer;
  /** The stamp of its answer, else the status. */
  readonly own: string;
}

function post(body: Buffer, own: string, login = basic('alice')): Asked {
  const head =
    `POST /mdx/xmla HTTP/1.1\r\nauthorization: ${login}\r\ncontent-type: text/xml\r\n` +
    `content-length: ${body.length}\r\nhost: gateway\r\n\r\n`;
  return { bytes: Buffer.concat([Buffer.from(head), body]), own };
}

const KINDS: readonly (() => Asked)[] = [
  ...KNOWN.map((known) => () => post(query(`stampKnown${known}`), `stampKnown${known}`)),
  () => post(query(`stamp${(count += 1)}`), `stamp${count}`),
  () => post(execute({ statement: `CALL stamp${(count += 1)}()` }), `stamp${count}`),
  () => post(query('stampKnown0'), '401', 'Bearer x'),
  () => post(Buffer.from('<no'), '200'),
  () => ({ bytes: Buffer.from('GET /health/live HTTP/1.1\r\nhost: gateway\r\n\r\n'), own: '200' }),
];

const LAST = Buffer.from('GET /none HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n');

/** What each answer on a connection is: its stamp, else its status. */
function answersIn(bytes: Buffer): string[] {
  const answers: string[] = [];
  let rest = bytes.toString('latin1');
  while (rest !== '') {
    const at = rest.indexOf('\r\n\r\n') + 4;
    const head = rest.slice(0, at);
    const length = /^content-length: (\d+)/im.exec(head)?.[1];
    const end =
      length === undefined ? rest.indexOf('\r\n0\r\n\r\n', at - 2) + 7 : at + Number(length);
    if (at < 4 || end < at || !head.startsWith('HTTP/1.1 ')) throw new Error(`no answer: ${rest}`);
    const stamps = new Set(rest.slice(at, end).match(/(?<=<Value>)stamp\w+/g));
    answers.push(stamps.size === 0 ? head.slice(9, 12) : [...stamps].join(' '));
    rest = rest.slice(end);
  }
  return answers;
}

test('requests that come at once on one connection get their own answers in their order', async () => {
  const kinds = fc.array(fc.nat({ max: KINDS.length - 1 }), { minLength: 2, maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(kinds, async (chosen) => {
      const asked = chosen.map((kind) => KINDS[kind]?.() ?? post(Buffer.alloc(0), ''));
      const bytes = Buffer.concat([...asked.map((one) => one.bytes), LAST]);
      const answer = await sendRaw(portOf(gateway.url), bytes);
      const got = answersIn(answer.bytes);
      expect(got.slice(0, -1)).toEqual(asked.map(({ own }) => own));
    }),
    { numRuns: Math.min(sizes.propertyRuns, 100) },
  );
});

test('a query that came together with a change in front of it is no hit from before', async () => {
  const [admin, asked] = [basic('ADMIN'), query('stampKnown0')];
  const change = post(execute({ statement: 'UPDATE CUBE [Sales] SET [x] = 1' }), '', admin);
  const seen = () => engine.seen.filter(({ body }) => body.equals(asked)).length;
  await sendRaw(portOf(gateway.url), Buffer.concat([post(asked, '', admin).bytes, LAST]));
  const before = seen();
  const bytes = Buffer.concat([change.bytes, post(asked, '', admin).bytes, LAST]);
  expect(answersIn((await sendRaw(portOf(gateway.url), bytes)).bytes)[1]).toBe('stampKnown0');
  expect(seen()).toBe(before + 1);
});
