import type { Got, Hit } from './client.ts';
import { readStamp } from './engine.ts';
import type { InForce, SimulatedGateway, Trust } from './gateway.ts';
import type { Ledger } from './ledger.ts';
import type { Met } from './met.ts';
import {
  type Control,
  CONTROLLER,
  type Login,
  type Question,
  whoseOf,
  wordOf,
} from './questions.ts';

/** One request, when it was sent. */
export interface Sent {
  readonly gateway: SimulatedGateway;
  readonly question: Question;
  readonly login: Login;
  readonly control: Control;
  /** The moment (ms), and the versions that were promised then. */
  readonly at: number;
  readonly least: readonly number[];
}

/** Part of a ttl by which an entry may end earlier. */
const JITTER = 0.1;
/** Answers from a tier: what they rely on is checked in the turn that sends them. */
const KEPT = new Set(['memory', 'redis', 'recalled']);

/**
 * Holds answers against what was promised, and counts what it met.
 * @param shortestTtl of all gateways in the run (ms)
 * @param apart how far wall clocks may be apart (ms)
 */
export function createJudge(options: {
  ledger: Ledger;
  now: () => number;
  trust: Trust;
  shortestTtl: () => number;
  apart: () => number;
  /** Whether nothing is disturbed any more, and gateways find in Redis what others have. */
  isCalm: () => boolean;
  isShared: boolean;
}) {
  const { ledger, now, trust, shortestTtl, apart } = options;
  const counts = { hits: 0, stale: 0, believed: 0, refreshes: 0 };
  /** By what is asked ahead: the latest request, and whether it is under way. */
  const ahead = new Map<string, { by: string; at: number; isUnderWay: boolean }>();

  const isFresh = ({ login, control }: Sent) => login.user === CONTROLLER && control !== undefined;

  const toldOf =
    ({ gateway, question, login }: Sent, how: string) =>
    () =>
      `${gateway.name} told ${login.user}, who asked for ${question.places.join()}: ${how}`;

  /** @returns what it shows, if that is an answer to this request */
  function whole(sent: Sent, text: string, told: () => string) {
    const { question, login } = sent;
    const read = readStamp(text);
    const isOwn =
      read?.whose === whoseOf(login.user, question.places) &&
      read.stamp.size === question.places.length;
    if (!isOwn) ledger.accuse(`another answer, or no whole one: ${text}. ${told()}`);
    return isOwn ? read : undefined;
  }

  /** An answer that was kept, in the turn that sends it. */
  function hit(sent: Sent, { text, detail, ttl }: Hit): void {
    const { gateway, question, at } = sent;
    const told = toldOf(sent, `hit ${detail}`);
    const shown = whole(sent, text, told);
    if (shown === undefined) return;
    counts.hits += 1;
    judgeLogin(sent, detail, told);
    if (detail === 'coalesced') return ledger.judge(shown.stamp, sent.least, at, told);
    // Its tokens are in force now: no acknowledged purge has ended them.
    ledger.judge(shown.stamp, ledger.floors, at, told);
    const age = now() - shown.askedAt;
    const most = (of: (one: InForce) => number) =>
      Math.max(...gateway.inForceSince(at).map(of)) + apart();
    const isStale = !KEPT.has(detail);
    const accuse = (what: string) =>
      ledger.accuse(`${what}: asked ${age} ms ago, ttl ${ttl} ms. ${told()}`, question.places);
    if (age > most((one) => one.ttl + (isStale ? one.staleIfError : 0))) {
      accuse('answered though it is too old');
    }
    if (isStale) judgeStale(sent, { age, ttl }, accuse);
    else if (ttl < 0) accuse('not marked though its ttl is over');
  }

  function judgeStale(
    sent: Sent,
    { age, ttl }: { age: number; ttl: number },
    accuse: (what: string) => void,
  ): void {
    const { gateway, question, login, at } = sent;
    const { met } = gateway;
    counts.stale += 1;
    if (ttl > 0 || age < shortestTtl() * (1 - JITTER) - apart()) {
      accuse('marked though its ttl is not over');
    }
    if (isFresh(sent)) accuse('answered with an old one though a new one was wanted');
    const failure = met.failure(wordOf(login.user, question), login.authorization, at);
    if (met.triedInVain(wordOf(login.user, question), at) > MOST_TRIES) {
      accuse('answered with an old one though more than one a second had tried before');
    }
    if (failure === undefined) accuse('answered with an old one though no engine failed');
    if (failure === 'down' && met.isQuietFor(TRIED_WITHIN)) {
      accuse(`answered with an old one though none has tried for ${TRIED_WITHIN} ms`);
    }
    if (gateway.isBlindFor(question.places)) {
      accuse('answered with an old one though the watcher of its project is blind');
    }
    if (!isBelieved(sent)) accuse('answered with an old one though its login has ended');
  }

  const hasCounted = ({ gateway, login }: Sent, ms: number, since: number) =>
    gateway.met.hasCounted(login.authorization, ms, since);
  const longest = Math.max(trust.verifiedFor, trust.believedFor);
  const isBelieved = (sent: Sent) => hasCounted(sent, longest, now() - 1);

  /** A login that was verified at no moment of the request gets hits, as long as it is believed. */
  function judgeLogin(sent: Sent, detail: string, told: () => string): void {
    if (hasCounted(sent, trust.verifiedFor, sent.at)) return;
    counts.believed += 1;
    const isHit = detail !== 'miss' && detail !== 'coalesced';
    if (!isHit) ledger.accuse(`answered though its login is only believed. ${told()}`);
    else if (!isBelieved(sent)) {
      ledger.accuse(`answered though its login is neither verified nor believed. ${told()}`);
    }
  }

  /** The engine is asked before an entry ends. @returns tells of the end */
  function asksAhead(
    { name, met }: { name: string; met: Met },
    word: string,
    user: string,
  ): () => void {
    counts.refreshes += 1;
    const told = `${name} asks ahead for ${user}: ${word}`;
    if (!met.hasUserCounted(user, trust.verifiedFor, now() - WAITED)) {
      ledger.accuse(`asked ahead though the login is only believed. ${told}`);
    }
    const last = ahead.get(word);
    if (options.isCalm() && last?.isUnderWay && last.by !== name) {
      ledger.accuse(`asked ahead though ${last.by} does so. ${told}`);
    }
    if (options.isCalm() && options.isShared && last && now() - last.at < shortestTtl() / 2) {
      ledger.accuse(`asked ahead though ${last.by} did so ${now() - last.at} ms ago. ${told}`);
    }
    const one = { by: name, at: now(), isUnderWay: true };
    ahead.set(word, one);
    return () => void (one.isUnderWay = false);
  }

  return {
    counts,
    hit,
    asksAhead,
    /** What a client got in the end. @returns whether it was an answer */
    answer(sent: Sent, { text, how }: Got): boolean {
      const { gateway, at, least } = sent;
      if (how.startsWith('broke')) ledger.accuse(`${gateway.name} ${how}`);
      if (!gateway.isAlive() || text === undefined) return false;
      // That was judged in the turn that sent it.
      if (how.startsWith('hit')) return true;
      if (isFault(text)) return false;
      const told = toldOf(sent, how);
      const read = whole(sent, text, told);
      if (read === undefined) return true;
      judgeLogin(sent, 'miss', told);
      ledger.judge(read.stamp, least, at, told);
      return true;
    },
  };
}

const isFault = (text: string) => text.includes('SOAP-ENV:Fault>');

/** Between the hit that begins a refresh and its request at most, in the simulation (ms). */
const WAITED = 2_000;
/** Of requests that met no other, some try in the turn in which others do. */
const MOST_TRIES = 8;
/** While the engine counts as down, one request a second tries it (ms). */
const TRIED_WITHIN = 1_100;
