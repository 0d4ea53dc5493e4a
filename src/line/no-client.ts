import type { Client, Query } from '../cache/query.ts';

/** A query that the signal ends too. No client is shown a session that the engine begins. */
export const ofNoClient = (query: Query, signal: AbortSignal): Query => ({
  ...query,
  began: async () => {},
  ask: (ends, unwanted) => query.ask(AbortSignal.any([signal, ends]), unwanted),
});

/** Longest wait of any client; the signal is what bounds this one. */
const LONGEST_WAIT_MS = 3_600_000;

export const withoutReader = (signal: AbortSignal): Client => ({
  signal,
  waits: () => LONGEST_WAIT_MS,
  replay() {},
  open() {},
  notStored() {},
  write: () => true,
  backlog: () => 0,
  drained: async () => {},
  end() {},
  over: async () => {},
  fail() {},
});
