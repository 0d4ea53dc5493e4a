import { createLink, type Channel, type Link } from '../../src/workers/link.ts';

/** The two ends of a link in one process. What goes over is JSON, as between processes. */
export interface LinkPair {
  readonly worker: Link;
  readonly primary: Link;
  /** What is on its way, in one direction. */
  readonly toPrimary: WireHandle;
  readonly toWorker: WireHandle;
  /** The deadline of every call, in both directions (ms); undefined: what the call asks for. */
  within: number | undefined;
}

export interface WireHandle {
  /** Nothing arrives from now on; what was sent waits. */
  hold(): void;
  /** Everything that waits arrives, in order, and what comes later again arrives at once. */
  release(): void;
  /** What is sent from now on is lost, without a word, until {@link WireHandle.release}. */
  lose(): void;
  /** What waits. */
  readonly held: readonly unknown[];
  /** Called with every message before it is sent on; false loses this one. */
  filter: (message: unknown) => boolean;
}

/** @param within long where a test is about something else, since a busy machine may take its time */
export function linkPair(within?: number): LinkPair {
  const [toPrimary, toWorker] = [createDirection(), createDirection()];
  const channel = (sends: Direction, hears: Direction): Channel => ({
    send(message, _connection, _options, callback) {
      sends.send(message);
      setImmediate(() => callback(null));
    },
    on: (_event, listener) => (hears.listener = listener),
  });
  const patient = (link: Link): Link => ({
    ...link,
    call: (service, method, args, asked, connection) =>
      link.call(service, method, args, pair.within ?? asked, connection),
  });
  const pair: LinkPair = {
    worker: patient(createLink(channel(toPrimary, toWorker), 'the primary process')),
    primary: patient(createLink(channel(toWorker, toPrimary), 'the worker')),
    toPrimary,
    toWorker,
    within,
  };
  return pair;
}

interface Direction extends WireHandle {
  listener: (message: unknown) => void;
  send(message: unknown): void;
}

function createDirection(): Direction {
  const held: unknown[] = [];
  let state: 'open' | 'held' | 'lost' = 'open';

  function arrive(message: unknown): void {
    // In a later turn, as between processes; the order stays.
    setImmediate(() => direction.listener(message));
  }

  const direction: Direction = {
    listener: () => {},
    filter: () => true,
    held,
    send(message) {
      const copy: unknown = JSON.parse(JSON.stringify(message));
      if (state === 'lost' || !direction.filter(copy)) return;
      if (state === 'held') held.push(copy);
      else arrive(copy);
    },
    hold: () => void (state = 'held'),
    lose: () => void (state = 'lost'),
    release() {
      state = 'open';
      for (const message of held.splice(0)) arrive(message);
    },
  };
  return direction;
}
