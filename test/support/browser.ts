import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { ensureDebianPackages } from './debian-packages.ts';

const CHROMIUM = '/usr/bin/chromium';

/** A page that is open, and what the browser's console was told, violations of the Content-Security-Policy among it. */
export interface OpenPage {
  readonly page: Page;
  readonly console: readonly string[];
}

export interface TestBrowser {
  /** Opens an address in a profile of its own, and resolves when nothing more is loaded. */
  open(url: string, options?: BrowserContextOptions): Promise<OpenPage>;
  close(): Promise<void>;
}

/** Starts Debian's Chromium, which knows no host but this one, by names that end in .test too: plain HTTP is trusted less there. Installs it where it is missing. */
export async function startBrowser(): Promise<TestBrowser> {
  await ensureDebianPackages([{ name: 'chromium', probe: CHROMIUM }]);
  const home = mkdtempSync(join(tmpdir(), 'mdx-gateway-browser-'));
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    // It does not work for root.
    chromiumSandbox: false,
    args: [
      '--host-resolver-rules=MAP *.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost',
    ],
    env: { PATH: process.env['PATH'] ?? '', HOME: home },
  });
  return {
    async open(url, options) {
      const page = await (await browser.newContext(options)).newPage();
      const console: string[] = [];
      page.on('console', (message) => console.push(message.text()));
      page.on('pageerror', (error) => console.push(String(error)));
      await page.goto(url, { waitUntil: 'networkidle' });
      return { page, console };
    },
    async close() {
      await browser.close();
      rmSync(home, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    },
  };
}
