import type { EngineAnswer } from '../../../src/cache/query.ts';
import type { Away } from '../../../src/engine/away.ts';
import { faultAnswer, rowsetAnswer } from '../../support/answers.ts';
import { oneIn, pick, type Random } from '../random.ts';
import type { SimulatedTime } from '../time.ts';
import { CHANGED, type Ledger, type Places, PROJECTS, type Stamp, WATCHED } from './ledger.ts';
import type { Met } from './met.ts';
import { isUser } from './questions.ts';

const HEAD = { status: 200, statusMessage: 'OK', headers: { 'content-type': 'text/xml' } };
/** Before and behind reading the data, and in the answer (ms); one in so many takes longer, up to `slow`. */
const TAKES = { slowOneIn: 40, slow: 3_000 };
const USUALLY = 20;

/** What an answer shows: the data, whose answer it is, and when the engine was asked (ms). */
export interface Shown {
  readonly stamp: Stamp;
  readonly whose: string;
  readonly askedAt: number;
}

/** Reads what an answer shows; undefined of what is no whole answer. */
export function readStamp(text: string): Shown | undefined {
  const found = /\[([^\]|]*)\|(\d+)\|([\d: ]+)\]/u.exec(text);
  if (found === null || !text.endsWith('</SOAP-ENV:Envelope>\n')) return undefined;
  const pairs = found[3]?.split(' ').map((pair) => pair.split(':').map(Number)) ?? [];
  return {
    whose: found[1] ?? '',
    askedAt: Number(found[2]),
    stamp: new Map(pairs.map(([place = -1, version = -1]) => [place, version])),
  };
}

/** How it is away: connections are refused, or come to nothing; what was asked hangs; or each of it. */
const MOODS = ['refuses', 'drops', 'silent'] as const;
export const AWAY = [...MOODS, 'mixed'] as const;
type Mood = (typeof AWAY)[number];
/** Until a connection that comes to nothing is given up: while it is known to be away, and else (ms). */
const CONNECTS = { briefly: 3_000, usually: 10_000 };
export const REPLICA = 'replica';

/** What came of a login: no answer says nothing. */
export type LoggedIn = 'accepted' | 'rejected' | 'away';

/** One request to the engine. */
export interface Asked {
  readonly whose: string;
  readonly places: Places;
  /** Silence after which the gateway gives up (ms). */
  readonly timeoutMs: number;
  /** What it is about, the same for requests that an answer may serve. */
  readonly word: string;
}

/** The gateway that asks: how it tells a failure, and what it has met. */
export interface Asker {
  readonly clock: { now(): number; wall(): number };
  readonly failure: (reason: Reason) => Error;
  readonly overloaded: () => Error;
  readonly met: Met;
  readonly away: Away;
}

/** How a request failed before the first byte: without a connection, on one that was reset, or in silence. */
export type Failed = 'unconnected' | 'reset' | 'silence';
type Reason = 'engine-unreachable' | 'engine-timeout';
const REASONS: Readonly<Record<Failed, Reason>> = {
  unconnected: 'engine-unreachable',
  reset: 'engine-unreachable',
  silence: 'engine-timeout',
};

export type SimulatedEngine = ReturnType<typeof createEngine>;

