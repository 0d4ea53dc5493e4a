import type { ServerResponse } from 'node:http';
import { GatewayError } from '../../errors.ts';
import { createGate } from '../../gate.ts';

/**
 * Documents that are held at one time. Each may be there up to five times over for a moment, which makes 640 MiB
 * of the largest by default; and with more at one time none would be done sooner on a small server.
 */
const PLACES = 4;
/** Requests that may wait for a place. */
const QUEUE = 256;
/** How long they may (ms): shorter than what clients usually wait for an answer. */
const LONGEST_WAIT = 30_000;

/** Bounds how many requests hold a document at one time. What holds none never waits here. */
export interface DocumentGate {
  /**
   * Does the work when there is a place, which it has to its end.
   * @param response of the client that waits; who goes away waits no more
   * @throws GatewayError `overloaded` when too many wait already, or no place came in time; then nothing was done
   * @throws GatewayError `client-gone`, and what the work throws
   */
  hold<T>(response: ServerResponse, work: () => Promise<T>): Promise<T>;
}

/** @param options.wait milliseconds */
export function createDocumentGate(
  options: { readonly places?: number; readonly queue?: number; readonly wait?: number } = {},
): DocumentGate {
  const { places = PLACES, queue = QUEUE, wait = LONGEST_WAIT } = options;
  const gate = createGate(places);

  async function enter(response: ServerResponse): Promise<() => void> {
    refuseGone(response);
    if (gate.usage().waiting >= queue) throw overloaded();
    const patience = new AbortController();
    const goAway = () => patience.abort(clientGone());
    const timer = setTimeout(() => patience.abort(overloaded()), wait);
    response.once('close', goAway);
    try {
      return await gate.enter(patience.signal);
    } finally {
      clearTimeout(timer);
      response.off('close', goAway);
    }
  }

  return {
    async hold(response, work) {
      const leave = await enter(response);
      try {
        // The client may have gone in the very turn in which its place came.
        refuseGone(response);
        return await work();
      } finally {
        leave();
      }
    },
  };
}

/** Each piece of a document takes a connection; one is left for what is short, if there is more than one. */
export function placesBeside(connections: number): number {
  return Math.max(1, Math.min(PLACES, connections - 1));
}

function overloaded(): GatewayError {
  return new GatewayError(
    'overloaded',
    'Too many datasets are read or written at one time; nothing was done. Try again.',
    { retryAfter: 5 },
  );
}

function refuseGone(response: ServerResponse): void {
  if (response.destroyed) throw clientGone();
}

function clientGone(): GatewayError {
  return new GatewayError('client-gone', 'The client went away.');
}
