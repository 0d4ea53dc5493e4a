import { hash } from 'node:crypto';
import type { Purge } from '../../cache/purge/purge.ts';
import type { Semaphore } from '../../common/semaphore.ts';
import type { Clock } from '../../common/clock.ts';
import type { Emit } from '../../common/events.ts';
import type { WatchConfig } from './config.ts';
import type { FleetStore } from '../../freshness/fleet.ts';
import type { Source } from './sources.ts';

/** So often in a row a signature must be equal after a change before the load counts as over. */
const SETTLED = 2;
/** After so many questions in a row without an answer a watcher is blind. */
const MISSES = 3;
/** What a question and a purge may take together, and the next poll beside `every` (ms). */
const LONGEST_POLL = 65_000;
const SLACK = 3_000;
const ALONE =
  'this gateway cannot speak to the others: Redis, or the primary process, does not answer';
/** After so long at most (ms) a purge is made again that did not hold, and a gateway that does not poll looks whether it must. */
const STANDBY = 10_000;

/** What is known of a watched source, by all gateways: the note of the fleet. Times are ms of a wall clock, 0 for never. */
export type WatchNote = Readonly<typeof NOTHING>;
const NOTHING = {
  /** Digest of what is asked: of something else nothing is known. */
  source: '',
  /** Digest of the latest signature; '' while there is none. */
  signature: '',
  /** How often in a row it was the same since it changed, at most SETTLED. */
  same: 0,
  /** Whether a purge is still to be made, or not known to hold. */
  due: false,
  blind: false,
  /** Questions in a row that had no answer. */
  failures: 0,
  /** Of the latest failure, in words without secrets; '' for none. */
  why: '',
  seen: 0,
  changed: 0,
  purged: 0,
};

/**
 * Purges a project when its source says something else than before. Of all gateways one polls, which has the task; the others
 * read what it noted. What is noted and when makes that no change is lost wherever a poller ends: a change is noted as due
 * before its purge, and as done behind it; one that lost the task meanwhile can note neither.
 * @param options.source names what is asked, without secrets
 * @param options.enter bounds how many sources are asked at one time; it may let others in before a question is over
 */
export function createWatcher(options: {
  name: string;
  watch: Pick<WatchConfig, 'every' | 'min_interval'>;
  source: string;
  signature: Source;
  fleet: FleetStore;
  purge: Purge;
  enter: Semaphore['acquire'];
  clock: Clock;
  emit: Emit;
}) {
  const { name, signature, fleet, clock, emit } = options;
  const { every, min_interval } = options.watch;
  const soon = Math.min(every, STANDBY);
  const task = `watch:${name}`;
  const source = hash('sha256', options.source);
  const nothing: WatchNote = { ...NOTHING, source };
  const started = clock.wall();
  let latest: WatchNote | undefined;
  /** Polls in a row that could not speak to the other gateways. */
  let alone = 0;

  /** What is no note, or one of another source, counts for nothing. */
  async function read(): Promise<WatchNote> {
    const text = await fleet.note(task);
    if (text === undefined) return nothing;
    try {
      const note = JSON.parse(text) as WatchNote | null;
      return note?.source === source ? note : nothing;
    } catch {
      return nothing;
    }
  }

  /** False, and nothing is noted, where another gateway polls by now. */
  async function write(note: WatchNote): Promise<boolean> {
    const isMine = await fleet.write(task, JSON.stringify(note), task);
    if (isMine) latest = note;
    return isMine;
  }

  /** What is known after the question; undefined where another gateway asks, or the poll was given up. */
  async function look(signal: AbortSignal) {
    const leave = await options.enter(signal);
    try {
      const isMine = await fleet.hold(task, LONGEST_POLL);
      const before = (latest = await read());
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

  /** @returns for how long the next one may wait (ms) */
  async function poll(signal: AbortSignal): Promise<number> {
    const looked = await look(signal);
    if (looked === undefined) return soon;
    const { before, found } = looked;
    let note = found;
    const elapsed = clock.wall() - note.purged;
    // A clock that was set back joins nothing.
    const isJoined = elapsed >= 0 && elapsed < min_interval;
    if (note.due && !isJoined) {
      if (!(await write(note))) return soon;
      const purged = clock.wall();
      const order = { principal: task, cause: 'watch' } as const;
      const { ok } = await options.purge({ project: name }, order);
      if (ok) note = { ...note, due: false, purged };
      else if (note.why === '') note = { ...note, why: 'the purge did not hold' };
    }
    const isBlind = note.failures >= MISSES || (before.blind && (note.due || note.failures > 0));
    note = { ...note, blind: isBlind };
    if (!(await write(note))) return soon;
    if (isBlind !== before.blind) {
      const state = isBlind ? 'blind' : 'seeing';
      emit({ type: 'watch-state', project: name, state, why: note.why });
    }
    // Until the next poll; should this gateway end, no other waits for longer.
    if (!(await fleet.hold(task, every + SLACK))) return soon;
    if (!note.due) return every;
    return isJoined ? Math.min(every, min_interval - elapsed) : soon;
  }

  return {
    /**
     * Once; the next one after its end. Never rejects.
     * @param signal gives up the question
     * @returns for how long the next poll may wait (ms)
     */
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
    /** As of the latest poll, at whichever gateway that was; also as long as nothing is known. */
    isBlind: () => latest?.blind !== false || alone >= MISSES,
    /** Since a question was answered at any gateway, or, where none was, since this watcher was made (ms). */
    age: () => Math.max(0, clock.wall() - (latest?.seen || started)),
    /** Reads what is known. Never rejects. */
    async begin(): Promise<void> {
      latest = await read().catch(() => undefined);
    },
    /** As it is noted now; where that cannot be read, as it was. Meanwhile a poll may have found something newer. */
    note: (): Promise<WatchNote> =>
      read().catch(() => ({
        ...(latest ?? nothing),
        ...(alone >= MISSES && { blind: true, why: ALONE }),
      })),
    /** Another gateway may poll from now on. Never rejects. */
    leave: () => fleet.leave(task).catch(() => {}),
  };
}

/** The first signature of all is a change that no load need follow. */
function sees(note: WatchNote, signature: string, now: number): WatchNote {
  const seen = { ...note, signature, failures: 0, why: '', seen: now };
  if (note.signature === '') return { ...seen, due: true, same: SETTLED };
  if (note.signature !== signature) return { ...seen, due: true, same: 0, changed: now };
  const same = Math.min(note.same + 1, SETTLED);
  // The load is over: what was read in the middle of it goes.
  return { ...seen, same, due: note.due || (same === SETTLED && note.same < SETTLED) };
}
