import { hash } from 'node:crypto';
import type { Semaphore } from '../../common/semaphore.ts';
import type { WatchConfig } from './config.ts';
import type { FleetStore } from '../../freshness/fleet.ts';
import type { Core } from '../feature.ts';
import type { Source } from './sources.ts';

/** Equal signatures after a change, in a row, until a load counts as over. */
const SETTLED = 2;
/** Questions in a row without an answer, after which a watcher is blind. */
const MISSES = 3;
/** Longest question and purge together, and slack of the next poll beside `every`. */
const LONGEST_POLL_MS = 65_000;
const SLACK_MS = 3_000;
const ALONE = {
  blind: true,
  why: 'this gateway cannot speak to the others: Redis, or the primary process, does not answer',
};
/** Longest pause before a purge that did not hold is made again, and before a standby looks. */
const STANDBY_MS = 10_000;

/** Note of the fleet on a source. Moments are ms of a wall clock, 0 for never. */
export type WatchNote = Readonly<typeof NOTHING>;
const NOTHING = {
  /** Digest of what is asked; a note of another source counts for nothing. */
  source: '',
  signature: '',
  /** Equal signatures in a row since the last change, at most SETTLED. */
  same: 0,
  /** A purge is still to be made, or is not known to hold. */
  due: false,
  blind: false,
  failures: 0,
  /** Why the latest question failed, without secrets. */
  why: '',
  seen: 0,
  changed: 0,
  purged: 0,
};

/**
 * Purges a project when its source says something else than before. One gateway of all polls, the
 * one that has the task; the others read its note. No change is lost wherever a poller ends: a
 * change is noted as due before its purge and as done after it, and a poller that lost the task
 * meanwhile notes neither.
 * @param options.source names what is asked, without secrets
 * @param options.enter bounds how many sources are asked together; it may let others in early
 */
export function createWatcher(
  options: Pick<Core, 'fleet' | 'purge' | 'clock' | 'emit'> & {
    name: string;
    watch: Pick<WatchConfig, 'every' | 'min_interval'>;
    source: string;
    signature: Source;
    enter: Semaphore['acquire'];
  },
) {
  const { name, signature, fleet, clock, emit } = options;
  const { every, min_interval } = options.watch;
  const soon = Math.min(every, STANDBY_MS);
  const task = `watch:${name}`;
  const notes = createNotes(fleet, task, hash('sha256', options.source));
  const started = clock.wall();
  /** Polls in a row that could not reach the other gateways. */
  let alone = 0;

  /** @returns undefined where another gateway asks, or the poll was given up */
  async function look(signal: AbortSignal) {
    const leave = await options.enter(signal);
    try {
      const isMine = await fleet.hold(task, LONGEST_POLL_MS);
      const before = await notes.read();
      if (!isMine) return undefined;
      const found = await signature(signal).then(
        (text) => sees(before, hash('sha256', text), clock.wall()),
        ({ message: why }: Error) => ({ ...before, failures: before.failures + 1, why }),
      );
      return signal.aborted ? undefined : { before, found };
    } finally {
      leave();
    }
  }

  async function poll(signal: AbortSignal): Promise<number> {
    const looked = await look(signal);
    if (looked === undefined) return soon;
    const { before, found } = looked;
    let note = found;
    const elapsed = clock.wall() - note.purged;
    // A clock that was set back joins nothing.
    const isJoined = elapsed >= 0 && elapsed < min_interval;
    if (note.due && !isJoined) {
      if (!(await notes.write(note))) return soon;
      const purged = clock.wall();
      const order = { principal: task, cause: 'watch' } as const;
      const { ok } = await options.purge({ project: name }, order);
      if (ok) note = { ...note, due: false, purged };
      else if (note.why === '') note = { ...note, why: 'the purge did not hold' };
    }
    const isBlind = note.failures >= MISSES || (before.blind && (note.due || note.failures > 0));
    note = { ...note, blind: isBlind };
    if (!(await notes.write(note))) return soon;
    if (isBlind !== before.blind) {
      const state = isBlind ? 'blind' : 'seeing';
      emit({ type: 'watch-state', project: name, state, why: note.why });
    }
    // Until the next poll: if this gateway ends, no other waits longer.
    if (!(await fleet.hold(task, every + SLACK_MS))) return soon;
    if (!note.due) return every;
    return isJoined ? Math.min(every, min_interval - elapsed) : soon;
  }

  return {
    /** Never rejects. @returns the longest pause before the next poll (ms) */
    async poll(signal: AbortSignal): Promise<number> {
      try {
        const pause = await poll(signal);
        alone = 0;
        return pause;
      } catch (error) {
        if (signal.aborted) return 0;
        alone += 1;
        emit({ type: 'redis-failed', operation: 'watches', error });
        return soon;
      }
    },
    /** Tells what the latest poll of any gateway found; true while nothing is known. */
    isBlind: () => notes.latest()?.blind !== false || alone >= MISSES,
    /** Whether the source answered the latest poll of any gateway, and this gateway knows of it. */
    hasSeen: () => (notes.latest()?.seen ?? 0) > 0 && notes.latest()?.failures === 0 && alone === 0,
    /** Time since any gateway had an answer, or since this watcher was made (ms). */
    age: () => Math.max(0, clock.wall() - (notes.latest()?.seen || started)),
    /** Never rejects. */
    begin: async (): Promise<void> => void (await notes.read().catch(() => undefined)),
    /** Reads the note, or tells it as it was. Never rejects. */
    note: () => notes.peek().catch(() => ({ ...notes.lastKnown(), ...(alone >= MISSES && ALONE) })),
    /** Lets another gateway poll. Never rejects. */
    leave: () => fleet.leave(task).catch(() => {}),
  };
}

function createNotes(fleet: FleetStore, task: string, source: string) {
  const nothing: WatchNote = { ...NOTHING, source };
  let latest: WatchNote | undefined;

  async function peek(): Promise<WatchNote> {
    const text = await fleet.note(task);
    if (text === undefined) return nothing;
    try {
      const note = JSON.parse(text) as WatchNote | null;
      return note?.source === source ? note : nothing;
    } catch {
      return nothing;
    }
  }

  return {
    peek,
    latest: () => latest,
    lastKnown: () => latest ?? nothing,
    read: async () => (latest = await peek()),
    /** Writes nothing where another gateway has the task by now. @returns whether it wrote */
    async write(note: WatchNote): Promise<boolean> {
      const isMine = await fleet.write(task, JSON.stringify(note), task);
      if (isMine) latest = note;
      return isMine;
    },
  };
}

/** Notes a signature. The first of all counts as a change that no load need follow. */
function sees(note: WatchNote, signature: string, now: number): WatchNote {
  const seen = { ...note, signature, failures: 0, why: '', seen: now };
  if (note.signature === '') return { ...seen, due: true, same: SETTLED };
  if (note.signature !== signature) return { ...seen, due: true, same: 0, changed: now };
  const same = Math.min(note.same + 1, SETTLED);
  // The load is over: what was read in its middle goes.
  return { ...seen, same, due: note.due || (same === SETTLED && note.same < SETTLED) };
}
