import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { randomFrom } from '../mutate.ts';
import { sizes } from '../sizes.ts';
import { askAtRandom, type Tally } from './askers.ts';
import { loadWithoutACall, readWatchPurges } from './fresh.ts';
import type { OracleForm } from './forms.ts';
import type { OracleGateway } from './gateways.ts';
import { AWAY, engineDisturbances } from './disturbances.ts';
import { EVERY_PLACE, openLedger, type Ledger, type Violation } from './ledger.ts';
import { loadAndPurge, purgeThrough, type PurgeTally } from './loads.ts';
import { startVersionEngine } from './version-engine.ts';
import { startWeather } from './weather.ts';

/** What has to have happened before a run ends. */
export interface Goals {
  /** Answers that are held against what was promised. */
  readonly requests: number;
  /** Purges that are acknowledged. */
  readonly purges: number;
  /** How often each disturbance happens. */
  readonly disturbances: number;
  /** For how long it goes on at least (ms). */
  readonly lasting?: number;
}

export interface OracleRun {
  readonly violations: readonly Violation[];
  /** Answers that were held against what was promised. */
  readonly requests: number;
  /** Those of them that came from the cache. */
  readonly hits: number;
  /** Those of them for which no client had asked the engine. */
  readonly warmed: number;
  /** Those of them that came from the cache past their ttl, the engine being away. */
  readonly stale: number;
  readonly purges: PurgeTally;
  /** Purges of the watcher. */
  readonly watched: number;
  /** How often each disturbance happened. */
  readonly disturbed: Readonly<Record<string, number>>;
  /** How often each kind of answer came; and those that came while nothing was disturbed. */
  readonly outcomes: Readonly<Record<string, number>>;
  readonly calm: Readonly<Record<string, number>>;
  readonly engineRequests: number;
  readonly seconds: number;
}

const GATEWAYS = 3;
/** Between two tellings of how far it is (ms). */
const PROGRESS = 60_000;
/** So many of the answers, as a part of those that have to be held, have to come from the cache: others prove little. */
const HITS = 0.3;
/** So many purges, as parts of those that are acknowledged, have to be by hooks, and by watchers beside them. */
const HOOKED = 0.1;
const WATCHED_PURGES = 0.02;
/** One start of a gateway in so many is to hear of no purge. */
const DEAF = 3;
/** What draws random numbers. Each draws its own, so that the order in which they draw does not count. */
const DRAWERS = ['engine', 'askers', 'loads', 'weather', 'deafness'] as const;

/**
 * Runs gateways in front of one engine, clients, loads and bad weather, until the goals are reached or a promise was
 * broken. When none was broken, everything is mended then, and each gateway has to acknowledge a purge.
 */
