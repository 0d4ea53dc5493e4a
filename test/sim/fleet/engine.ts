import type { EngineAnswer, Query } from '../../../src/cache/query.ts';
import type { Clock } from '../../../src/common/clock.ts';
import { ENGINE_KINDS } from '../../../src/common/engine-kinds.ts';
import { rowsetAnswer } from '../../support/answers.ts';
import { oneIn, type Random } from '../random.ts';
import type { SimulatedTime } from '../time.ts';
import { CHANGED, type Ledger, type Places, PROJECTS, type Stamp, WATCHED } from './ledger.ts';

const HEAD = { status: 200, statusMessage: 'OK', headers: { 'content-type': 'text/xml' } };
/** Before and behind reading the data, and in the answer (ms); one in so many takes longer, up to `slow`. */
const TAKES = { slowOneIn: 40, slow: 3_000 };
const USUALLY = 20;

/** Reads what an answer shows of which projects, and whose answer it is; undefined of what is no whole answer. */
export function readStamp(text: string): { stamp: Stamp; whose: string } | undefined {
  const found = /\[([^\]|]*)\|([\d: ]+)\]/u.exec(text);
  if (found === null || !text.endsWith('</SOAP-ENV:Envelope>\n')) return undefined;
  const pairs = found[2]?.split(' ').map((pair) => pair.split(':').map(Number)) ?? [];
  return {
    whose: found[1] ?? '',
    stamp: new Map(pairs.map(([place = -1, version = -1]) => [place, version])),
  };
}

export type SimulatedEngine = ReturnType<typeof createEngine>;

/** An engine with data that has versions, and a cache of its own that a load does not clear. */
export function createEngine(options: {
  time: SimulatedTime;
  random: Random;
  ledger: Ledger;
  usually?: number | undefined;
}) {
  const { time, random, ledger, usually = USUALLY } = options;
  /** What the engine's own cache shows. */
  const visible = [...ledger.versions];
  /** What a watcher reads, which tells of the beginning of a load only. */
  let signature = 1;
  let requests = 0;
  let breaks = 0;
  let clearsFrom = 0;

  const takes = () => 1 + random(oneIn(random, TAKES.slowOneIn) ? TAKES.slow : usually);
  const seen = (place: number) =>
    (place === CHANGED ? ledger.versions[place] : visible[place]) ?? 0;

  async function* inPieces(body: Buffer, isBroken: boolean) {
    const middle = Math.floor(body.length / 2);
    yield body.subarray(0, middle);
    if (oneIn(random, 3)) await time.sleep(random(30));
    if (isBroken) throw new Error('the engine broke off');
    yield body.subarray(middle);
    if (oneIn(random, 3)) await time.sleep(random(30));
  }

  return {
    requests: () => requests,
    /** One request in so many is broken off from now on (0: none). */
    breakOneIn: (many: number) => void (breaks = many),
    /** No call of its own operation succeeds for so long (ms). */
    failClears: (ms: number) => void (clearsFrom = time.clock.now() + ms),
    /** @param clock of the gateway that asks */
    async ask(clock: Clock, whose: string, places: Places): Promise<EngineAnswer> {
      requests += 1;
      const began = { now: clock.now(), wall: clock.wall() };
      await time.sleep(takes());
      const pairs = places.map((place) => `${place}:${seen(place)}`);
      const body = Buffer.from(rowsetAnswer({ names: [`[${whose}|${pairs.join(' ')}]`] }));
      await time.sleep(takes());
      const pieces = inPieces(body, oneIn(random, breaks));
      return { head: HEAD, body: pieces, length: () => body.length, began, replica: 'replica' };
    },
    /** Its own operation: false where it failed. */
    async clear(places: Places): Promise<boolean> {
      await time.sleep(takes());
      if (oneIn(random, breaks && 10) || time.clock.now() < clearsFrom) return false;
      for (const place of places) visible[place] = ledger.versions[place] ?? 0;
      await time.sleep(random(20));
      return true;
    },
    /** A load that a watcher has to find: it begins, and goes on for so long (ms) without another sign. */
    async loadWatched(lasting: number): Promise<void> {
      signature += 1;
      ledger.load([WATCHED], 'load that is not announced');
      await time.sleep(lasting);
      ledger.load([WATCHED], 'load that is not announced goes on');
    },
    /** What a watcher asks. */
    async signature(): Promise<string> {
      await time.sleep(takes());
      if (oneIn(random, breaks)) throw new Error('no signature');
      return String(signature);
    },
    /** Versions that a request for fresh answers is sent for. */
    visible: () => PROJECTS.map((_name, place) => seen(place)),
  };
}

/** What a query needs beside what the simulation decides. */
export const QUERY_SAMPLE: Pick<Query, 'ttl' | 'timeoutMs' | 'engineTraits' | 'began'> = {
  ttl: 600_000,
  timeoutMs: 60_000,
  engineTraits: ENGINE_KINDS.generic,
  began: async () => {},
};
