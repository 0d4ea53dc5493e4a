import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startBrowser, type TestBrowser } from '../support/browser.ts';
import { describedInterface } from '../support/openapi-types.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

let browser: TestBrowser;
let gateway: TestGateway;
let offender: Server;
/** The page, with one operation open that reads, explain, or one that clears the cache. */
let reading: Seen;
let explaining: Seen;
let clearing: Seen;

interface Seen {
  /** The page as the browser built it. */
  readonly page: string;
  readonly console: readonly string[];
}

beforeAll(async () => {
  browser = await startBrowser();
  gateway = await startTestGateway({ engine: { url: 'http://127.0.0.1:1/' } });
  const asAlice = gateway.url.replace('://', '://alice:alice@');
  [reading, explaining, clearing] = await Promise.all([
    browse(`${asAlice}/docs#/Roles/listRoles`),
    browse(`${asAlice}/docs/#/Cache/explainXmla`),
    browse(`${asAlice}/docs/#/Cache/clearCache`),
  ]);
}, 600_000);
afterAll(async () => {
  offender?.close();
  await browser?.close();
  await gateway?.close();
});

/** Opens a page of the documentation, and waits until its operation is open. */
async function browse(url: string): Promise<Seen> {
  const { page, console } = await browser.open(url);
  await page.locator('.opblock.is-open .responses-inner').waitFor();
  return { page: await page.content(), console };
}

const operations = Object.values(describedInterface().paths).flatMap((item) =>
  [item.get, item.put, item.post, item.delete].filter((operation) => operation !== undefined),
);
const idsOf = (page: string) =>
  [...page.matchAll(/ id="operations-(?!tag-)([\w-]+)"/g)].map(([, id]) => id).sort();
const ids = operations.map(({ tags: [tag], operationId }) => `${tag}-${operationId}`).sort();

test('a browser that knows nothing but the gateway shows every operation, and complains of nothing', () => {
  for (const { page, console } of [reading, explaining, clearing]) {
    expect(console).toEqual([]);
    expect(idsOf(page)).toEqual(ids);
    expect(page).toMatch(/class="opblock opblock-(?:get|post) is-open"/);
  }
});

test('what only reads can be tried out on the page, and what clears the cache by GET cannot; it says why', () => {
  expect(reading.page).toContain('try-out__btn');
  expect(explaining.page).toContain('try-out__btn');
  expect(clearing.page).not.toContain('try-out__btn');
  expect(clearing.page).toContain('“Try it out” is there only where nothing changes');
});

test('nothing is filled in that asks for less than all roles, or for another request than the example', () => {
  const filled = (page: string) =>
    Object.fromEntries(
      [...page.matchAll(/<input[^>]* placeholder="(\w+)"[^>]* value="([^"]*)"/g)].map(
        ([, name = '', value]) => [name, value],
      ),
    );
  expect(filled(reading.page)).toMatchObject({ RoleName: '', pageNum: '0' });
  const words = { project: '', user: '', user_agent: '', content_type: '' };
  expect(filled(explaining.page)).toEqual({ ...words, SOAPAction: '' });
  expect(explaining.page).toContain('MDSCHEMA_CUBES');
  expect(explaining.page).not.toContain('example cannot be generated');
});

test('a browser that has something to complain of would be heard', async () => {
  offender = createServer((_request, response) => {
    response.setHeader('content-security-policy', "default-src 'none'");
    response.end('<!doctype html><img src="http://elsewhere.example/image.png">');
  });
  await new Promise<void>((resolve) => offender.listen(0, '127.0.0.1', resolve));
  const { port } = offender.address() as AddressInfo;
  const { console } = await browser.open(`http://127.0.0.1:${port}/`);
  expect(console.join()).toContain('Content Security Policy');
});
