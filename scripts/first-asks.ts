/**
 * `npm run first-asks -- [FOLDER]`: measures what the first ask of a user costs who asks what others have asked before,
 * and what a hit costs that is known, in microseconds of CPU; beside another checkout of the gateway, in alternating
 * rounds.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { ANALYST, basic, TEAM } from '../bench/credentials.ts';
import { figureOf } from '../bench/figures.ts';
import { startGateway } from '../bench/gateway.ts';
import { createHouse, startEngine, type House } from '../bench/house.ts';
import { ask } from '../bench/http.ts';
import { filled, template, XMLA_HEADERS } from '../bench/questions.ts';

const ROUNDS = 7;
/** Asked by each user in a round, for the first time. */
const QUESTIONS = 60;
const MAIN = 'src/main.ts';
const print = (text: string) => void process.stdout.write(`${text}\n`);

const question = (number: number) =>
  filled(template({ size: 2_000, name: '@NUMBER@', freshIds: true }), { number });

/** One gateway, warm: it has met the users and their programs, and other questions. */
async function measured(house: House, enginePort: number, name: string, root: string) {
  const settings = { cache: { share: 'everyone', engine_permissions_ignored: true } };
  const main = join(root, MAIN);
  const gateway = await startGateway(house, enginePort, { name, main, settings });
  const agents = new Map(
    [ANALYST, ...TEAM].map((user) => [user, new Agent({ keepAlive: true, maxSockets: 1 })]),
  );
  const send = async (user: string, number: number) => {
    const { status, headers } = await ask(gateway.port, {
      path: gateway.path,
      headers: { ...XMLA_HEADERS, ...basic(user) },
      body: question(number),
      agent: agents.get(user) as Agent,
    });
    if (status !== 200) throw new Error(`${status} of ${name}`);
    return String(headers['cache-status']);
  };
  /** CPU of one answer, where each user asks these questions (µs). */
  async function costOf(users: readonly string[], first: number): Promise<number> {
    const before = gateway.cpu();
    for (let number = first; number < first + QUESTIONS; number += 1) {
      for (const user of users) {
        const said = await send(user, number);
        if (!said.includes('; hit')) throw new Error(`not a hit: ${said}`);
      }
    }
    return (gateway.cpu() - before) / (QUESTIONS * users.length);
  }
  async function round(number: number) {
    const first = number * QUESTIONS;
    for (let time = 0; time < 4; time += 1) {
      for (let at = first; at < first + QUESTIONS; at += 1) await send(ANALYST, at);
    }
    const firsts = await costOf(TEAM, first);
    for (let time = 0; time < 3; time += 1) await costOf(TEAM, first);
    return { first: firsts, hit: await costOf(TEAM, first) };
  }
  for (let number = 0; number < 3; number += 1) await round(number);
  return { name, round, first: [] as number[], hit: [] as number[] };
}

async function main(other?: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'first-asks-'));
  const here = join(import.meta.dirname, '..');
  const settings = { quick: true, peers: false, gateway: join(here, MAIN), rounds: 1, seconds: 1 };
  const { house, close } = createHouse(settings, folder, print);
  try {
    const { port } = await startEngine(house);
    const roots = [['this', here], ...(other === undefined ? [] : [['other', resolve(other)]])];
    const gateways = [];
    for (const [name = '', root = ''] of roots)
      gateways.push(await measured(house, port, name, root));
    for (let number = 3; number < 3 + ROUNDS; number += 1) {
      for (const gateway of gateways) {
        const { first, hit } = await gateway.round(number);
        gateway.first.push(first);
        gateway.hit.push(hit);
      }
    }
    for (const { name, first, hit } of gateways) {
      const [of, beside] = [first, hit].map((values) => figureOf(values).median.toFixed(0));
      print(`${name}: first ask of another user ${of} µs of CPU, hit ${beside} µs`);
    }
  } finally {
    await close();
    rmSync(folder, { recursive: true });
  }
}

await main(process.argv[2]);
