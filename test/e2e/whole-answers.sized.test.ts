import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Agent } from 'node:http';
import { gunzipSync } from 'node:zlib';
import { faultAnswer, mddatasetAnswer, response } from '../support/answers.ts';
import { discover, execute } from '../support/envelopes.ts';
import { framingSeed } from '../support/framing.ts';
import { askXmla, shortStatus, type Answer, type XmlaMessage } from '../support/http-client.ts';
import { randomFrom } from '../support/mutate.ts';
import { sizes } from '../support/sizes.ts';
import {
  sendXml,
  startStubEngine,
  type StubAnswer,
  type StubEngine,
} from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** Every answer has all the bytes that the engine sent, however it framed them, and whatever way it took. */

const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
const STAMP = 'stamp-000000';
const stampOf = (number: number) => `stamp-${String(number).padStart(6, '0')}`;

/** Of one in each size, so that 20,000 are made quickly: the stamp alone differs. */
const cells = [2, 20, 60, 140, 300, 500, 900, 2_500] as const;
const member = (at: number) => `Möbel – 家具 ${at}`;
const datasets = cells.map((count) =>
  mddatasetAnswer({
    cells: count,
    members: [STAMP, ...Array.from({ length: Math.ceil(count / 10) }, (_, at) => member(at))],
  }),
);
const rows = (header = '') =>
  response(
    'Discover',
    'rowset',
    Array.from({ length: 120 }, (_, at) => `<row><A>${STAMP}</A><B>${member(at)}</B></row>`).join(
      '',
    ),
    { header },
  );
const rowset = rows();
const fault = faultAnswer().replace('cube not found', `${STAMP} – ü`);

interface Kind {
  readonly name: string;
  readonly body: (stamp: string) => Buffer;
  readonly answer: (below: (limit: number) => number) => string;
  readonly status?: number;
  readonly user?: string;
  /** What becomes of it at the first and at the second time. */
  readonly becomes: readonly string[];
}

const ODD = '<x:Trace xmlns:x="urn:x">1</x:Trace>';
const withHeader = (body: Buffer, header: string) =>
  Buffer.from(
    body.toString().replace('<SOAP-ENV:Body>', `<SOAP-ENV:Header>${header}</SOAP-ENV:Header>$&`),
  );
const dataset = (below: (limit: number) => number) => datasets[below(datasets.length)] as string;
const longest = () => datasets.at(-1) as string;
const select = (stamp: string) => execute({ statement: `SELECT FROM [${stamp}]` });
const again = (reason: string) => [`bypass ${reason}`, `bypass ${reason}`];

const KINDS: readonly Kind[] = [
  { name: 'a query', body: select, answer: dataset, becomes: ['miss stored', 'hit'] },
  { name: 'a long query', body: select, answer: longest, becomes: ['miss', 'hit'] },
  {
    name: 'an odd Discover',
    body: (stamp) => withHeader(discover({ requestType: `MDSCHEMA_${stamp}` }), ODD),
    answer: () => rowset,
    becomes: again('unknown-shape'),
  },
  {
    name: 'DISCOVER_PROPERTIES',
    body: (stamp) =>
      discover({ requestType: 'DISCOVER_PROPERTIES', properties: { Catalog: stamp } }),
    answer: () => rowset,
    becomes: again('discover-type'),
  },
  {
    name: 'a session begun',
    body: (stamp) =>
      discover({
        requestType: 'MDSCHEMA_CUBES',
        session: { kind: 'begin' },
        properties: { Catalog: stamp },
      }),
    answer: () => rows(`<Session xmlns="${XMLA}" SessionId="${STAMP}" />`),
    becomes: again('session'),
  },
  {
    name: 'a Fault with 200',
    body: select,
    answer: () => fault,
    becomes: ['miss fault', 'miss fault'],
  },
  {
    name: 'a Fault with 500',
    body: select,
    answer: () => fault,
    status: 500,
    becomes: ['miss engine-status', 'miss engine-status'],
  },
  {
    name: 'a Fault that passes with 500',
    body: (stamp) => execute({ statement: `DRILLTHROUGH SELECT FROM [${stamp}]` }),
    answer: () => fault,
    status: 500,
    becomes: again('drillthrough'),
  },
  {
    name: 'DAX',
    body: (stamp) => execute({ statement: `EVALUATE '${stamp}'` }),
    answer: dataset,
    becomes: again('not-a-query'),
  },
  {
    name: 'a change that purges',
    body: (stamp) =>
      execute({
        statement: `UPDATE CUBE [${stamp}] SET ([A]) = 1`,
        properties: { Catalog: stamp },
      }),
    answer: dataset,
    user: 'ADMIN',
    becomes: again('not-a-query'),
  },
];

