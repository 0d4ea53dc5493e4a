/**
 * npm run visits: which files of src one request visits, as a measure of how much must be read to follow it. A file
 * counts when a named function of it ran during one request after a warm-up, less what runs during a pause of the same
 * length, by the precise coverage of V8.
 *   node scripts/visited-files.ts [--list]    prints the names too
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { hash } from 'bcrypt';
import { datasetOf, wholeAnswer, ANSWER_TYPE } from '../bench/answers.ts';

const ROOT = join(import.meta.dirname, '..');
/** How long one request is watched (ms); long enough for what is done behind an answer. */
const WATCHED = 500;
const LOGIN = `Basic ${Buffer.from('ANALYST:secret-12').toString('base64')}`;

interface FunctionCoverage {
  readonly functionName: string;
  readonly ranges: readonly { readonly count: number }[];
}
interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly FunctionCoverage[];
}

const folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-visits-'));
const answer = wholeAnswer(datasetOf(2_048));
const engine = createServer((request, response) => {
  request.resume().on('end', () => {
    response.writeHead(200, { 'content-type': ANSWER_TYPE, 'content-length': answer.length });
    response.end(answer);
  });
});
engine.listen(0, '127.0.0.1');
await once(engine, 'listening');
const { port } = engine.address() as AddressInfo;
writeFileSync(join(folder, 'users.htpasswd'), `ANALYST:${await hash('secret-12', 10)}\n`);
const config = join(folder, 'config.yaml');
writeFileSync(
  config,
  `listen: { port: 0 }\nengine: { url: "http://127.0.0.1:${port}/xmla" }\nlog: { level: info }\n`,
);

const gateway = spawn(
  process.execPath,
  ['--inspect=127.0.0.1:0', join(ROOT, 'src/main.ts'), 'serve', '--config', config],
  { stdio: ['ignore', 'pipe', 'pipe'] },
);
try {
  const inspector = await matchIn(gateway.stderr, /ws:\/\/\S+/);
  const base = await matchIn(gateway.stdout, /http:\/\/127\.0\.0\.1:\d+/);
  const { call, detach } = await inspect(inspector);
  await call('Profiler.enable');
  await call('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

  let fresh = 0;
  const kinds: readonly [name: string, body: () => string][] = [
    ['memory hit', () => execute('SELECT FROM [Sales]')],
    ['miss', () => execute(`SELECT FROM [Sales] WHERE [m].[${(fresh += 1)}]`)],
    ['pass-through', () => execute('DRILLTHROUGH SELECT FROM [Sales]')],
  ];
  for (const [name, body] of kinds) {
    for (let asked = 0; asked < 20; asked += 1) await ask(base, body());
    await delay(WATCHED);
    await visited(call);
    await delay(WATCHED);
    const idle = new Set(await visited(call));
    await ask(base, body());
    await delay(WATCHED);
    const files = (await visited(call)).filter((file) => !idle.has(file));
    console.log(`${name}: ${files.length} files`);
    if (process.argv.includes('--list')) console.log(files.map((file) => `  ${file}`).join('\n'));
  }
  detach();
} finally {
  gateway.kill();
  engine.close();
  engine.closeAllConnections();
  rmSync(folder, { recursive: true });
}

/** Files of src in which a named function ran since this was asked last. */
async function visited(call: Call): Promise<string[]> {
  const { result } = (await call('Profiler.takePreciseCoverage')) as {
    result: readonly ScriptCoverage[];
  };
  const src = `file://${ROOT}/src/`;
  const ran = result.filter(
    ({ url, functions }) =>
      url.startsWith(src) &&
      functions.some(({ functionName, ranges }) => functionName !== '' && ranges[0]?.count),
  );
  return ran.map(({ url }) => url.slice(src.length)).sort();
}

type Call = (method: string, params?: object) => Promise<unknown>;

/** A process that is inspected does not end before `detach`. */
async function inspect(address: string): Promise<{ call: Call; detach: () => void }> {
  const socket = new WebSocket(address);
  await once(socket, 'open');
  const waiting = new Map<number, (result: unknown) => void>();
  socket.addEventListener('message', ({ data }) => {
    const { id, result } = JSON.parse(String(data)) as { id: number; result: unknown };
    waiting.get(id)?.(result);
    waiting.delete(id);
  });
  let calls = 0;
  return {
    call: (method, params = {}) =>
      new Promise((resolve) => {
        const id = (calls += 1);
        waiting.set(id, resolve);
        socket.send(JSON.stringify({ id, method, params }));
      }),
    detach: () => socket.close(),
  };
}

async function matchIn(stream: Readable, pattern: RegExp): Promise<string> {
  let text = '';
  for await (const chunk of stream.iterator({ destroyOnReturn: false })) {
    text += String(chunk);
    const [found] = pattern.exec(text) ?? [];
    if (found !== undefined) {
      stream.resume();
      return found;
    }
  }
  throw new Error(`The gateway did not start: ${text}`);
}

async function ask(base: string, body: string): Promise<void> {
  const response = await fetch(`${base}/mdx/xmla`, {
    method: 'POST',
    headers: { authorization: LOGIN, 'content-type': 'text/xml', accept: 'text/xml' },
    body,
  });
  if (response.status !== 200) throw new Error(`status ${response.status}`);
  await response.arrayBuffer();
}

function execute(statement: string): string {
  return (
    '<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body>' +
    '<Execute xmlns="urn:schemas-microsoft-com:xml-analysis">' +
    `<Command><Statement>${statement}</Statement></Command><Properties><PropertyList>` +
    '<Catalog>FoodMart</Catalog></PropertyList></Properties></Execute></Body></Envelope>'
  );
}