export async function runOracle(options: {
  seed: number;
  goals: Goals;
  form: OracleForm;
  /** Which disturbances there are, by their names and places in their lists; all unless given. */
  disturbedBy?: (name: string, at: number) => boolean;
  /** Whether the promise of the watcher is tried behind all else, where there is one; unless given it is. */
  triesWatcher?: boolean;
  /** No gateway hears of any purge. */
  allDeaf?: boolean;
  /** The program; that of this tree unless given. */
  main?: string;
  /** Told now and then how far it is. */
  onProgress?: (run: OracleRun) => void;
}): Promise<OracleRun> {
  const { goals, form, disturbedBy = () => true, triesWatcher = true } = options;
  const ledger = openLedger();
  const tally: Tally = {
    judged: 0,
    hits: 0,
    warmed: 0,
    stale: 0,
    outcomes: new Map(),
    calm: new Map(),
  };
  const purges = { sent: 0, acknowledged: 0, refused: 0, lost: 0, hooked: 0, accepted: 0 };
  const watched = readWatchPurges(ledger);
  const random = (drawer: (typeof DRAWERS)[number]) =>
    randomFrom(options.seed + DRAWERS.indexOf(drawer) * 7_919);
  const deafness = random('deafness');
  const deaf = () => options.allDeaf === true || deafness(DEAF) === 0;
  const engine = await startVersionEngine(ledger, random('engine'));
  const gateways: OracleGateway[] = [];
  let telling: NodeJS.Timeout | undefined;
  try {
    const { url: engineUrl, pageUrl } = engine;
    const { onLine } = watched;
    for (let number = 1; number <= GATEWAYS; number += 1) {
      const settings = { ledger, engineUrl, pageUrl, onLine, deaf, main: options.main };
      gateways.push(await form.startGateway(`gateway ${number}`, settings));
    }
    const begun = ledger.now();
    const [trouble, everything] = [new AbortController(), new AbortController()];
    const weatherRandom = random('weather');
    const weather = startWeather({
      lists: [
        ...form.disturbances(gateways, weatherRandom),
        engineDisturbances(engine, weatherRandom),
      ].map((list) => list.filter(({ name }, at) => disturbedBy(name, at))),
      answers: () => tally.judged,
      ledger,
      random: weatherRandom,
      signal: trouble.signal,
    });
    const fewest = () => Math.min(...weather.counts.values());
    // Those that failed are made good.
    const purgesDue = () =>
      goals.purges * Math.min(tally.judged / goals.requests, (fewest() + 1) / goals.disturbances);
    const asking = askAtRandom({
      gateways,
      ledger,
      signal: everything.signal,
      tally,
      isWarm: engine.isWarm,
      isShared: form.forget !== undefined,
      random: random('askers'),
      calmFor: weather.calmFor,
    });
    const loading = loadAndPurge({
      gateways,
      ledger,
      signal: trouble.signal,
      tally: purges,
      random: random('loads'),
      due: () => purges.acknowledged <= purgesDue(),
      beginLoad: form.forget && engine.beginLoad,
    });
    const isProven = () =>
      form.forget === undefined ||
      (purges.hooked >= HOOKED * goals.purges &&
        watched.count() >= WATCHED_PURGES * goals.purges &&
        tally.warmed >= sizes.oracle.warmHits * goals.purges);
    const staleDue = weather.counts.has(AWAY) ? goals.disturbances : 0;
    const reached = () =>
      tally.judged >= goals.requests &&
      tally.hits >= HITS * goals.requests &&
      isProven() &&
      tally.stale >= staleDue &&
      purges.acknowledged >= goals.purges &&
      fewest() >= goals.disturbances &&
      ledger.now() - begun >= (goals.lasting ?? 0);
    const soFar = (): OracleRun => ({
      violations: ledger.violations,
      requests: tally.judged,
      hits: tally.hits,
      warmed: tally.warmed,
      stale: tally.stale,
      purges,
      watched: watched.count(),
      disturbed: Object.fromEntries(weather.counts),
      outcomes: byFrequency(tally.outcomes),
      calm: byFrequency(tally.calm),
      engineRequests: engine.requests(),
      seconds: Math.round((ledger.now() - begun) / 1_000),
    });
    telling = setInterval(() => options.onProgress?.(soFar()), PROGRESS);
    while (!reached() && ledger.violations.length === 0) await delay(20);
    trouble.abort();
    await Promise.all([weather.over, loading]);
    if (ledger.violations.length === 0) await purgeThroughEach(gateways, ledger);
    if (form.forget !== undefined && triesWatcher && ledger.violations.length === 0) {
      const { forget } = form;
      const answers = () => tally.judged;
      await loadWithoutACall({ ledger, engine, purges: watched, forget, answers });
    }
    everything.abort();
    await asking;
    return soFar();
  } finally {
    clearInterval(telling);
    for (const gateway of gateways) await gateway.close();
    await engine.close();
  }
}

/** In good weather each gateway acknowledges a purge, sooner or later. Clients go on asking. */
async function purgeThroughEach(gateways: readonly OracleGateway[], ledger: Ledger): Promise<void> {
  const agent = new Agent();
  for (const gateway of gateways) {
    const purge = () => purgeThrough(gateway, EVERY_PLACE, { ledger, agent, asJson: false });
    while ((await purge()) !== 'acknowledged') await delay(100);
  }
}

/** What one has to know of a run that found something; '' of one that found nothing. */
export function told({ violations }: OracleRun, seed: number): string {
  const shown = violations.slice(0, 3).map(({ what, history }) => [...history, what].join('\n'));
  return violations.length === 0 ? '' : [`FUZZ_SEED=${seed}`, ...shown].join('\n\n');
}

/** One line of figures. */
export function counts({ violations, ...rest }: OracleRun, seed: number): string {
  return JSON.stringify({ seed, violations: violations.length, ...rest });
}

function byFrequency(counts: ReadonlyMap<string, number>): Record<string, number> {
  return Object.fromEntries([...counts].sort(([, one], [, other]) => other - one));
}
