import { once } from 'node:events';
import { GatewayError } from '../../common/errors.ts';
import { foldObjectName } from '../../common/fold-case.ts';
import { oneAfterTheOther } from '../../common/in-turn.ts';
import { principalOf } from '../../common/principal.ts';
import type { Core } from '../feature.ts';
import type { WarmSettings } from './as-whom.ts';
import { type Candidate, type CandidateList, type Candidates, planned } from './candidates.ts';
import type { WarmConfig } from './config.ts';
import type { WarmCut, WarmRun } from './events.ts';
import type { AskedWay } from './fill.ts';
import type { Lane, WarmLine, WarmUser } from './lane.ts';
import { type createRunNotes, SIGN_MS } from './notes.ts';

const MAX_FAILURES = 5;
/** Retries of a query that users overtook. */
const MAX_TRIES = 3;
/** An engine this many times slower than before is left alone for as long as it took. */
const SLOWER = 2;
const ENDED = new GatewayError('client-gone', 'The run of the warm-up was ended.');

interface Chosen extends CandidateList {
  /** Says whether the run wants a candidate, by the configuration in force. */
  isMeant(one: Candidate): boolean;
}

interface RunParts extends Pick<Core, 'id' | 'newId' | 'clock' | 'emit'> {
  readonly notes: ReturnType<typeof createRunNotes>;
  readonly candidates: Pick<Candidates, 'list'>;
  readonly line: () => WarmLine;
  readonly settings: () => WarmSettings;
  readonly isOn: () => boolean;
  readonly purge: () => { readonly id: string; readonly at: number } | undefined;
  readonly sleep: (milliseconds: number) => Promise<void>;
  readonly failed: (error: unknown) => void;
}

type Begun = Pick<WarmRun, 'id' | 'gateway' | 'purge' | 'by' | 'project' | 'begun'>;
type Running = ReturnType<typeof createRunning>;

function createRunning(from: Begun) {
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

async function askAll(
  { run, signal, cut }: Running,
  chosen: Chosen,
  parts: Pick<RunParts, 'line' | 'sleep' | 'emit'> & {
    readonly settings: Pick<WarmConfig, 'concurrency' | 'budget'>;
    readonly as: WarmUser;
    readonly since: number;
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
    // One for each identity: their number was not known when this was planned.
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

/** Reasons that say nothing against the engine. */
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

/** Choice of candidates; all without one. */
interface Wish {
  readonly project?: string | undefined;
  readonly queries?: ReadonlySet<string> | undefined;
}

/** Cuts after which another gateway takes over. */
const UNFINISHED: ReadonlySet<WarmCut | null> = new Set(['off', 'shutdown', 'gateway-gone']);
/** No user can have this name (RFC 7617 §2). */
export const BY_ITSELF: WarmUser = {
  principal: principalOf('warm-up:'),
  authorization: undefined,
  isUser: false,
};

/** Runs of this process: one at a time in the fleet, or in a worker that shares no entries. */
export function createRuns(parts: RunParts) {
  const { id: gateway, notes, candidates, line, purge, clock, failed, emit } = parts;
  /** Purge after which nothing is left to be done. */
  let done: string | undefined;
  let running: (Running & { readonly over: Promise<void> }) | undefined;
  /** Takes and leaves the task in turn: a task held twice would be left under a run. */
  const inTurn = oneAfterTheOther();

  async function begin(as: WarmUser, cause: string | null, wish: Wish) {
    if (running !== undefined || !(await notes.take())) return undefined;
    // Where the store does not answer, the run begins later.
    const [runs, list] = await Promise.all([notes.read(), candidates.list()]);
    const { isShared, queries: most } = parts.settings();
    const isDoneBy = (one: WarmRun) =>
      one.purge === cause && isWhole(one) && (isShared || one.gateway === gateway);
    const isDone = cause !== null && runs.some(isDoneBy);
    if (isDone) done = cause;
    // Meanwhile another purge may have come, a reload, or the end.
    const isLate = cause !== null && cause !== purge()?.id;
    if (isDone || isLate || !parts.isOn()) {
      await notes.leave();
      return undefined;
    }
    notes.endLost(runs);
    const isMeant = (one: Candidate) => isWished(one, wish, as, line());
    const meant = list.candidates.filter(isMeant);
    const inOrder = wish.queries ? meant : planned(meant, most, clock.wall());
    const by = as.isUser ? as.principal.name : null;
    const { project = null, queries } = wish;
    const from = { id: parts.newId(), gateway, purge: cause, by, project, begun: notes.now() };
    start(as, createRunning(from), { ...list, candidates: inOrder, isMeant }, runs);
    const known = new Set(meant.map(({ digest }) => digest));
    return { id: from.id, ...(queries && { unknown: [...queries.difference(known)] }) };
  }

  function start(as: WarmUser, own: Running, chosen: Chosen, others: readonly WarmRun[]): void {
    const { run } = own;
    const save = () => notes.save([run, ...others]);
    const sign = async () => {
      if (!(await notes.take()) || !(await save())) own.cut('other-gateway');
    };
    const stopSigns = clock.every(SIGN_MS, () => void sign().catch(failed));
    const tell = (state: 'begun' | 'ended') => emit({ type: 'warm-run', state, ...rounded(run) });

    async function whole(): Promise<void> {
      const since = purge()?.at ?? clock.now();
      try {
        await save().catch(failed);
        tell('begun');
        await askAll(own, chosen, { ...parts, settings: parts.settings(), as, since });
      } catch (error) {
        emit({ type: 'internal-error', id: run.id, error });
        own.cut('failures');
      }
      stopSigns();
      run.ended = notes.now();
      if (run.purge !== null && isWhole(run)) done = run.purge;
      await save().then(notes.leave).catch(failed);
      running = undefined;
      tell('ended');
    }
    running = { ...own, over: Promise.resolve().then(whole) };
  }

  return {
    running: () => running,
    isDone: (cause: string | undefined) => cause === done,
    /** @returns undefined where another gateway is at it, or nothing is left to be done */
    begin: (as: WarmUser, cause: string | null, wish: Wish) => inTurn(() => begin(as, cause, wish)),
    readLiving: () => inTurn(() => notes.readLiving(() => running !== undefined)),
  };
}

const isWhole = ({ ended, cut }: WarmRun) => ended !== null && !UNFINISHED.has(cut);

/** Others' queries go with the login of a user only where that user names them. */
function isWished(
  one: Candidate,
  { project, queries }: Wish,
  { isUser, principal }: WarmUser,
  line: WarmLine,
): boolean {
  const names = [one.project, ...one.catalogs].map(foldObjectName);
  if (project && !names.includes(foldObjectName(project))) return false;
  if (queries !== undefined) return queries.has(one.digest);
  return !isUser || one.users.includes(principal.name) || !line.forwards(one.project);
}

export const rounded = (run: WarmRun) => ({
  ...run,
  engine_seconds: Math.round(run.engine_seconds * 10) / 10,
});
