/** npm run screenshots: makes the images of docs/CONSOLE.md from the demo, in docs/images. Takes three minutes. */

import { spawn } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { startBrowser } from '../test/support/browser.ts';

const ROOT = join(import.meta.dirname, '..');
const FOLDER = join(ROOT, 'docs/images');
/** For how long the demo asks before it is looked at (ms): the chart should have some minutes. */
const TRAFFIC = 150_000;
/** After a purge the warm-up waits for half a minute (ms). */
const WARMED = 40_000;
const WIDTH = 1280;

const demo = spawn(process.execPath, [join(ROOT, 'src/main.ts'), 'demo'], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
let output = '';
demo.stdout.setEncoding('utf8').on('data', (text: string) => void (output += text));
const said = async () => {
  for (;;) {
    const found =
      /log in as (?<user>\S+) with the password (?<password>\S+):\s+(?<url>\S+)\/console/.exec(
        output,
      );
    if (found?.groups) return found.groups as Record<'user' | 'password' | 'url', string>;
    if (demo.exitCode !== null) throw new Error(`the demo ended: ${output}`);
    await delay(200);
  }
};
const browser = await startBrowser();

/** @param look what is done on the page before it is looked at */
async function shoot(
  name: string,
  path: string,
  options: { readonly dark?: boolean; readonly width?: number; readonly height?: number } = {},
  look: (page: Page) => Promise<unknown> = async () => {},
): Promise<void> {
  const { dark = false, width = WIDTH, height = 800 } = options;
  const { user: username, password, url } = await said();
  const { page } = await browser.open(url + path, {
    httpCredentials: { username, password, send: 'always' },
    colorScheme: dark ? 'dark' : 'light',
    viewport: { width, height },
  });
  await look(page);
  await page.screenshot({ path: join(FOLDER, `console-${name}.png`) });
  await page.context().close();
}

async function purge(): Promise<void> {
  const { user, password, url } = await said();
  const authorization = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
  await fetch(`${url}/mdx/xmla/clearCache`, { method: 'POST', headers: { authorization } });
}

try {
  await mkdir(FOLDER, { recursive: true });
  await said();
  await delay(TRAFFIC);
  await shoot('overview', '/console');
  await shoot('overview-dark', '/console', { dark: true });
  await shoot('overview-narrow', '/console', { width: 390 });
  await shoot('queries', '/console/queries');
  await shoot('requests', '/console/queries?view=requests', { dark: true });
  await shoot('why', '/console/queries', {}, async (page) => {
    await page.locator('tbody a').first().click();
    await page.getByRole('link', { name: 'Why is it answered as it is?' }).click();
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.locator('[aria-live] h2').scrollIntoViewIfNeeded();
  });
  await shoot('purge', '/console/purges', {}, async (page) => {
    await page.getByLabel('Project').fill('Bazaar');
    await page.getByRole('button', { name: 'Purge this project …' }).click();
  });
  await purge();
  await delay(WARMED);
  await shoot('warm', '/console/warm');
  await shoot('system', '/console/system');
} finally {
  await browser.close();
  demo.kill();
}
