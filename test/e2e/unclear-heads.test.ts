import { beforeEach, expect, test } from '@jest/globals';
import { HITS_UNTIL_REMEMBERED, untilRemembered } from '../support/remembered.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, portOf, sendRaw } from '../support/http-client.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const QUERY = execute({ statement: 'SELECT FROM [Sales]' });

const engine = shared(() => startStubEngine(sendXml(mddatasetAnswer())));
const gateway = shared(() => startTestGateway({ engine: { url: engine.url } }));

beforeEach(() => void engine.seen.splice(0));

/** @param headers lines of the head beside the first one */
async function ask(request: string, headers: readonly string[], version = '1.1') {
  const head = [
    `${request} HTTP/${version}`,
    ...headers,
    `Authorization: ${basic('ADMIN')}`,
    'Content-Type: text/xml; charset=utf-8',
    'Connection: close',
  ];
  const text = `${head.join('\r\n')}\r\n\r\n${QUERY.toString()}`;
  return (await sendRaw(portOf(gateway.url), text)).bytes.toString();
}

const LENGTH = `Content-Length: ${QUERY.length}`;
const REASON = 'The request has several headers Host; one is allowed.';
const ENVELOPE = `{"status":1,"data":"failure","errorMesg":"[BAD-REQUEST] ${REASON} (request R-1)","code":"bad-request"}`;
const JSON_ERROR = `{"error":"bad-request","message":"${REASON} (request R-1)"}`;

const ROUTES = [
  ['POST /mdx/xmla', 'text/xml', REASON],
  ['POST /mdx/xmla/learn', 'text/xml', REASON],
  ['GET /mdx/xmla/no/such/path', 'text/xml', REASON],
  ['POST /mdx/xmla/clearCache', 'text/plain', REASON],
  ['POST /mdx/xmla/learn/clearCache', 'text/plain', REASON],
  ['GET /api/roles', 'application/json', ENVELOPE],
  ['GET /api/no-such', 'application/json', ENVELOPE],
  ['POST /admin/explain', 'application/json', JSON_ERROR],
  ['GET /admin/purges', 'application/json', JSON_ERROR],
  ['GET /metrics', 'application/json', JSON_ERROR],
  ['GET /docs', 'application/json', JSON_ERROR],
  ['GET /health/ready', 'application/json', JSON_ERROR],
  ['GET /health/live', 'application/json', JSON_ERROR],
  ['GET /nothing', 'application/json', JSON_ERROR],
] as const;

test.each(ROUTES)(
  '%s with two Host headers is refused in the shape of its path',
  async (request, type, body) => {
    const answer = await ask(request, [
      'Host: gateway',
      'Host: gateway',
      'X-Request-Id: R-1',
      LENGTH,
    ]);
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer.toLowerCase()).toContain(`content-type: ${type}`);
    expect(answer.split('\r\n\r\n')[1]).toContain(body);
    expect(engine.seen).toEqual([]);
  },
);

test.each([
  ['POST /mdx/xmla', 'text/xml'],
  ['POST /mdx/xmla/clearCache', 'text/plain'],
  ['GET /api/roles', 'application/json'],
  ['GET /health/live', 'application/json'],
])('%s without a Host is refused in words, in HTTP/1.1', async (request, type) => {
  const answer = await ask(request, [LENGTH]);
  expect(answer).toMatch(
    /^HTTP\/1\.1 400 [^]*The request has no header Host; HTTP\/1\.1 needs one\./,
  );
  expect(answer.toLowerCase()).toContain(`content-type: ${type}`);
  expect(engine.seen).toEqual([]);
});

test('a request of HTTP/1.0 without a Host is answered', async () => {
  expect(await ask('POST /mdx/xmla', [LENGTH], '1.0')).toMatch(/^HTTP\/1\.1 200 /);
});

test('a query that is remembered is refused with a second Host, wherever it stands', async () => {
  const headers = { host: 'gateway' };
  const known = () => askXmla(gateway.url, QUERY, { headers });
  await known();
  await untilRemembered(known);
  // Byte by byte the same head, as far as it is the same.
  const plain = ['Host: gateway', LENGTH];
  for (let hits = 0; hits <= HITS_UNTIL_REMEMBERED; hits += 1) await ask('POST /mdx/xmla', plain);
  expect(await ask('POST /mdx/xmla', plain)).toMatch(/^HTTP\/1\.1 200 /);
  for (const twice of [
    ['Host: other', ...plain],
    [...plain, 'hOST: gateway'],
  ]) {
    expect(await ask('POST /mdx/xmla', twice)).toMatch(/^HTTP\/1\.1 400 [^]*several headers Host/);
  }
});

test('a query without a Host that is remembered of HTTP/1.0 is refused in HTTP/1.1', async () => {
  for (let hits = 0; hits <= HITS_UNTIL_REMEMBERED; hits += 1)
    await ask('POST /mdx/xmla', [LENGTH], '1.0');
  expect(await ask('POST /mdx/xmla', [LENGTH], '1.0')).toMatch(/^HTTP\/1\.1 200 /);
  expect(await ask('POST /mdx/xmla', [LENGTH])).toMatch(/^HTTP\/1\.1 400 [^]*no header Host/);
});

test.each(['gateway, other', 'user@gateway', 'gateway/path', 'gateway:80a', '[::1', 'g\xe4teway'])(
  'the Host %s is refused',
  async (host) => {
    const answer = await ask('POST /mdx/xmla', [`Host: ${host}`, LENGTH]);
    expect(answer).toMatch(/^HTTP\/1\.1 400 [^]*The header Host is not valid/);
    expect(engine.seen).toEqual([]);
  },
);

test.each([
  'gateway',
  'my_host.example:7080',
  '127.0.0.1:80',
  '[::1]:7080',
  '[fe80::1]',
  'xn--bcher-kva.de',
  '',
])('the Host "%s" is answered', async (host) => {
  expect(await ask('POST /mdx/xmla', [`Host: ${host}`, LENGTH])).toMatch(/^HTTP\/1\.1 200 /);
});

test.each([
  ['no Host', [LENGTH]],
  ['two lengths', ['Host: gateway', LENGTH, 'Content-Length: 0']],
  ['a list of lengths', ['Host: gateway', `${LENGTH}, ${QUERY.length}`]],
  ['a length beside a transfer coding', ['Host: gateway', LENGTH, 'Transfer-Encoding: chunked']],
  ['a transfer coding behind chunked', ['Host: gateway', 'Transfer-Encoding: chunked, gzip']],
  ['chunked twice', ['Host: gateway', 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked']],
  ['a space before a colon', ['Host: gateway', LENGTH.replace(':', ' :')]],
  ['a folded line', ['Host: gateway', 'X-One: a', ' Content-Length: 0', LENGTH]],
  ['a bare carriage return', ['Host: gateway', 'X-One: a\rContent-Length: 0', LENGTH]],
  ['a zero byte', ['Host: gateway', 'X-One: a\0b', LENGTH]],
])('a head with %s is refused', async (_what, headers) => {
  expect(await ask('POST /mdx/xmla', headers)).toMatch(/^HTTP\/1\.1 400 /);
  expect(engine.seen).toEqual([]);
});
