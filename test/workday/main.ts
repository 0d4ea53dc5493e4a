/** A day in minutes, as people see it: `npm run workday`. docs/ARCHITECTURE.md, "Tests", tells what it is for. */
import { compare, hash } from 'bcrypt';
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ensureDebianPackages } from '../support/debian-packages.ts';
import { randomFrom } from '../support/mutate.ts';
import { readOrder, usage, type Order } from './arguments.ts';
import { isStale, judgeScene } from './history.ts';
import { buildProgram, openHouse, type House } from './house.ts';
import { machineTime, type Outcome } from './outcome.ts';
import { PASSWORDS, type Plan } from './plan.ts';
import { brokenBars, tableOf, type SceneReport } from './report.ts';
import type { Event, Known, Moments, Play, Scene, Stage } from './scene.ts';
import { BATCHES, SCENES } from './scenes/all.ts';

const COST = 10;
/** What two usual cores compare in a second. */
const USUAL_COMPARISONS = 30;
/** For how long comparisons are counted (ms). */
const MEASURED = 1_500;

const print = (text: string) => void process.stdout.write(text);
const progress = (text: string) => void process.stderr.write(text);

/** The exit code: 1 where a bar is broken, 2 for a wrong word. */
async function main(words: readonly string[]): Promise<number> {
  let order: Order;
  try {
    const names = SCENES.map(({ name }) => name);
    order = readOrder(words, names, () => Date.now() % 2 ** 32);
  } catch (error) {
    progress(`${error instanceof Error ? error.message : String(error)}\n`);
    return 2;
  }
  if (order.help) {
    print(usage(SCENES));
    return 0;
  }
  const folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-workday-'));
  try {
    return await drill(order, folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function drill({ names, size, seed }: Order, folder: string): Promise<number> {
  await ensureDebianPackages([{ name: 'redis-server', probe: 'redis-server' }]);
  const program = await buildProgram(folder);
  const hashes = new Map<string, string>();
  for (const password of PASSWORDS) hashes.set(password, await hash(password, COST));
  const bcrypt = await comparisonsInSecond(hashes.values().next().value ?? '');
  print(`seed ${seed}, ${size}, ${bcrypt.toFixed(1)} comparisons of bcrypt ${COST} in a second\n`);
  const ground: Ground = { program, hashes, seed, size, bcrypt };
  const reports: SceneReport[] = [];
  for (const batch of BATCHES) {
    const wanted = batch.filter(({ name }) => names.length === 0 || names.includes(name));
    if (wanted.length === 0) continue;
    progress(`${wanted.map(({ name }) => name).join(', ')} …\n`);
    reports.push(...(await Promise.all(wanted.map((scene) => perform(scene, ground)))));
  }
  print(`\n${tableOf(reports)}`);
  const broken = brokenBars(reports);
  print(broken.length === 0 ? '\nAll bars hold.\n' : `\n${broken.join('\n')}\n`);
  return broken.length === 0 ? 0 : 1;
}

async function comparisonsInSecond(digest: string): Promise<number> {
  const until = performance.now() + MEASURED;
  let done = 0;
  const began = performance.now();
  const core = async () => {
    for (; performance.now() < until; done += 1) await compare('not the password', digest);
  };
  await Promise.all(Array.from({ length: availableParallelism() }, core));
  return done / ((performance.now() - began) / 1_000);
}

interface Ground {
  readonly program: string;
  readonly hashes: ReadonlyMap<string, string>;
  readonly seed: number;
  readonly size: Stage['size'];
  readonly bcrypt: number;
}

/** One that cannot be played must not keep the others from being told. */
async function perform(scene: Scene, ground: Ground): Promise<SceneReport> {
  const { size, bcrypt, seed } = ground;
  const slowness = Math.max(1, USUAL_COMPARISONS / bcrypt);
  const play = scene.play({ size, bcrypt, slowness, below: randomFrom(seed) });
  const { name, title, notBarred } = scene;
  const report = { name, title, notBarred, people: play.cast.people.length };
  try {
    return { ...report, ...(await played(play, ground)) };
  } catch (error) {
    const failed = error instanceof Error ? error.message : String(error);
    return { ...report, ...NOTHING, failed };
  }
}

const NOTHING = {
  outcomes: [],
  allowed: new Set<Outcome>(),
  engineRequests: 0,
  cpu: 0,
  notes: [],
  missing: [],
};

async function played(
  play: Play,
  { program, hashes, seed }: Ground,
): Promise<Pick<SceneReport, keyof typeof NOTHING>> {
  const {
    settings = {},
    events = [],
    cast: { people },
  } = play;
  const house = await openHouse({ program, settings, people, hashes, seed });
  try {
    const before = house.cpu();
    const began = machineTime();
    const { url, ca, enginePort: engine, forwardsLogin, isShared } = house;
    const plan: Plan = { people, seed, url, ca, engine, forwardsLogin, isShared };
    const living = house.people.call<readonly Outcome[]>('day', plan);
    const [all, moments] = await Promise.all([living, direct(events, house, began)]);
    const { requests, endless, slow } = await house.engine.call<Counts>('counts');
    const verdicts = judgeScene(all, play, moments, slow);
    const stale = verdicts.outcomes.filter(isStale).length;
    return {
      ...verdicts,
      engineRequests: requests,
      cpu: house.cpu() - before,
      notes: [
        ...(endless === 0 ? [] : [`the query that never ends reached the engine ${endless} times`]),
        ...(stale === 0 ? [] : [`${stale} were answered past the ttl, the engine being away`]),
        ...house.complaints(),
      ],
    };
  } finally {
    await house.close();
  }
}

interface Counts {
  readonly requests: number;
  readonly endless: number;
  readonly slow: Known['slow'];
}

/** Has happen what must happen, when it is due. */
async function direct(events: readonly Event[], house: House, began: number): Promise<Moments> {
  const moments = new Map<string, { began: number; ended: number }>();
  for (const { at, pause = 0, name, work } of events) {
    await delay(Math.max(pause, began + at - machineTime()));
    const start = machineTime();
    await work(house);
    moments.set(name, { began: start, ended: machineTime() });
  }
  return moments;
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));
process.exitCode = await main(process.argv.slice(2));
