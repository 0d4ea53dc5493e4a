import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { kylinJob } from '../hooks.ts';
import { basic } from '../test-gateway.ts';
import { sendTo, type Reply } from './askers.ts';
import type { OracleGateway } from './gateways.ts';
import { HOOK, LOADER } from './fresh.ts';
import { EVERY_PLACE, PROJECTS, WATCHED, type Ledger, type Places } from './ledger.ts';

/** Loads that may be under way at one time. */
const LOADERS = 12;
/** One load in so many is of all projects. */
const EVERYTHING = 6;
/** One in so many is followed by another one of the same data before its purge is answered. */
const FOLLOWED = 5;
/** One in so many of those of one project is told to a hook, where there is one. */
const HOOKS = 3;
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
  /** Acknowledged by a hook. */
  hooked: number;
  /** Answered by a hook that promises nothing. */
  accepted: number;
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
  /** Tells of a load that no call follows; undefined where each is followed by one. */
  beginLoad: (() => void) | undefined;
  signal: AbortSignal;
}): Promise<void> {
  const { gateways, ledger, tally, random, signal, beginLoad } = options;
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
    const [place] = places;
    if (beginLoad !== undefined && place === WATCHED) {
      beginLoad();
      await delay(random(PAUSE));
      return ledger.load(places);
    }
    ledger.load(places);
    if (random(2) === 0) await delay(random(PAUSE));
    tally.sent += 1;
    const by = { ledger, agent, asJson: random(2) === 0 };
    const isHook = beginLoad !== undefined && places.length === 1 && random(HOOKS) === 0;
    const outcome = await (isHook ? callHook : purgeThrough)(gateway, places, by);
    if (outcome === 'acknowledged' && isHook) tally.hooked += 1;
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

interface Caller {
  readonly ledger: Ledger;
  readonly agent: Agent;
  readonly asJson: boolean;
}

/** Has a hook purge one project, and holds the answer against what it may say. */
async function callHook(
  gateway: OracleGateway,
  places: Places,
  { ledger, agent }: Caller,
): Promise<'acknowledged' | 'accepted' | 'refused' | 'lost'> {
  const project = PROJECTS[places[0] ?? 0];
  const body = Buffer.from(kylinJob({ project }));
  const headers = {
    authorization: basic(LOADER),
    'content-type': 'application/json',
    'content-length': String(body.length),
  };
  const purge = ledger.purgeSent(places, `a hook of ${gateway.name}`);
  let reply: Reply;
  try {
    const { port, patience } = gateway;
    reply = await sendTo(port, { method: 'POST', path: HOOK, headers, body, agent, patience });
  } catch (error) {
    purge.failed(String(error));
    return 'lost';
  }
  const { status, text } = reply;
  const said = /^\{"status":"(cleared|accepted)",/u.exec(text)?.[1];
  if (status === 200 && said === 'cleared') {
    purge.acknowledged();
    return 'acknowledged';
  }
  purge.failed(`${status} ${text}`);
  if (status === 200 && said === 'accepted') return 'accepted';
  // It was called too often.
  if (status !== 429) ledger.accuse(`the hook of ${gateway.name} answered ${status} ${text}`);
  return 'refused';
}

/** Purges one project, or everything, and holds the answer against what it may say. */
export async function purgeThrough(
  gateway: OracleGateway,
  places: Places,
  { ledger, agent, asJson }: Caller,
): Promise<'acknowledged' | 'refused' | 'lost'> {
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
