import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { XmlDocument } from 'libxml2-wasm';
import { Agent } from 'node:http';
import { ENGINE_KINDS } from '../../src/common/engine-kinds.ts';
import { classify } from '../../src/xmla/request/classify.ts';
import { readRequest } from '../../src/xmla/request/read-request.ts';
import { mddatasetAnswer, rowsetAnswer } from '../support/answers.ts';
import { discover, execute } from '../support/envelopes.ts';
import { askXmla, shortStatus } from '../support/http-client.ts';
import { fuzzSeed, mutate, randomFrom } from '../support/mutate.ts';
import { sizes } from '../support/sizes.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** Requests with random damage, sent through the whole gateway. Repeat a run with FUZZ_SEED. */

const SEEDS: readonly Buffer[] = [
  execute({
    statement: "WITH MEMBER [a] AS '1' SELECT {[a], [Time].[1997]} ON 0 FROM [Sales] -- end",
    properties: { Catalog: 'A', Format: 'Multidimensional', ClientProcessID: '7' },
  }),
  execute({
    statement: 'SELECT FROM [ü]',
    prefix: '',
    parameters: [{ name: 'p', type: 'xsd:int', value: '1' }],
  }),
  discover({
    requestType: 'MDSCHEMA_CUBES',
    restrictions: [{ name: 'CUBE_NAME', form: 'value', values: ['a', 'b'] }],
    properties: { Catalog: 'A' },
  }),
];

let engine: StubEngine;
let gateway: TestGateway;
const rejections: unknown[] = [];
const onRejection = (reason: unknown) => rejections.push(reason);

beforeAll(async () => {
  process.on('unhandledRejection', onRejection);
  engine = await startStubEngine((response, seen) => {
    const asksRows = seen.body.includes('Discover');
    void sendXml(asksRows ? rowsetAnswer() : mddatasetAnswer())(response, seen);
  });
  gateway = await startTestGateway({ engine: { url: engine.url }, log: { level: 'silent' } });
});
afterAll(async () => {
  process.off('unhandledRejection', onRejection);
  await gateway.close();
  await engine.close();
});

/** Whether a second parser, and the gateway's own rules read apart from it, allow an answer to be stored. */
function mayBeStored(body: Buffer): boolean {
  try {
    XmlDocument.fromBuffer(body).dispose();
  } catch {
    return false;
  }
  const reading = readRequest(body, 'text/xml; charset=utf-8');
  return (
    reading.kind === 'understood' && classify(reading.request, ENGINE_KINDS.generic) === undefined
  );
}

test('damaged requests crash nothing, hang nowhere, and are stored only when they are whole queries', async () => {
  const seed = fuzzSeed();
  const random = randomFrom(seed);
  const agent = new Agent({ keepAlive: true });
  const counts = { seed, runs: sizes.fuzzedEnvelopes, stored: 0, hits: 0, passed: 0, refused: 0 };
  const reached = () => [counts.stored, counts.hits, counts.passed, counts.refused];
  // What is rare, such as a document type, may come late: then it goes on until it has come.
  for (
    let run = 0;
    run < counts.runs || (reached().includes(0) && run < 10 * counts.runs);
    run += 1
  ) {
    const body = mutate(SEEDS[run % SEEDS.length] ?? Buffer.alloc(0), random);
    const before = engine.seen.length;
    const answer = await askXmla(gateway.url, body, { agent });
    const found = { seed, run, body: body.toString('latin1') };
    const status = shortStatus(answer);
    expect({ ...found, whole: answer.whole }).toEqual({ ...found, whole: true });
    if (status === 'hit' || status.startsWith('miss')) {
      expect({ ...found, may: mayBeStored(body) }).toEqual({ ...found, may: true });
      if (status === 'hit') counts.hits += 1;
      else counts.stored += 1;
    } else if (status.startsWith('bypass')) {
      counts.passed += 1;
      expect(engine.seen.at(-1)?.body.equals(body)).toBe(true);
    } else {
      counts.refused += 1;
      expect({ ...found, answer: [answer.status, status] }).toEqual({
        ...found,
        answer: [400, 'gateway bad-request'],
      });
    }
    const asked = status === 'hit' || status.startsWith('gateway') ? 0 : 1;
    expect({ ...found, asked: engine.seen.length - before }).toEqual({ ...found, asked });
  }
  agent.destroy();
  console.log(`fuzzed requests: ${JSON.stringify(counts)}`);
  expect(gateway.events.filter(({ type }) => type === 'internal-error')).toEqual([]);
  expect(rejections).toEqual([]);
  // A fuzz that reaches only one side of the question asks nothing.
  expect(reached()).not.toContain(0);
}, 180_000);
