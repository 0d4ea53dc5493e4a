import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import axe from 'axe-core';
import type { Page, Route } from 'playwright-core';
import { mddatasetAnswer } from '../support/answers.ts';
import { type OpenPage, startBrowser, type TestBrowser } from '../support/browser.ts';
import { execute } from '../support/envelopes.ts';
import { freePort } from '../support/free-port.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const MARKUP = '"\'><img src=x onerror=alert(1)><script>alert(2)</script>&lt;';
const PATHS = [
  '/console',
  '/console/why',
  '/console/queries',
  '/console/queries?view=requests',
  '/console/queries?view=entries',
  '/console/purges',
  '/console/warm',
  '/console/system',
];

let engine: StubEngine;
let gateway: TestGateway;
let browser: TestBrowser;
/** What the engine answers. */
let data = mddatasetAnswer({ cells: 100, members: ['Milk'] });
const opened: OpenPage[] = [];
/** What is expected in the browser's console: of answers that are refused on purpose. */
let allowed: RegExp | undefined;

const settings = (port: number) => ({
  engine: { url: engine.url },
  listen: { port },
  auth: { admins: ['ADMIN'], viewers: ['eve'], purgers: ['pat'] },
  statistics: { text: 'on' },
  warm: { mode: 'auto' },
});
const start = (port: number) =>
  startTestGateway(settings(port), {}, ['eve', 'pat', `mallory ${MARKUP}`]);

beforeAll(async () => {
  engine = await startStubEngine((response, seen) => sendXml(data)(response, seen));
  gateway = await start(await freePort());
  browser = await startBrowser();
}, 600_000);
afterAll(async () => {
  await browser?.close();
  await gateway?.close();
  await engine?.close();
});
afterEach(async () => {
  const said = opened.flatMap(({ console }) => console);
  for (const { page } of opened.splice(0)) await page.context().close();
  const faults = said.filter((line) => allowed?.test(line) !== true);
  allowed = undefined;
  if (faults.length > 0) throw new Error(`The browser complained: ${faults.join('; ')}`);
});

async function open(path: string, user = 'ADMIN', options = {}): Promise<Page> {
  const login = { username: user, password: user.toLowerCase(), send: 'always' } as const;
  const page = await browser.open(gateway.url + path, { httpCredentials: login, ...options });
  opened.push(page);
  return page.page;
}

interface Ask {
  readonly user?: string;
  readonly project?: string;
  readonly catalog?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Asks as a client does. Resolves to Cache-Status. */
async function ask(
  statement: string,
  { user = 'alice', project = 'Shop', catalog = 'Sales', headers = {} }: Ask = {},
): Promise<string | null> {
  const answer = await fetch(`${gateway.url}/mdx/xmla/${encodeURIComponent(project)}`, {
    method: 'POST',
    headers: { authorization: basic(user), 'content-type': 'text/xml', ...headers },
    body: execute({ statement, properties: { Catalog: catalog } }),
  });
  await answer.arrayBuffer();
  return answer.headers.get('cache-status');
}

/** As when another tab is looked at. */
const hide = (page: Page, isHidden: boolean) =>
  page.evaluate(`Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));`);

describe('each page', () => {
  test.each(PATHS)(
    '%s opens, is accessible, and is legible from 360 px to 4K, light and dark',
    async (path) => {
      await ask('SELECT FROM [Sales]');
      await ask('SELECT FROM [Sales]');
      for (const colorScheme of ['light', 'dark'] as const) {
        const page = await open(path, 'ADMIN', {
          colorScheme,
          viewport: { width: 1280, height: 900 },
        });
        expect(await page.locator('.where').textContent()).toContain('ADMIN');
        await page.evaluate(axe.source);
        const serious = await page.evaluate(async () => {
          const { axe } = globalThis as unknown as {
            axe: {
              run(): Promise<{
                violations: { id: string; impact: string; nodes: { html: string }[] }[];
              }>;
            };
          };
          const { violations } = await axe.run();
          return violations
            .filter(({ impact }) => impact === 'serious' || impact === 'critical')
            .map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]);
        });
        expect(serious).toEqual([]);
        for (const width of [360, 768, 1280, 3840]) {
          await page.setViewportSize({ width, height: 900 });
          const wide = await page.evaluate('document.documentElement.scrollWidth');
          expect(wide).toBeLessThanOrEqual(width);
        }
      }
    },
  );
});

