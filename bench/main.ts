/** `npm run bench`: measures the gateway, and holds it against another version. docs/BENCHMARKS.md tells how to read what it prints. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { ensureDebianPackages } from '../test/support/debian-packages.ts';
import { readOrder, USAGE, type Order } from './arguments.ts';
import { buildGateway } from './built-gateway.ts';
import { comparedAnswers } from './contest.ts';
import { createHouse, type Settings } from './house.ts';
import { describeMachine } from './machine.ts';
import { plotOf } from './plot.ts';
import { CLIENT_CORE, pinProcess } from './processes.ts';
import { isMet, type BenchReport, type ScenarioReport } from './report.ts';
import { AGAINST, SCENARIOS } from './scenarios/all.ts';
import type { Scenario } from './scenarios/scenario.ts';
import { machineText, markdownTable, scenarioText } from './table.ts';

const ROOT = join(import.meta.dirname, '..');
const ROUNDS = 5;
const ROUND_SECONDS = 2;

const VARNISH_MODULES = '/usr/lib/x86_64-linux-gnu/varnish/vmods/libvmod_bodyaccess.so';

const ALL: readonly Scenario[] = [...SCENARIOS, ...AGAINST];

const print = (text: string) => void process.stdout.write(text);
const progress = (text: string) => void process.stderr.write(text);

/** The exit code: 1 where a scenario failed or is worse than the other version, 2 for a wrong word. */
async function main(words: readonly string[]): Promise<number> {
  let order: Order;
  try {
    order = readOrder(
      words,
      ALL.map(({ name }) => name),
    );
  } catch (error) {
    progress(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
    return 2;
  }
  if (order.help) return told(USAGE);
  if (order.list)
    return told(ALL.map(({ name, title }) => `${name.padEnd(18)}${title}\n`).join(''));
  return await bench(order);
}

function told(text: string): number {
  print(text);
  return 0;
}

async function bench(order: Order): Promise<number> {
  await ensureDebianPackages([
    { name: 'wrk', probe: 'wrk' },
    { name: 'redis-server', probe: 'redis-server' },
    ...(order.peers
      ? [
          { name: 'nginx', probe: 'nginx' },
          { name: 'varnish', probe: 'varnishd' },
          { name: 'varnish-modules', probe: VARNISH_MODULES },
        ]
      : []),
  ]);
  await pinProcess(process.pid, CLIENT_CORE);
  const folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-bench-'));
  try {
    const mainOf = async (root: string, name: string) =>
      order.source ? join(root, 'src/main.ts') : await buildGateway(root, join(folder, name));
    const settings: Settings = {
      quick: order.quick,
      peers: order.peers,
      gateway: await mainOf(ROOT, 'built'),
      ...(order.against !== undefined && {
        other: await mainOf(resolve(order.against), 'built-other'),
      }),
      rounds: order.rounds ?? (order.quick ? 1 : ROUNDS),
      seconds: order.seconds ?? (order.quick ? 1 : ROUND_SECONDS),
    };
    const usual = order.against === undefined ? SCENARIOS : AGAINST;
    const wanted =
      order.names.length === 0 ? usual : ALL.filter(({ name }) => order.names.includes(name));
    const scenarios: ScenarioReport[] = [];
    for (const scenario of wanted) {
      const report = await runScenario(scenario, settings, join(folder, scenario.name));
      print(scenarioText(report));
      scenarios.push(report);
    }
    const { rounds, seconds, quick, peers } = settings;
    const report: BenchReport = {
      machine: describeMachine(ROOT),
      settings: { rounds, seconds, quick, peers, gateway: order.source ? 'src' : 'dist' },
      scenarios,
    };
    print(`\n${machineText(report)}\n\n${markdownTable(report)}`);
    write(
      order.json ?? join(ROOT, 'bench/results/latest.json'),
      JSON.stringify(report, undefined, 2),
    );
    write(order.svg ?? join(ROOT, 'bench/results/latest.svg'), plotOf(report));
    return summary(scenarios, quick);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** One that fails must not keep the others from being measured. */
async function runScenario(
  scenario: Scenario,
  settings: Settings,
  folder: string,
): Promise<ScenarioReport> {
  const { name, title } = scenario;
  const began = performance.now();
  const comparedBefore = comparedAnswers();
  const facts = () => ({
    seconds: (performance.now() - began) / 1000,
    compared: comparedAnswers() - comparedBefore,
  });
  progress(`${name}: `);
  const { house, close } = createHouse(settings, folder, (text) => progress(`${text}, `));
  try {
    const findings = await scenario.run(house);
    return { name, title, ...findings, ...facts() };
  } catch (error) {
    const failed = error instanceof Error ? error.message : String(error);
    return { name, title, rows: [], failed, ...facts() };
  } finally {
    await close();
    rmSync(folder, { recursive: true, force: true });
    progress('\n');
  }
}

function summary(scenarios: readonly ScenarioReport[], quick: boolean): number {
  const rows = scenarios.flatMap((scenario) => scenario.rows);
  const promised = rows.map(isMet).filter((met) => met !== undefined);
  const failed = scenarios.filter((scenario) => scenario.failed !== undefined);
  const met = promised.filter(Boolean).length;
  const missed = promised.length - met;
  const guard =
    promised.length === 0
      ? 'Nothing is held against another version here'
      : `${met} of ${promised.length} are no worse than the other version`;
  const told = quick
    ? 'A quick run shows that everything works; its figures say nothing of speed'
    : guard;
  print(`\n${told}, ${failed.length} scenarios failed\n`);
  return failed.length > 0 || (missed > 0 && !quick) ? 1 : 0;
}

function write(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

process.exitCode = await main(process.argv.slice(2));