/** An engine with data that has versions, and a cache of its own that a load does not clear. */
export function createEngine(options: {
  time: SimulatedTime;
  random: Random;
  ledger: Ledger;
  usually?: number | undefined;
}) {
  const { time, random, ledger, usually = USUALLY } = options;
  const { now } = time.clock;
  /** What the engine's own cache shows. */
  const visible = [...ledger.versions];
  /** What a watcher reads, which tells of the beginning of a load only. */
  let signature = 1;
  let requests = 0;
  let breaks = 0;
  let fails = 0;
  let clearsFrom = 0;
  /** How it is away, or was the last time, from which moment, and until when. */
  let mood: Mood = 'mixed';
  let leftAt = -Infinity;
  let awayUntil = -Infinity;
  let polled = { by: '', at: -Infinity, failingSince: undefined as number | undefined };
  /** By user: the password that is right. */
  const passwords = new Map<string, number>();

  const takes = () => 1 + random(oneIn(random, TAKES.slowOneIn) ? TAKES.slow : usually);
  const seen = (place: number) =>
    (place === CHANGED ? ledger.versions[place] : visible[place]) ?? 0;
  const isAway = () => now() < awayUntil;
  const drawn = () => (mood === 'mixed' ? pick(random, MOODS) : mood);

  async function* inPieces(body: Buffer, isBroken: boolean) {
    const since = now();
    const middle = Math.floor(body.length / 2);
    yield body.subarray(0, middle);
    if (oneIn(random, 3)) await time.sleep(random(30));
    // By then the client may have the head.
    if (isBroken) await time.sleep(random(150));
    if (isBroken || leftAt >= since) throw new Error('the engine broke off');
    yield body.subarray(middle);
    if (oneIn(random, 3)) await time.sleep(random(30));
  }

  /** @returns whether a connection was made; it comes to nothing within a while */
  async function connect(limitMs: number): Promise<boolean> {
    const how = isAway() ? drawn() : 'silent';
    if (how === 'silent') return true;
    await time.sleep(how === 'refuses' ? 1 : limitMs);
    return false;
  }

  /** Until the engine has had so long. @returns how that failed */
  async function answer(ms: number, since: number, timeoutMs: number): Promise<Failed | undefined> {
    const left = () => Math.max(0, since + timeoutMs - now());
    const isLate = ms >= left();
    if (!isAway()) {
      await time.sleep(Math.min(ms, left()));
      if (isLate) return 'silence';
      if (leftAt < since) return undefined;
    }
    // What was under way when it left was reset, or hangs.
    if (drawn() === 'refuses') return 'reset';
    await time.sleep(left());
    return 'silence';
  }

  return {
    requests: () => requests,
    /** One request in so many is broken off from now on (0: none). */
    breakOneIn: (many: number) => void (breaks = many),
    /** One request in so many meets a full queue, or is answered with a Fault, from now on (0: none). */
    failOneIn: (many: number) => void (fails = many),
    /** No call of its own operation succeeds for so long (ms). */
    failClears: (ms: number) => void (clearsFrom = now() + ms),
    /** Is away for so long (ms). */
    leave(how: Mood, ms: number): void {
      mood = how;
      leftAt = now();
      awayUntil = Math.max(awayUntil, now() + ms);
    },
    comeBack: () => void (awayUntil = now()),
    /** @throws as `src/engine` does, before the first byte */
    async ask(asker: Asker, { whose, places, timeoutMs, word }: Asked): Promise<EngineAnswer> {
      const { clock, met, away } = asker;
      const refusal = away.refusal([REPLICA]);
      const visit = met.asks(word, refusal === undefined);
      const fail = (how: Failed, error = asker.failure(REASONS[how])) => {
        visit.failed(how);
        return error;
      };
      if (refusal !== undefined) throw fail('unconnected', refusal);
      requests += 1;
      const isFull = oneIn(random, fails);
      if (isFull) {
        visit.refused();
        throw asker.overloaded();
      }
      const began = { now: clock.now(), wall: clock.wall() };
      const since = now();
      const isTry = away.tries(REPLICA);
      if (!(await connect(isTry ? CONNECTS.briefly : CONNECTS.usually))) {
        const error = fail('unconnected');
        away.failed(REPLICA, REPLICA, since, error);
        throw error;
      }
      let failed = await answer(takes(), since, timeoutMs);
      const pairs = places.map((place) => `${place}:${seen(place)}`);
      const names = [`[${whose}|${Math.ceil(since)}|${pairs.join(' ')}]`];
      failed ??= await answer(takes(), since, timeoutMs);
      if (failed !== undefined) throw fail(failed);
      away.answered(REPLICA);
      visit.answers();
      const isFault = oneIn(random, fails);
      const body = Buffer.from(isFault ? faultAnswer() : rowsetAnswer({ names }));
      const pieces = inPieces(body, oneIn(random, breaks));
      return { head: HEAD, body: pieces, length: () => body.length, began, replica: REPLICA };
    },
    /** Its own operation: false where it failed. */
    async clear(places: Places): Promise<boolean> {
      await time.sleep(takes());
      if (oneIn(random, breaks && 10) || now() < clearsFrom || isAway()) return false;
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
    /** What a watcher asks. @param by name of its gateway */
    async signature(by: string): Promise<string> {
      // Polls of a source that takes longer than the pause between them follow each other at once.
      await time.sleep(1 + random(usually));
      const isSeen = !isAway() && !oneIn(random, breaks);
      polled = { by, at: now(), failingSince: isSeen ? undefined : (polled.failingSince ?? now()) };
      if (!isSeen) throw new Error('no signature');
      return String(signature);
    },
    /** The latest poll: of which gateway, when, and since when all have failed (ms). */
    polled: () => polled,
    /** Versions that a request for fresh answers is sent for. */
    visible: () => PROJECTS.map((_name, place) => seen(place)),
    passwordOf: (user: string) => passwords.get(user) ?? 0,
    /** From now on another password is right. */
    renewPassword: (user: string) => void passwords.set(user, (passwords.get(user) ?? 0) + 1),
    async logIn(user: string, password: number): Promise<LoggedIn> {
      await time.sleep(takes());
      if (isAway()) return 'away';
      const isRight = isUser(user) && (passwords.get(user) ?? 0) === password;
      await time.sleep(takes());
      return isRight ? 'accepted' : 'rejected';
    },
  };
}