describe('nine o’clock', () => {
  test('is it working, and what is the hit rate: on the first page', async () => {
    const page = await open('/console');
    await page.locator('dt').getByText('Hit ratio', { exact: true }).waitFor();
    await page.getByText('1 of 1 up').waitFor();
  });

  test('which queries cost the engine most, and which would gain most: two clicks', async () => {
    await ask('SELECT {[Heavy]} ON 0 FROM [Sales]');
    const page = await open('/console');
    await page.getByRole('link', { name: 'Queries' }).click();
    await page.getByRole('link', { name: 'Engine, spent' }).click();
    await page.waitForURL(/sort=uncached/);
    await page
      .getByRole('columnheader', { name: 'Engine, spent' })
      .and(page.locator('[aria-sort=descending]'))
      .waitFor();
  });

  test('what is in the cache: two clicks', async () => {
    await ask('SELECT FROM [Sales]');
    const page = await open('/console');
    await page.getByRole('link', { name: 'Queries' }).click();
    await page.getByRole('link', { name: 'Entries in memory' }).click();
    await page.getByRole('cell', { name: 'Shop' }).first().waitFor();
  });

  test('why was the report of Alice slow, and why was it no hit: her latest requests, and one of them', async () => {
    await ask('SELECT Now() ON 0 FROM [Sales]');
    const page = await open('/console/queries?view=requests');
    await page.getByLabel('User').fill('alice');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.waitForURL(/user=alice/);
    await page.locator('tbody tr').first().locator('a').first().click();
    await page.getByText(/It took .* at the engine/).waitFor();
    await page.getByText(/calls a function whose value changes/).waitFor();
  });

  test('when was Shop purged, and by whom: on the first page', async () => {
    await ask('SELECT FROM [Sales]');
    await fetch(`${gateway.url}/mdx/xmla/Shop/clearCache`, {
      headers: { authorization: basic('pat') },
    });
    await ask('SELECT FROM [Sales]');
    const page = await open('/console');
    await page.getByRole('row', { name: /Shop.*by pat/ }).waitFor();
  });

  test('how many engine seconds were saved: on the first page', async () => {
    const page = await open('/console');
    await page.getByText('Engine time saved', { exact: true }).waitFor();
  });
});

