/**
 * `npm run longest-hold -- [PATTERN]`: sends hostile bodies of 10 MB, and of 4 MB (about the longest that are read), to
 * a gateway, and prints for how long each held its event loop at most (ms). Then eight at once, each of another user, and what
 * a hit and `/health/live` waited beside them. Last a thousand at once of the longest that count as short. Let nothing else run
 * meanwhile.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { ANALYST, basic, TEAM } from '../bench/credentials.ts';
import { startGateway, type MeasuredGateway } from '../bench/gateway.ts';
import { measureHolds } from '../bench/holds.ts';
import { createHouse, startEngine } from '../bench/house.ts';
import { ask } from '../bench/http.ts';
import { template, XMLA_HEADERS } from '../bench/questions.ts';
import { HOSTILE_BODIES } from '../test/support/hostile-bodies.ts';

const SIZES = [10_000_000, 4_000_000];
const AT_ONCE = 8;
const SHORT = 64_000;
const CROWD = 1_000;
/** Of many nodes, long statements, many strings. */
const OF_CROWD =
  /^(?:properties|restrictions) of many names|^"<a\/>" .*: root|^"(?:now |n\u00E4w )" |^strings in strings/;

const print = (text: string) => void process.stdout.write(`${text}\n`);
const shown = (milliseconds: number) => milliseconds.toFixed(0).padStart(6);

function question(
  gateway: MeasuredGateway,
  body: Buffer | string,
  coding = 'identity',
  user = ANALYST,
) {
  const headers = { ...XMLA_HEADERS, ...basic(user), 'Content-Encoding': coding };
  return ask(gateway.port, { path: gateway.path, headers, body });
}

/** @returns for how long the event loop was held at most while the bodies were read */
async function holdOf(gateway: MeasuredGateway, bodies: readonly Buffer[]): Promise<number> {
  const zipped = bodies.map((body) => gzipSync(body));
  const ask = () => zipped.map((body, at) => question(gateway, body, 'gzip', TEAM[at]));
  return holdWhile(gateway, ask);
}

async function holdWhile(gateway: MeasuredGateway, ask: () => Promise<unknown>[]): Promise<number> {
  await gateway.asked('delay');
  await Promise.all(ask());
  return (await gateway.asked('delay')).most;
}

/** @returns how long something took at most, asked again and again until the work is done */
async function longestWait(work: Promise<unknown>, once: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  const done = work.then(() => true);
  while (!(await Promise.race([done, false]))) {
    const began = performance.now();
    await once();
    longest = Math.max(longest, performance.now() - began);
  }
  return longest;
}

async function main(pattern = ''): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'longest-hold-'));
  const gatewayFile = join(import.meta.dirname, '../src/main.ts');
  const settings = { quick: true, peers: false, gateway: gatewayFile, rounds: 1, seconds: 1 };
  const { house, close } = createHouse(settings, folder, print);
  try {
    const engine = await startEngine(house);
    const url = `http://127.0.0.1:${engine.port}/xmla`;
    const gateway = await startGateway(house, engine.port, {
      probe: true,
      settings: { engine: { url, kind: 'mondrian', delegation: 'refuse' } },
    });
    const hit = template({ size: 2_000 });
    for (let warm = 0; warm < 200; warm += 1) await question(gateway, hit);
    await holdOf(gateway, [Buffer.from(hit.padEnd(SIZES[0] ?? 0))]);

    print(` 10 MB   4 MB  8 at once    hit   live`);
    for (const [name, make] of Object.entries(HOSTILE_BODIES)) {
      if (!name.includes(pattern)) continue;
      const holds: number[] = [];
      for (const size of SIZES) holds.push(await holdOf(gateway, [make(size)]));
      const many = Array.from({ length: AT_ONCE }, () => make(SIZES[1] ?? 0));
      const work = holdOf(gateway, many);
      const [atOnce, waitOfHit, waitOfLive] = await Promise.all([
        work,
        longestWait(work, () => question(gateway, hit)),
        longestWait(work, () => ask(gateway.port, { method: 'GET', path: '/health/live' })),
      ]);
      const figures = [...holds, atOnce, waitOfHit, waitOfLive].map(shown);
      print(`${figures[0]} ${figures[1]}     ${figures[2]} ${figures[3]} ${figures[4]}  ${name}`);
    }
    print(`\n${CROWD} of ${SHORT / 1_000} KB at once, the longest hold and what a hit waited`);
    for (const [name, make] of Object.entries(HOSTILE_BODIES)) {
      if (!OF_CROWD.test(name) || !name.includes(pattern)) continue;
      const ask = () => Array.from({ length: CROWD }, () => question(gateway, make(SHORT)));
      const work = holdWhile(gateway, ask);
      const waitOfHit = await longestWait(work, () => question(gateway, hit));
      print(`${shown(await work)} ${shown(waitOfHit)}  ${name}`);
    }
    print(`\nCPU of the longest turn (ms)`);
    for await (const { what, cpuMs } of measureHolds(house, engine, pattern)) {
      print(`${cpuMs.toFixed(1).padStart(6)}  ${what}`);
    }
  } finally {
    await close();
    rmSync(folder, { recursive: true });
  }
}

await main(process.argv[2]);
