import type { Clock } from '../../common/clock.ts';
import type { Emit } from '../../common/events.ts';
import { foldObjectName } from '../../common/fold-case.ts';
import { oneAfterTheOther } from '../../common/in-turn.ts';
import { principalOf } from '../../common/principal.ts';
import type { WarmSettings } from './as-whom.ts';
import { type Candidate, type Candidates, planned } from './candidates.ts';
import type { WarmCut, WarmRun } from './events.ts';
import type { WarmLine, WarmUser } from './lane.ts';
import { type RunNotes, SIGN_MS } from './notes.ts';
import { askAll, type Chosen, createRunning, type Running } from './run.ts';

/** Choice of candidates for a run; all without one. */
interface Wish {
  readonly project?: string | undefined;
  /** Digests. */
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

/** Runs of this process: one at a time in the fleet, or in each worker where they share no entries. */
export function createRuns(parts: {
  /** Names this process. */
  readonly id: string;
  readonly notes: RunNotes;
  readonly candidates: Pick<Candidates, 'list'>;
  readonly line: () => WarmLine;
  readonly settings: () => WarmSettings;
  /** Whether runs may still begin. */
  readonly isOn: () => boolean;
  readonly purge: () => { readonly id: string; readonly at: number } | undefined;
  readonly clock: Clock;
  readonly newId: () => string;
  readonly sleep: (milliseconds: number) => Promise<void>;
  readonly failed: (error: unknown) => void;
  readonly emit: Emit;
}) {
  const { id: gateway, notes, candidates, line, purge, clock, failed, emit } = parts;
  /** The purge after which nothing is left to be done. */
  let done: string | undefined;
  let running: (Running & { readonly over: Promise<void> }) | undefined;
  /** Takes the task and leaves it: this process would get one that it has once more, and then leave it under a run. */
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

/** Whether another gateway need not take over. */
const isWhole = ({ ended, cut }: WarmRun) => ended !== null && !UNFINISHED.has(cut);

/** Whether a wish means a candidate. What others wrote is sent with the login of a user only where that names it. */
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
