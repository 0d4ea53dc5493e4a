import { once } from 'node:events';
import type { Clock } from '../../common/clock.ts';
import { GatewayError } from '../../common/errors.ts';
import type { Emit, GatewayEvent, WarmCut, WarmResult, WarmRun } from '../../common/events.ts';
import { foldObjectName } from '../../common/fold-case.ts';
import { oneAfterTheOther } from '../../common/in-turn.ts';
import { type Principal, principalOf } from '../../common/principal.ts';
import type { WarmConfig } from '../../features/warm/config.ts';
import type { FleetStore } from '../../freshness/fleet.ts';
import {
  type Beginning,
  type Candidate,
  type CandidateList,
  type Candidates,
  planned,
  scoreOf,
  type Way,
} from './candidates.ts';

/** In whose name a run asks. The login is kept by the run alone. */
export interface WarmUser {
  readonly principal: Principal;
  readonly authorization: string | undefined;
  /** Whether it is a user, whose own entries may be filled. */
  readonly isUser: boolean;
}

/** One way in which a query is asked again. */
export interface Job {
  readonly candidate: Candidate;
  readonly way: Way;
  /** The identities for which that was done. */
  readonly done: Set<string>;
}

/** `reason`: why not, of all but `stored` and `there`; `ms`: what the engine needed. */
export interface AskedWay {
  readonly result: WarmResult;
  readonly reason?: string;
  readonly ms: number;
}

/** Asks one after the other, in sessions of its own. */
export interface Lane {
  /** One for each identity for which it is filled. Rejects for a mistake of this program only. */
  ask(job: Job): Promise<readonly AskedWay[]>;
  /** Ends the sessions. Never rejects. */
  close(): Promise<void>;
}

/**
 * Port: asks as an ordinary request is asked.
 * @param given.cut ends what is under way; its reason is a GatewayError `client-gone`
 * @param given.since no entry goes that was used since then (monotonic, ms)
 * @param given.onDemand what all lanes of a run know of catalogs that are not to be asked ahead
 */
export interface WarmLine {
  open(given: {
    readonly as: WarmUser;
    readonly cut: AbortSignal;
    readonly beginnings: readonly Beginning[];
    readonly since: number;
    readonly onDemand: Map<string, Promise<readonly string[]>>;
  }): Lane;
  /** Whether the engine of a project gets the login that asks. */
  forwards(project: string): boolean;
}

/** What a run is to ask, of all candidates. */
interface Wish {
  readonly project?: string | undefined;
  /** Digests. */
  readonly queries?: ReadonlySet<string> | undefined;
}

/** The candidates that a run asks, in its order. */
interface Chosen extends CandidateList {
  /** Whether the wish means this one, by the configuration in force. */
  isMeant(one: Candidate): boolean;
}

/** After these another gateway takes over. */
const UNFINISHED: ReadonlySet<WarmCut | null> = new Set(['off', 'shutdown', 'gateway-gone']);

const PURGE = 'warm:purge';
const RUNS = 'warm:runs';
const TASK = 'warm';
/** For how long a run outlives the last sign of life of its gateway, and how often that gives one (ms). */
const LIFE = 10_000;
const SIGN = 3_000;
const MAX_RUNS = 20;
const MAX_FAILURES = 5;
/** So often a query that users overtook is tried again. */
const MAX_TRIES = 3;
/** An engine that needs so many times what it needed before is left alone for as long as it needed. */
const SLOWER = 2;
/** No user can have this name (RFC 7617 §2). */
const BY_ITSELF: WarmUser = {
  principal: principalOf('warm-up:'),
  authorization: undefined,
  isUser: false,
};
const ENDED = new GatewayError('client-gone', 'The run of the warm-up was ended.');

/** What counts from now on, and whether a run may begin by itself, as whom, in words. */
export interface WarmSettings extends WarmConfig {
  readonly as: { readonly possible: boolean; readonly text: string };
}

export type WarmUp = ReturnType<typeof createWarmUp>;
/**
 * The story of the warm-up: after a purge, and when an administrator asks for it, the most valuable queries are asked again.
 * One gateway does it for all, or each worker for itself where they share no entries.
 * @param parts.id names this process
 * @param parts.isShared whether all gateways share the entries
 * @param parts.line of the configuration in force
 */