describe('acts', () => {
  test('a purge needs the name, shows its receipt, and is in the log with who did it', async () => {
    await ask('SELECT {[Acts]} ON 0 FROM [Sales]');
    const page = await open('/console/purges', 'pat');
    await page.getByLabel('Project').fill('Shop');
    await page.getByRole('button', { name: 'Purge this project …' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox').fill('shop');
    expect(await dialog.getByRole('button', { name: 'Purge' }).isDisabled()).toBe(true);
    await dialog.getByRole('textbox').fill('Shop');
    await dialog.getByRole('button', { name: 'Purge' }).click();
    await page.getByText(/Shop is purged: no gateway answers with older data any more/).waitFor();
    await page
      .getByRole('row', { name: /Shop pat clearCache purged/ })
      .first()
      .waitFor();
    expect(gateway.events).toContainEqual(
      expect.objectContaining({ type: 'purged', principal: 'pat', scope: { project: 'Shop' } }),
    );
    expect(await ask('SELECT {[Acts]} ON 0 FROM [Sales]')).toMatch(/fwd=miss/);
  });

  test('a receipt stays that of what was purged, and a path that means everything is no project', async () => {
    const page = await open('/console/purges');
    const purge = page.getByRole('button', { name: 'Purge this project …' });
    await page.getByLabel('Project').fill('Shop');
    await purge.click();
    await page.getByRole('dialog').getByRole('textbox').fill('Shop');
    await page.keyboard.press('Enter');
    await page.getByText(/Shop is purged/).waitFor();
    await page.getByRole('button', { name: 'Purge everything …' }).click();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText(/Shop is purged/).waitFor();
    await page.getByLabel('Project').fill('.');
    await purge.click();
    expect(await page.getByRole('dialog').isVisible()).toBe(false);
  });

  test('everything is purged by its name alone, and what is cancelled is not', async () => {
    const page = await open('/console/purges');
    const purges = () => gateway.events.filter(({ type }) => type === 'purged').length;
    const before = purges();
    await page.getByRole('button', { name: 'Purge everything …' }).click();
    await page.getByRole('button', { name: 'Cancel' }).click();
    expect(purges()).toBe(before);
    await page.getByRole('button', { name: 'Purge everything …' }).click();
    await page.getByRole('dialog').getByRole('textbox').fill('everything');
    await page.keyboard.press('Enter');
    await page.getByText(/everything is purged/).waitFor();
    expect(purges()).toBe(before + 1);
  });

  test('a run of the warm-up asks again what its administrator would be answered', async () => {
    const statement = 'SELECT {[Warmed]} ON 0 FROM [Sales]';
    const own = { user: 'ADMIN', project: 'Warmed' };
    await ask(statement, own);
    await ask(statement, own);
    await fetch(`${gateway.url}/mdx/xmla/Warmed/clearCache`, {
      method: 'POST',
      headers: { authorization: basic('ADMIN') },
    });
    const page = await open('/console');
    await page.getByRole('link', { name: 'Warm-up' }).click();
    await page.getByText(/are asked again by POST .admin.warm only/).waitFor();
    await page.getByLabel('Project').fill('Warmed');
    await page.getByRole('button', { name: 'Run now, with my login' }).click();
    await page.getByText('A run has begun.').waitFor();
    // Planned, stored, and nothing there.
    await page.getByRole('row', { name: /ADMIN Warmed \d\d:\d\d:\d\d 1 1 0/ }).waitFor();
    expect(await ask(statement, own)).toMatch(/hit/);
  });

  test('explain says what becomes of a request of somebody, and what differs from the nearest entry', async () => {
    const statement = 'SELECT {[Why]} ON 0 FROM [Sales]';
    await ask(statement);
    await ask(statement);
    const page = await open('/console/why');
    const body = execute({ statement, properties: { Catalog: 'Sales' } }).toString();
    await page.getByLabel('XMLA request').fill(body);
    await page.getByLabel('Project of the path').fill('Shop');
    await page.getByLabel('Asked by').fill('alice');
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.getByText('cacheable: it is looked up in the cache').waitFor();
    await page.getByText(/^an entry of .* ago/).waitFor();
    await page.getByLabel('Asked by').fill('bob');
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.getByText(/which differs in identity: it is another user's/).waitFor();
  });

  test('the cache is compared with the engine: the same, then stale', async () => {
    const statement = 'SELECT {[Compared]} ON 0 FROM [Sales]';
    await ask(statement, { user: 'ADMIN' });
    await ask(statement, { user: 'ADMIN' });
    const page = await open('/console/why');
    const body = execute({ statement, properties: { Catalog: 'Sales' } }).toString();
    await page.getByLabel('XMLA request').fill(body);
    await page.getByLabel('Project of the path').fill('Shop');
    const compare = page.getByRole('button', { name: 'Ask the engine now and compare' });
    await compare.click();
    await page.getByText('The cache says what the engine says.').waitFor();
    const before = data;
    data = mddatasetAnswer({ cells: 100, members: ['Bread'] });
    await compare.click();
    await page.getByText(/The engine no longer says what the cache says/).waitFor();
    data = before;
    expect(gateway.events).toContainEqual(
      expect.objectContaining({ type: 'compared', principal: 'ADMIN', verdict: 'stale' }),
    );
    const passing = execute({ statement: `DRILLTHROUGH ${statement}`, properties: {} }).toString();
    await page.getByLabel('XMLA request').fill(passing);
    await compare.click();
    await page.getByText('The cache does not answer such a request.').waitFor();
    const why = await page.locator('[aria-live] .finding p').textContent();
    expect(why?.split('The text holds DRILLTHROUGH.')).toHaveLength(2);
  });

  test('diagnosis.json is saved, without statements', async () => {
    await ask('SELECT {[Secret statement]} ON 0 FROM [Sales]');
    const page = await open('/console/system');
    const download = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Save diagnosis.json' }).click();
    const file = await download;
    expect(file.suggestedFilename()).toBe('diagnosis.json');
    const text = readFileSync(await file.path(), 'utf8');
    expect(JSON.parse(text)).toHaveProperty('overview');
    expect(text).not.toContain('Secret statement');
  });
});

describe('rights', () => {
  test.each([
    ['eve', ['Overview', 'Queries', 'Purges', 'Warm-up', 'System']],
    ['pat', ['Purges']],
  ])('%s is shown %j, and no act that is not for her', async (user, titles) => {
    const page = await open('/console', user);
    const pages = page.getByRole('navigation', { name: 'Pages' }).getByRole('link');
    expect(await pages.allTextContents()).toEqual(titles);
    await page.getByRole('link', { name: 'Purges' }).click();
    expect(await page.getByRole('button', { name: 'Purge everything …' }).count()).toBe(
      user === 'pat' ? 1 : 0,
    );
  });

  test('a viewer sees no statement', async () => {
    await ask('SELECT {[Hidden]} ON 0 FROM [Sales]');
    const page = await open('/console/queries?sort=last', 'eve');
    await page.locator('tbody a').first().click();
    await page.getByText('you may not see it').waitFor();
    expect(await page.content()).not.toContain('[Hidden]');
  });

  test('a wrong password is told as a page, and nothing of the gateway', async () => {
    allowed = /status of 401/;
    const { page, console } = await browser.open(`${gateway.url}/console`, {
      httpCredentials: { username: 'ADMIN', password: 'wrong', send: 'always' },
    });
    opened.push({ page, console });
    expect(await page.getByRole('heading').textContent()).toBe('This is not shown');
    expect(await page.content()).not.toContain('Hit ratio');
  });
});

describe('while it is open', () => {
  test('its figures follow the traffic, without loading the page again', async () => {
    const page = await open('/console');
    const loads: string[] = [];
    page.on('framenavigated', (frame) => loads.push(frame.url()));
    const row = page.getByRole('row', { name: /^Fresh / });
    expect(await row.count()).toBe(0);
    await ask('SELECT FROM [Sales]', { project: 'Fresh' });
    await row.waitFor({ timeout: 15_000 });
    expect(loads).toEqual([]);
  });

  test('what is typed stays, whatever is asked meanwhile', async () => {
    const page = await open('/console/why');
    await page.getByLabel('XMLA request').fill('<half');
    await page.waitForResponse(/admin\/status/, { timeout: 15_000 });
    await page.waitForResponse(/admin\/reasons/, { timeout: 15_000 });
    expect(await page.getByLabel('XMLA request').inputValue()).toBe('<half');
  });

  test('a gateway that stops and comes back is told, and the page goes on', async () => {
    allowed = /ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE/;
    const page = await open('/console');
    const port = Number(new URL(gateway.url).port);
    await gateway.close();
    await page
      .getByText(/The gateway does not answer. What you see is of/)
      .waitFor({ timeout: 15_000 });
    gateway = await start(port);
    await page.locator('#connection').waitFor({ state: 'hidden', timeout: 15_000 });
    await page.getByText('1 of 1 up').waitFor();
  });

  test('a gateway that hangs, is answered for by HTML, fails, or tells what the page cannot show is told, until it mends', async () => {
    allowed = /502/;
    const answers: ((route: Route) => Promise<void>)[] = [
      () => new Promise(() => {}),
      (route) => route.fulfill({ body: '<p>Sorry' }),
      (route) => route.fulfill({ status: 502, body: '' }),
      (route) => route.fulfill({ json: {} }),
    ];
    await Promise.all(
      answers.map(async (answer) => {
        const page = await open('/console');
        await page.route('**/admin/overview', answer);
        await page.locator('#connection').waitFor({ timeout: 30_000 });
        await page.unroute('**/admin/overview');
        await page.locator('#connection').waitFor({ state: 'hidden', timeout: 30_000 });
      }),
    );
  });

  test('a right that is taken away while a page is open takes the page away', async () => {
    const page = await open('/console/queries', 'eve');
    const { auth, ...rest } = settings(Number(new URL(gateway.url).port));
    await gateway.reload({ ...rest, auth: { ...auth, viewers: [], purgers: ['eve', 'pat'] } });
    allowed = /403/;
    await page.getByText('eve may not see this page').waitFor({ timeout: 15_000 });
    await gateway.reload({ ...rest, auth });
  });

  test('a page that is hidden asks nothing', async () => {
    const page = await open('/console');
    await hide(page, true);
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.waitForTimeout(6_000);
    expect(asked).toEqual([]);
    await hide(page, false);
    await page.waitForResponse(/admin\/status/);
  });
});

describe('what others chose', () => {
  test('is shown as text on every page, and runs nothing', async () => {
    const user = `mallory ${MARKUP}`;
    const how = {
      user,
      project: `p ${MARKUP}`,
      catalog: `c ${MARKUP}`,
      headers: { 'user-agent': MARKUP },
    };
    const statement = `SELECT {[${MARKUP}]} ON 0 FROM [cube ${MARKUP}]`;
    await ask(statement, how);
    await ask(statement, how);
    await fetch(`${gateway.url}/mdx/xmla/${encodeURIComponent(MARKUP)}/clearCache`, {
      method: 'POST',
      headers: { authorization: basic('ADMIN') },
    });
    const dialogs: string[] = [];
    const all = await Promise.all(PATHS.map((path) => open(path)));
    for (const page of all) {
      page.on('dialog', (dialog) => void dialog.dismiss().finally(() => dialogs.push(page.url())));
      expect(await page.locator('main img, main script').count()).toBe(0);
    }
    const [page] = all.slice(3);
    await page?.getByText(user, { exact: true }).first().waitFor();
    await page?.locator('tbody a').first().click();
    await page?.getByText(`p ${MARKUP}`).first().waitFor();
    expect(dialogs).toEqual([]);
  });
});

test('by keyboard: the content, the pages and a purge can be reached', async () => {
  const page = await open('/console/purges');
  await page.keyboard.press('Tab');
  expect(await page.evaluate('document.activeElement?.textContent')).toBe('To the content');
  await page.keyboard.press('Enter');
  expect(await page.evaluate('document.activeElement?.id')).toBe('main');
  await page.keyboard.press('Tab');
  await page.keyboard.type('Shop');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
});

test('nothing is loaded from elsewhere, and nothing that is loaded fails', async () => {
  const page = await open('/console');
  const seen: [url: string, status: number][] = [];
  page.on('response', (response) => seen.push([response.url(), response.status()]));
  for (const path of PATHS) await page.goto(gateway.url + path, { waitUntil: 'networkidle' });
  expect(seen.filter(([url, status]) => !url.startsWith(gateway.url) || status >= 400)).toEqual([]);
  expect(seen.length).toBeGreaterThan(PATHS.length * 3);
});
