import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { describedInterface } from '../support/openapi-types.ts';
import { ensureDebianPackages } from '../support/debian-packages.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

let gateway: TestGateway;
let offender: Server;
/** The page, with one operation open that reads, explain, or one that clears the cache. */
let reading: Seen;
let explaining: Seen;
let clearing: Seen;
/** A page that does what its policy forbids. */
let offending: Seen;

beforeAll(async () => {
  await ensureDebianPackages([{ name: 'chromium', probe: 'chromium' }]);
  gateway = await startTestGateway({ engine: { url: 'http://127.0.0.1:1/' } });
  offender = createServer((_request, response) => {
    response.setHeader('content-security-policy', "default-src 'none'");
    response.end('<!doctype html><img src="http://elsewhere.example/image.png">');
  });
  await new Promise<void>((resolve) => offender.listen(0, '127.0.0.1', resolve));
  const asAlice = gateway.url.replace('://', '://alice:alice@');
  [reading, explaining, clearing, offending] = await Promise.all([
    browse(`${asAlice}/docs#/Roles/listRoles`),
    browse(`${asAlice}/docs/#/Cache/explainXmla`),
    browse(`${asAlice}/docs/#/Cache/clearCache`),
    browse(`http://127.0.0.1:${(offender.address() as AddressInfo).port}/`),
  ]);
}, 600_000);
afterAll(async () => {
  offender?.close();
  await gateway?.close();
});

interface Seen {
  /** The page as the browser built it. */
  readonly page: string;
  /** What the browser's console was told, violations of the Content-Security-Policy among it. */
  readonly console: readonly string[];
}

/** Opens a page in a browser that knows no host but this one. */
async function browse(url: string): Promise<Seen> {
  const folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-browser-'));
  const browser = spawn(
    'chromium',
    [
      '--headless',
      // The sandbox does not work for root.
      '--no-sandbox',
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      `--user-data-dir=${folder}`,
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
      '--enable-logging=stderr',
      '--log-level=0',
      // The page's own clock: it runs on when nothing is left to be loaded.
      '--virtual-time-budget=30000',
      '--dump-dom',
      url,
    ],
    { env: { PATH: process.env['PATH'], HOME: folder }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let page = '';
  let log = '';
  browser.stdout.on('data', (chunk: Buffer) => (page += chunk.toString()));
  browser.stderr.on('data', (chunk: Buffer) => (log += chunk.toString()));
  const code = await new Promise<number | null>((resolve, reject) => {
    browser.once('error', reject);
    browser.once('close', resolve);
  });
  rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  if (code !== 0) throw new Error(`chromium ended with ${code}:\n${log}`);
  return { page, console: log.split('\n').filter((line) => line.includes(':CONSOLE')) };
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
  expect(filled(explaining.page)).toEqual({ project: '', user: '', SOAPAction: '' });
  expect(explaining.page).toContain('MDSCHEMA_CUBES');
  expect(explaining.page).not.toContain('example cannot be generated');
});

test('a browser that has something to complain of would be heard', () => {
  expect(offending.console.join()).toContain('Content Security Policy');
});
