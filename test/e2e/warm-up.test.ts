import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus, until } from '../support/http-client.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

let engine: StubEngine;
let gateway: TestGateway;
beforeAll(async () => {
  engine = await startStubEngine(sendXml(mddatasetAnswer()));
});
afterAll(() => engine.close());
afterEach(() => gateway.close());

const query = (n: number) =>
  execute({ statement: `SELECT FROM [Q${n}]`, properties: { Catalog: 'Shop' } });

test('warms', async () => {
  gateway = await startTestGateway({
    engine: { url: engine.url },
    cache: { share: 'everyone' },
    warm: { mode: 'auto', settle: '0' },
  });
  for (let n = 0; n < 60; n += 1) await askXmla(gateway.url, query(n % 30));
  const { status } = await send(gateway.url, {
    path: '/mdx/xmla/clearCache',
    headers: { authorization: basic('ADMIN') },
  });
  expect(status).toBe(200);
  const at = performance.now();
  await until(() => gateway.events.some((one) => one.type === 'warm-run' && one.state === 'ended'));
  console.log(
    performance.now() - at,
    gateway.events.filter((one) => one.type === 'warm-run'),
  );
  const told = await send(gateway.url, {
    path: '/admin/warm',
    headers: { authorization: basic('ADMIN') },
  });
  console.log(told.text.slice(0, 3000));
  expect(shortStatus(await askXmla(gateway.url, query(3)))).toBe('hit');
});
