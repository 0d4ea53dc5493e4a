import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { basic } from '../test-gateway.ts';
import { sendTo, type Reply } from './askers.ts';
import type { OracleGateway } from './gateways.ts';
import { EVERY_PLACE, PROJECTS, type Ledger, type Places } from './ledger.ts';

/** Loads that may be under way at one time. */
const LOADERS = 12;
/** One load in so many is of all projects. */
const EVERYTHING = 6;
/** One in so many is followed by another one of the same data before its purge is answered. */
const FOLLOWED = 5;
/** Between a load and its purge, and between two loads of one data, at most (ms). */
const PAUSE = 120;

/** What became of the purges. */
export interface PurgeTally {
  sent: number;
  acknowledged: number;
  /** Answered by a status that promises nothing. */
  refused: number;
  /** Their gateway was killed. */
  lost: number;
}

/**
 * New data again and again, and after each a purge through a random gateway, until the signal.
 * @param due whether it is time for another one
 */
export async function loadAndPurge(options: {
  gateways: readonly OracleGateway[];
  ledger: Ledger;
  tally: PurgeTally;
  random: (below: number) => number;
  due: () => boolean;
  signal: AbortSignal;
}): Promise<void> {
  const { gateways, ledger, tally, random, signal } = options;
  const agent = new Agent({ keepAlive: true });

  async function load(): Promise<void> {
    const places = random(EVERYTHING) === 0 ? EVERY_PLACE : [random(PROJECTS.length)];
    const gateway = gateways[random(gateways.length)];
    if (gateway === undefined) return;
    const purges = [loadOnce(places, gateway)];
    if (random(FOLLOWED) === 0) {
      // A purge that is under way when these data come says nothing of them.
      await delay(random(PAUSE));
      purges.push(loadOnce(places, gateway));
    }
    await Promise.all(purges);
  }

  async function loadOnce(places: Places, gateway: OracleGateway): Promise<void> {
    ledger.load(places);
    if (random(2) === 0) await delay(random(PAUSE));
    tally.sent += 1;
    const outcome = await purgeThrough(gateway, places, { ledger, agent, asJson: random(2) === 0 });
    tally[outcome] += 1;
    if (outcome === 'lost') await delay(random(PAUSE));
  }

  await Promise.all(
    Array.from({ length: LOADERS }, async () => {
      while (!signal.aborted) {
        if (options.due()) await load();
        else await delay(5);
      }
    }),
  );
  agent.destroy();
}

/** Purges one project, or everything, and holds the answer against what it may say. */
export async function purgeThrough(
  gateway: OracleGateway,
  places: Places,
  options: { readonly ledger: Ledger; readonly agent: Agent; readonly asJson: boolean },
): Promise<'acknowledged' | 'refused' | 'lost'> {
  const { ledger, agent, asJson } = options;
  const project = places.length === 1 ? PROJECTS[places[0] ?? 0] : undefined;
  const path = `/mdx/xmla${project === undefined ? '' : `/${project}`}/clearCache`;
  const accept = asJson ? 'application/json' : 'text/plain';
  const headers = { authorization: basic('ADMIN'), accept };
  const purge = ledger.purgeSent(places, gateway.name);
  let reply: Reply;
  try {
    const { port, patience } = gateway;
    reply = await sendTo(port, { method: 'POST', path, headers, agent, patience });
  } catch (error) {
    purge.failed(String(error));
    return 'lost';
  }
  const { status, text } = reply;
  if (status === 200 && text.includes('cleared')) {
    purge.acknowledged();
    return 'acknowledged';
  }
  purge.failed(`${status} ${text}`);
  if (status !== 503 || text.includes('cleared')) {
    ledger.accuse(`${gateway.name} answered ${path} by ${status} ${text}`);
  }
  return 'refused';
}
