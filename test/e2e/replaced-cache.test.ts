import { request } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { shortStatus } from '../support/http-client.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const QUERY = execute({ statement: 'SELECT FROM [Sales]' });

let engine: StubEngine;
let gateway: TestGateway;

beforeEach(async () => {
  engine = await startStubEngine(sendXml(mddatasetAnswer()));
  gateway = await startTestGateway({ engine: { url: engine.url } });
});
afterEach(async () => {
  await gateway?.close();
  await engine?.close();
});

/** Begins a query and resolves when the gateway has it, but for its body. */
async function begin() {
  const exchange = request(`${gateway.url}/mdx/xmla`, {
    method: 'POST',
    agent: false,
    headers: {
      authorization: basic('alice'),
      'content-type': 'text/xml',
      'content-length': QUERY.length,
      expect: '100-continue',
    },
  });
  const answered = new Promise<string>((resolve, reject) => {
    exchange.once('error', reject);
    exchange.once('response', (response) => {
      response.resume();
      response.once('close', () => resolve(shortStatus(response)));
    });
  });
  exchange.flushHeaders();
  await new Promise((resolve) => {
    exchange.once('continue', resolve);
  });
  return {
    /** Sends the body. */
    end(): Promise<string> {
      exchange.end(QUERY);
      return answered;
    },
  };
}

const ask = async () => (await begin()).end();

describe('a cache that a reload replaces', () => {
  test('is out of memory at once, and keeps nothing any more, however long its requests last', async () => {
    expect(await ask()).toBe('miss stored');
    const requests = [await begin(), await begin(), await begin()];
    expect(await requests[0]?.end()).toBe('hit');
    await gateway.reload({ engine: { url: engine.url }, cache: { ttl: '11h' } });
    expect(await requests[1]?.end()).toBe('miss stored');
    expect(await requests[2]?.end()).toBe('miss stored');
    expect([await ask(), await ask()]).toEqual(['miss stored', 'hit']);
  });
});
