import { once } from 'node:events';
import { GatewayError } from '../../common/errors.ts';
import type { Emit } from '../../common/events.ts';
import type { Candidate, CandidateList } from './candidates.ts';
import type { WarmConfig } from './config.ts';
import type { WarmCut, WarmRun } from './events.ts';
import type { AskedWay } from './fill.ts';
import type { Lane, WarmLine, WarmUser } from './lane.ts';

const MAX_FAILURES = 5;
/** How often a query that users overtook is tried again. */
const MAX_TRIES = 3;
/** An engine that needs so many times what it needed before is left alone for as long as it needed. */
const SLOWER = 2;
const ENDED = new GatewayError('client-gone', 'The run of the warm-up was ended.');

/** The candidates that a run asks, in its order. */
export interface Chosen extends CandidateList {
  /** Whether the wish means this one, by the configuration in force. */
  isMeant(one: Candidate): boolean;
}

type Begun = Pick<WarmRun, 'id' | 'gateway' | 'purge' | 'by' | 'project' | 'begun'>;
export type Running = ReturnType<typeof createRunning>;

/** A run that can be ended early. */
export function createRunning(from: Begun) {
  const none = { planned: 0, stored: 0, there: 0, not_stored: {}, failed: {}, skipped: {} };
  const run: WarmRun = { ...from, ended: null, cut: null, engine_seconds: 0, ...none };
  const end = new AbortController();
  return {
    run,
    signal: end.signal,
    cut(why: WarmCut): void {
      run.cut ??= why;
      end.abort(ENDED);
    },
  };
}

/** Asks what was chosen, some at one time, until the run is cut. */
export async function askAll(
  { run, signal, cut }: Running,
  chosen: Chosen,
  parts: {
    readonly settings: Pick<WarmConfig, 'concurrency' | 'budget'>;
    readonly as: WarmUser;
    readonly since: number;
    readonly line: () => WarmLine;
    readonly sleep: (milliseconds: number) => Promise<void>;
    readonly emit: Emit;
  },
): Promise<void> {
  const { settings, as, since, line, sleep, emit } = parts;
  const jobs = chosen.candidates.flatMap((candidate) =>
    candidate.ways.map((way) => ({ candidate, way, done: new Set<string>(), tries: 0 })),
  );
  run.planned = jobs.length;
  let failuresInRow = 0;
  const isCut = once(signal, 'abort');

  function note(told: AskedWay, { digest, project }: Candidate): void {
    const { ms: milliseconds, ...how } = told;
    if (isFailure(told)) failuresInRow += 1;
    else if (told.result !== 'overtaken') failuresInRow = 0;
    countIn(run, told);
    if (failuresInRow >= MAX_FAILURES) cut('failures');
    emit({ type: 'warmed', run: run.id, digest, project, ...how, milliseconds });
    run.engine_seconds += milliseconds / 1000;
  }

  async function askJob(lane: Pick<Lane, 'ask'>, job: (typeof jobs)[number]): Promise<void> {
    const { candidate, tries, done } = job;
    const isFirst = done.size === 0;
    // A reload may have brought an engine that gets the login.
    const asked = chosen.isMeant(candidate) ? [...(await lane.ask(job))] : [OF_OTHERS];
    if (asked.some(({ result }) => result === 'overtaken') && !signal.aborted) {
      if (tries < MAX_TRIES) jobs.push({ ...job, tries: tries + 1 });
      else asked.push({ result: 'skipped', reason: 'overtaken', ms: 0 });
    }
    const { length } = asked.filter(({ result }) => result !== 'overtaken');
    // One for each identity; how many there are was not known when it was planned.
    run.planned += isFirst ? Math.max(0, length - 1) : length;
    for (const told of asked) note(told, candidate);
    if (run.engine_seconds * 1000 >= settings.budget) cut('budget');
    const longest = Math.max(0, ...asked.map(({ ms }) => ms));
    if (longest > SLOWER * candidate.ms && !signal.aborted) {
      await Promise.race([sleep(longest), isCut]);
    }
  }

  const ofRun = { as, cut: signal, beginnings: chosen.beginnings, since, onDemand: new Map() };
  async function askInLanes(): Promise<void> {
    let job = jobs.shift();
    while (job !== undefined && !signal.aborted) {
      const current = line();
      const lane = current.open(ofRun);
      try {
        // A reload brought another line.
        while (job !== undefined && !signal.aborted && current === line()) {
          await askJob(lane, job);
          job = jobs.shift();
        }
      } finally {
        await lane.close();
      }
    }
  }
  await Promise.all(Array.from({ length: settings.concurrency }, askInLanes));
}

/** Reasons that say nothing of the engine. */
const OF_SIZE: ReadonlySet<string> = new Set(['too-large', 'no-room', 'session-changed']);
const isFailure = ({ result, reason = '' }: AskedWay) =>
  result === 'failed' || (result === 'not-stored' && !OF_SIZE.has(reason));
const OF_OTHERS: AskedWay = { result: 'skipped', reason: 'of-other-users', ms: 0 };

const COUNTED = { 'not-stored': 'not_stored', failed: 'failed', skipped: 'skipped' } as const;

function countIn(run: WarmRun, { result, reason = '' }: AskedWay): void {
  if (result === 'overtaken') return;
  if (result === 'stored' || result === 'there') {
    run[result] += 1;
    return;
  }
  const { [COUNTED[result]]: counts } = run;
  counts[reason] = (counts[reason] ?? 0) + 1;
}
