import { randomUUID } from 'node:crypto';
import { createMemoryStore } from '../../../src/freshness/memory-store.ts';
import type { SessionRecord } from '../../../src/freshness/freshness-store.ts';
import type { SessionName } from '../../../src/sessions/digests.ts';
import {
  createSessions,
  type FoundSession,
  type Sessions,
} from '../../../src/sessions/sessions.ts';
import { createUnnoted, noteIn } from '../../../src/freshness/unnoted.ts';
import { handClock } from '../cache/fakes.ts';
import { sessionCalls } from '../../support/session-calls.ts';
import { handSessionStore, type SharedSessions } from './hand-session-store.ts';

export const LEASE = 1_000;
export const NAME: SessionName = { endpoint: 'engine', id: 'one' };
export const OTHER: SessionName = { endpoint: 'engine', id: 'other' };
export const BEGUN = { principal: 'alice', profile: 'p', catalog: null, replica: 'r' };

interface Sleeper {
  readonly milliseconds: number;
  wake(): void;
}

/** Of all replicas together: a version must never be made twice. */
let made = 0;

/** A gateway's sessions, with a store, a clock and a sleep that a test holds in its hand. */
export function replica({
  behind,
  lease = LEASE,
  clock = handClock(),
  elsewhere,
}: {
  /** What it shares with others; nothing unless given. */
  behind?: SharedSessions;
  lease?: number;
  clock?: ReturnType<typeof handClock>;
  elsewhere?: (name: string) => Promise<SessionRecord | undefined>;
} = {}) {
  const memory = () => createMemoryStore({ clock, newToken: randomUUID });
  const keeper = behind ?? memory();
  const [store, shared] = [handSessionStore(keeper), sessionCalls(keeper)];
  const errors: unknown[] = [];
  /** Those who sleep; waking one does not move the clock. */
  const sleepers: Sleeper[] = [];
  /** The same, until sessions are noted that the store does not know. */
  const noting: Sleeper[] = [];
  const sleepIn = (list: Sleeper[]) => (milliseconds: number) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    list.push({ milliseconds, wake: resolve });
    return promise;
  };
  const [sleep, newToken] = [sleepIn(sleepers), () => `token ${(made += 1)}`];
  const unnoted = createUnnoted(noteIn({ store, newToken }, sleepIn(noting)), sleepIn(noting));
  const sessions = createSessions({
    store,
    clock,
    lease: () => lease,
    sleep,
    newToken,
    unnoted: { ...unnoted, ...(elsewhere && { elsewhere }) },
    onError: (error) => void errors.push(error),
  });
  return { store, shared, clock, errors, sleepers, noting, unnoted, sessions };
}

/** What is known, in one word. */
export function word(found: FoundSession): string {
  if (found.kind !== 'known') return found.kind;
  return found.record.dirty ? 'dirty' : 'clean';
}

export async function find(sessions: Sessions, name = NAME): Promise<string> {
  return word(await sessions.find(name));
}

/** The record of a session that is known. */
export async function known(sessions: Sessions, name = NAME) {
  const found = await sessions.find(name);
  if (found.kind !== 'known') throw new Error(`the session is ${found.kind}`);
  return found.record;
}

/** Whether it is over by now, without waiting for it. */
export function ending(promise: Promise<unknown>): { over: boolean } {
  const state = { over: false };
  const end = () => {
    state.over = true;
  };
  promise.then(end, end);
  return state;
}
