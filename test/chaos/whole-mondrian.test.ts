import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { listensOn, SERVER_CORE, start } from '../../bench/processes.ts';
import { startMondrian, type RunningEngine } from '../engine/mondrian.ts';
import { ensureDebianPackages } from '../support/debian-packages.ts';
import { discover } from '../support/envelopes.ts';
import { freePort } from '../support/free-port.ts';
import { askXmla, send, shortStatus } from '../support/http-client.ts';
import { startTestGateway } from '../support/test-gateway.ts';

/** Answers that are longer than one chunk of a real engine pass whole, also where a real proxy stands before it. */

const ASKED = 100;
const SLOW = 120_000;
/** Jetty sends chunks of 32 KiB: a longer answer comes in several. */
const LONGER_THAN_A_CHUNK = 33_000;

let mondrian: RunningEngine;
let folder: string;
const endings: (() => unknown)[] = [];

beforeAll(async () => {
  mondrian = await startMondrian({ isBrief: true });
  endings.push(mondrian.close);
  folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-whole-'));
}, SLOW);
afterAll(async () => {
  for (const end of endings.toReversed()) await end();
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
}, SLOW);

/** Before the engine, as nginx is set up by default: it puts an answer into buffers of its own. */
async function startNginx(): Promise<string> {
  await ensureDebianPackages([{ name: 'nginx-light', probe: 'nginx' }]);
  const port = await freePort();
  mkdirSync(join(folder, 'kept'));
  const kept = ['client_body', 'proxy', 'fastcgi', 'scgi', 'uwsgi']
    .map((of) => `${of}_temp_path ${folder}/kept/${of};`)
    .join(' ');
  const file = join(folder, 'nginx.conf');
  const { origin } = new URL(mondrian.url);
  writeFileSync(
    file,
    `daemon off; master_process off; pid ${folder}/nginx.pid; error_log stderr warn; events {}
     http { access_log off; ${kept}
       server { listen 127.0.0.1:${port}; location / { proxy_pass ${origin}; proxy_http_version 1.1; } } }`,
  );
  const running = start(SERVER_CORE, '/usr/sbin/nginx', ['-p', folder, '-c', file, '-e', 'stderr']);
  endings.push(running.stop);
  await listensOn(port, running);
  return `http://127.0.0.1:${port}${new URL(mondrian.url).pathname}`;
}

/** Known to the gateway by its odd header block alone, so that it passes. */
const odd = Buffer.from(
  discover({ requestType: 'MDSCHEMA_HIERARCHIES' })
    .toString()
    .replace(
      '<SOAP-ENV:Body>',
      '<SOAP-ENV:Header><x:Trace xmlns:x="urn:x">1</x:Trace></SOAP-ENV:Header>$&',
    ),
);

describe.each([
  ['Mondrian itself', async () => mondrian.url],
  ['nginx before Mondrian', startNginx],
] as const)('behind the gateway stands %s', (_what, startEngine) => {
  test(
    `a Discover that passes has all its bytes, ${ASKED} times`,
    async () => {
      const url = await startEngine();
      const gateway = await startTestGateway({ engine: { url, kind: 'mondrian' } });
      endings.push(gateway.close);
      const headers = { 'content-type': 'text/xml' };
      const path = new URL(mondrian.url).pathname;
      const { body } = await send(mondrian.url, { method: 'POST', path, headers, body: odd });
      expect(body.length).toBeGreaterThan(LONGER_THAN_A_CHUNK);
      let whole = 0;
      for (let time = 0; time < ASKED; time += 1) {
        const answer = await askXmla(gateway.url, odd);
        expect(shortStatus(answer)).toBe('bypass unknown-shape');
        if (answer.whole && answer.body.equals(body)) whole += 1;
      }
      expect(whole).toBe(ASKED);
    },
    SLOW,
  );
});