let next = 0;
let engine: StubEngine;
let gateway: TestGateway;
/** What the engine says under a stamp. */
const said = new Map<string, { readonly text: string; readonly status: number }>();
const agent = new Agent({ keepAlive: true, maxSockets: 8 });

beforeAll(async () => {
  engine = await startStubEngine(sayWhole);
  gateway = await startTestGateway({ engine: { url: engine.url, kind: 'generic' } });
});
const sayWhole: StubAnswer = (to, seen) => {
  const stamp = /stamp-\d{6}/.exec(seen.body.toString())?.[0] ?? '';
  const { text = '', status = 200 } = said.get(stamp) ?? {};
  return sendXml(text, { status })(to, seen);
};
afterAll(async () => {
  agent.destroy();
  await gateway.close();
  await engine.close();
});
beforeEach(() => {
  engine.answerWith(sayWhole);
  engine.seen.length = 0;
  gateway.events.length = 0;
});

const decoded = ({ headers, body }: Answer) =>
  headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;

async function ask(kind: Kind, stamp: string, takesGzip: boolean): Promise<Answer> {
  const message: XmlaMessage = {
    agent,
    ...(kind.user !== undefined && { user: kind.user }),
    headers: takesGzip ? { 'accept-encoding': 'gzip' } : {},
  };
  const answer = await askXmla(gateway.url, kind.body(stamp), message);
  const expected = Buffer.from(said.get(stamp)?.text ?? '');
  const plain = decoded(answer);
  if (answer.whole && plain.equals(expected) && answer.status === (kind.status ?? 200)) {
    return answer;
  }
  const seen = `${answer.status}, ${plain.length} of ${expected.length} bytes`;
  throw new Error(
    `FRAMING_SEED=${framingSeed()}: ${kind.name} ${stamp} gave ${seen}, ${shortStatus(answer)}`,
  );
}

test(`${sizes.wholeAnswers} answers of all kinds are whole in all framings`, async () => {
  const below = randomFrom(framingSeed());
  let asked = 0;
  const outcomes = new Map<string, Set<string>>();

  async function lane(): Promise<void> {
    while (asked < sizes.wholeAnswers) {
      const kind = KINDS[(next += 1) % KINDS.length] as Kind;
      const stamp = stampOf(next);
      const text = kind.answer(below).replaceAll(STAMP, stamp);
      said.set(stamp, { text, status: kind.status ?? 200 });
      for (let time = 0; time < 2; time += 1) {
        const answer = await ask(kind, stamp, below(2) === 1);
        asked += 1;
        const of = outcomes.get(kind.name) ?? new Set();
        outcomes.set(kind.name, of.add(shortStatus(answer)));
      }
      said.delete(stamp);
      engine.seen.length = 0;
    }
  }
  await Promise.all(Array.from({ length: 8 }, lane));
  console.log(`FRAMING_SEED=${framingSeed()}: ${asked} answers, all whole`);
  // Each took the way that it is here for.
  for (const { name, becomes } of KINDS) {
    expect([...(outcomes.get(name) ?? [])]).toEqual(expect.arrayContaining([...new Set(becomes)]));
  }
  const answered = gateway.events.filter((event) => event.type === 'xmla-answered');
  expect(answered.filter(({ complete }) => !complete)).toEqual([]);
  expect(gateway.events.filter(({ type }) => type === 'internal-error')).toEqual([]);
});

describe.each([200, 8 * 1024, 16 * 1024])('60 KB in chunks of %i bytes, in one write', (size) => {
  test.each(KINDS.map((kind) => [kind.name, kind] as const))('%s is whole', async (_name, kind) => {
    const stamp = stampOf(999_000 + (next += 1));
    const text = rows(`<!-- ${stamp} ${'ü'.repeat(20_000)} -->`);
    const body = Buffer.from(text);
    engine.answerWith((to) => {
      to.writeHead(kind.status ?? 200, { 'content-type': 'text/xml; charset=utf-8' });
      to.socket?.cork();
      for (let at = 0; at < body.length; at += size) to.write(body.subarray(at, at + size));
      to.end();
      to.socket?.uncork();
    });
    said.set(stamp, { text, status: kind.status ?? 200 });
    for (let time = 0; time < 3; time += 1) await ask(kind, stamp, false);
  });
});