export function createWarmUp(parts: {
  readonly id: string;
  readonly isShared: boolean;
  readonly settings: WarmSettings;
  readonly candidates: Candidates;
  readonly fleet: FleetStore;
  readonly line: () => WarmLine;
  readonly clock: Clock;
  readonly newId: () => string;
  readonly sleep: (milliseconds: number) => Promise<void>;
  readonly emit: Emit;
}) {
  const { id, isShared, candidates, fleet, clock, newId, emit } = parts;
  let { settings } = parts;
  candidates.configure(settings);
  /** The latest purge that is known here, and since when (monotonic, ms). */
  let purge: { readonly id: string; readonly at: number } | undefined;
  /** One that was made here and that the others were not told yet. */
  let untold: string | undefined;
  /** The purge after which nothing is left to be done. */
  let done: string | undefined;
  let running:
    | { readonly run: WarmRun; cut(why: WarmCut): void; readonly over: Promise<void> }
    | undefined;
  let looking: Promise<void> | undefined;
  let closed = false;
  /** Takes the task and leaves it: this process would get one that it has once more, and then leave it under a run. */
  const inTurn = oneAfterTheOther();
  const wallText = () => new Date(clock.wall()).toISOString();
  const failed = (error: unknown) => emit({ type: 'redis-failed', operation: 'warm-up', error });

  function see(newest: string): void {
    if (newest === purge?.id) return;
    purge = { id: newest, at: clock.now() };
    running?.cut('purge');
  }

  async function tellPurge(): Promise<void> {
    const telling = untold;
    if (telling === undefined) return;
    await fleet.write(PURGE, telling);
    if (untold === telling) untold = undefined;
  }

  async function look(): Promise<void> {
    await tellPurge();
    const newest = await fleet.note(PURGE);
    if (newest !== undefined && untold === undefined) see(newest);
    if (closed || purge === undefined || running !== undefined || purge.id === done) return;
    if (!settings.as.possible || clock.now() - purge.at < settings.settle) return;
    const { id: cause } = purge;
    await inTurn(() => begin(BY_ITSELF, cause, {}));
  }

  async function readRuns(): Promise<WarmRun[]> {
    const text = await fleet.note(RUNS);
    try {
      return text === undefined ? [] : (JSON.parse(text) as WarmRun[]);
    } catch {
      return [];
    }
  }

  /** For who looks on: a run of a process that was killed is not under way. */
  async function readLiving(): Promise<WarmRun[]> {
    const runs = await readRuns();
    const isOpen = runs.some(({ ended }) => ended === null);
    if (!isOpen || running !== undefined || !(await fleet.hold(TASK, SIGN))) return runs;
    // It may have ended since they were read.
    const latest = await readRuns();
    endLost(latest);
    await fleet.write(RUNS, JSON.stringify(latest), TASK);
    await fleet.leave(TASK);
    return latest;
  }

  /** Undefined where another gateway is at it, or nothing is left to be done. */
  async function begin(as: WarmUser, cause: string | null, wish: Wish) {
    if (running !== undefined || !(await fleet.hold(TASK, LIFE))) return undefined;
    // Where the store does not answer, the run begins later.
    const [runs, list] = await Promise.all([readRuns(), candidates.list()]);
    const ofOthers = ({ purge: of, ended, cut, gateway }: WarmRun) =>
      of === cause && ended !== null && !UNFINISHED.has(cut) && (isShared || gateway === id);
    const isDone = cause !== null && runs.some(ofOthers);
    if (isDone) done = cause;
    // Meanwhile another purge may have come, a reload, or the end.
    const isLate = cause !== null && cause !== purge?.id;
    if (isDone || isLate || closed || settings.mode === 'off') {
      await fleet.leave(TASK);
      return undefined;
    }
    endLost(runs);
    const by = as.isUser ? as.principal.name : null;
    const none = { planned: 0, stored: 0, there: 0, not_stored: {}, failed: {}, skipped: {} };
    const open = { ended: null, cut: null, engine_seconds: 0 };
    const { project = null, queries } = wish;
    const from = { id: newId(), gateway: id, purge: cause, by, project, begun: wallText() };
    const isMeant = isMeantBy(wish, as);
    const meant = list.candidates.filter(isMeant);
    const inOrder = queries ? meant : planned(meant, settings.queries, clock.wall());
    start(as, { ...from, ...open, ...none }, { ...list, candidates: inOrder, isMeant }, runs);
    const digests = new Set(meant.map(({ digest }) => digest));
    return { id: from.id, ...(queries && { unknown: [...queries.difference(digests)] }) };
  }

  /** What others wrote is sent with the login of a user only where that names it. */
  function isMeantBy({ project, queries }: Wish, { isUser, principal }: WarmUser) {
    const wanted = project && foldObjectName(project);
    return (one: Candidate): boolean => {
      const names = [one.project, ...one.catalogs].map(foldObjectName);
      if (wanted !== undefined && !names.includes(wanted)) return false;
      if (queries !== undefined) return queries.has(one.digest);
      return !isUser || one.users.includes(principal.name) || !parts.line().forwards(one.project);
    };
  }

  /** Who had the task is gone. */
  function endLost(runs: readonly WarmRun[]): void {
    for (const one of runs) {
      if (one.ended === null) Object.assign(one, { ended: wallText(), cut: 'gateway-gone' });
    }
  }

  function start(as: WarmUser, run: WarmRun, list: Chosen, others: readonly WarmRun[]) {
    const end = new AbortController();
    const cut = (why: WarmCut) => {
      run.cut ??= why;
      end.abort(ENDED);
    };
    const save = () => fleet.write(RUNS, JSON.stringify([run, ...others].slice(0, MAX_RUNS)), TASK);
    const sign = async () => {
      if (!(await fleet.hold(TASK, LIFE)) || !(await save())) cut('other-gateway');
    };
    const stopSigns = clock.every(SIGN, () => void sign().catch(failed));
    const tell = (state: 'begun' | 'ended') => emit({ type: 'warm-run', state, ...rounded(run) });

    async function whole(): Promise<void> {
      try {
        await save().catch(failed);
        tell('begun');
        await askAll(as, run, list, end.signal, cut);
      } catch (error) {
        emit({ type: 'internal-error', id: run.id, error });
        cut('failures');
      }
      stopSigns();
      run.ended = wallText();
      if (run.purge !== null && !UNFINISHED.has(run.cut)) done = run.purge;
      await save()
        .then(() => fleet.leave(TASK))
        .catch(failed);
      running = undefined;
      tell('ended');
    }
    running = { run, cut, over: Promise.resolve().then(whole) };
  }

  async function askAll(
    as: WarmUser,
    run: WarmRun,
    list: Chosen,
    cut: AbortSignal,
    end: (why: WarmCut) => void,
  ) {
    const { concurrency, budget } = settings;
    const jobs = list.candidates.flatMap((candidate) =>
      candidate.ways.map((way) => ({ candidate, way, done: new Set<string>(), tries: 0 })),
    );
    run.planned = jobs.length;
    let inRow = 0;
    const isCut = once(cut, 'abort');

    function count({ result, reason = '' }: AskedWay): void {
      if (result === 'overtaken') return;
      if (result === 'stored' || result === 'there') run[result] += 1;
      else {
        const { [COUNTED[result]]: counts } = run;
        counts[reason] = (counts[reason] ?? 0) + 1;
      }
      const isFailure = result === 'failed' || (result === 'not-stored' && !OF_SIZE.has(reason));
      inRow = isFailure ? inRow + 1 : 0;
      if (inRow >= MAX_FAILURES) end('failures');
    }

    async function one(lane: Lane, job: (typeof jobs)[number]): Promise<void> {
      const { candidate, tries, done: before } = job;
      const isFirst = before.size === 0;
      // A reload may have brought an engine that gets the login.
      const asked = list.isMeant(candidate) ? [...(await lane.ask(job))] : [OF_OTHERS];
      const isOvertaken = asked.some(({ result }) => result === 'overtaken');
      if (isOvertaken && !cut.aborted && tries < MAX_TRIES) jobs.push({ ...job, tries: tries + 1 });
      else if (isOvertaken && !cut.aborted)
        asked.push({ result: 'skipped', reason: 'overtaken', ms: 0 });
      const results = asked.filter(({ result }) => result !== 'overtaken');
      // One for each identity; of how many was not known when it was planned.
      run.planned += isFirst ? Math.max(0, results.length - 1) : results.length;
      for (const told of asked) {
        count(told);
        const { digest, project: of } = candidate;
        const { ms: milliseconds, ...how } = told;
        emit({ type: 'warmed', run: run.id, digest, project: of, ...how, milliseconds });
        run.engine_seconds += milliseconds / 1000;
      }
      if (run.engine_seconds * 1000 >= budget) end('budget');
      const longest = Math.max(0, ...asked.map(({ ms }) => ms));
      if (longest > SLOWER * candidate.ms && !cut.aborted) {
        await Promise.race([parts.sleep(longest), isCut]);
      }
    }

    const since = purge?.at ?? clock.now();
    const onDemand = new Map<string, Promise<readonly string[]>>();
    async function ask(): Promise<void> {
      let job = jobs.shift();
      while (job !== undefined && !cut.aborted) {
        const line = parts.line();
        const lane = line.open({ as, cut, beginnings: list.beginnings, since, onDemand });
        try {
          // A reload brought another one.
          while (job !== undefined && !cut.aborted && line === parts.line()) {
            await one(lane, job);
            job = jobs.shift();
          }
        } finally {
          await lane.close();
        }
      }
    }
    await Promise.all(Array.from({ length: concurrency }, ask));
  }

  return {
    /** Hears of purges that hold. */
    on(event: GatewayEvent): void {
      if (settings.mode === 'off' || event.type !== 'purged' || event.result === 'owed') return;
      untold = event.id;
      see(event.id);
      tellPurge().catch(failed);
    },
    /** Looks whether a run is due: to be called each second. Never rejects. */
    look(): Promise<void> {
      if (settings.mode === 'off' || closed) return Promise.resolve();
      return (looking ??= look()
        .catch(failed)
        .finally(() => (looking = undefined)));
    },
    /**
     * Begins a run with the login of a user.
     * @returns its id, and which of the named queries are not known
     * @throws GatewayError `not-warmed` where there is one, or the warm-up is off
     */
    async begin(as: Omit<WarmUser, 'isUser'>, wish: Wish) {
      if (settings.mode === 'off') throw notNow('warm.mode is off, so that no queries are kept');
      const user = { ...as, isUser: true };
      const begun = await inTurn(() => begin(user, null, wish)).catch((error) => {
        failed(error);
        throw notNow('Redis does not answer, so that it is not known whether a run is under way');
      });
      if (begun === undefined) throw notNow(UNDER_WAY);
      return begun;
    },
    /** What GET /admin/warm tells, for JSON. */
    async tell() {
      const { mode, as, settle, queries } = settings;
      const now = clock.wall();
      const isWaiting = mode === 'auto' && as.possible && purge?.id !== done && !running;
      const left = (purge?.at ?? 0) + settle - clock.now();
      const waiting = { purge: purge?.id, begins_in_ms: Math.max(0, Math.round(left)) };
      let complete = true;
      const lost = (error: unknown) => {
        failed(error);
        complete = false;
      };
      const [list, noted] = await Promise.all([
        candidates.list().catch(lost),
        mode === 'off' ? [] : inTurn(readLiving).catch(lost),
      ]);
      const runs = (noted ?? []).map((one) => (one.id === running?.run.id ? running.run : one));
      const open = running?.run ?? runs.find(({ ended }) => ended === null);
      return {
        mode,
        as: as.text,
        complete,
        waiting: isWaiting ? waiting : null,
        run: open === undefined ? null : rounded(open),
        runs: runs.filter((one) => one.ended !== null).map(rounded),
        candidates: planned(list?.candidates ?? [], queries, now).map((one) => ({
          digest: one.digest,
          subject: one.subject,
          project: one.project,
          catalogs: one.catalogs.join(', '),
          score: Math.round(scoreOf(one, now)),
          asks: Math.round(one.asks * 10) / 10,
          engine_ms: Math.round(one.ms * 10) / 10,
        })),
      };
    },
    /** All but `mode` counts for the next run. */
    configure(next: WarmSettings): void {
      settings = next;
      candidates.configure(next);
      if (next.mode === 'off') running?.cut('off');
    },
    /** Ends the run that is under way. */
    async close(): Promise<void> {
      closed = true;
      running?.cut('shutdown');
      await looking;
      await running?.over;
    },
  };
}

const UNDER_WAY = 'a run is under way';
/** These say nothing of the engine. */
const OF_SIZE: ReadonlySet<string> = new Set(['too-large', 'no-room', 'session-changed']);
const OF_OTHERS: AskedWay = { result: 'skipped', reason: 'of-other-users', ms: 0 };
const COUNTED = { 'not-stored': 'not_stored', failed: 'failed', skipped: 'skipped' } as const;

const notNow = (why: string) => new GatewayError('not-warmed', `Nothing is asked: ${why}.`);

const rounded = (run: WarmRun) => ({
  ...run,
  engine_seconds: Math.round(run.engine_seconds * 10) / 10,
});
