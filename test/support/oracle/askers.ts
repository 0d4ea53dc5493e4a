import { Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { cacheStatusOf, type CacheStatus } from '../http-client.ts';
import type { OracleGateway } from './gateways.ts';
import type { Ledger } from './ledger.ts';
import { allQuestions, type Question } from './questions.ts';
import { readStamp } from './version-stamp.ts';

/** Clients of each gateway. They wait for their own gateway only, when that stands still. */
const CLIENTS = 5;
/** One in so many questions is of these kinds, or asks for a fresh answer. */
const ONE_IN = { large: 400, wide: 8, fresh: 100, rare: 100 } as const;
/** How long a client waits that found nobody (ms). */
const BREATH = 100;
/** Failures of an engine, or of a way to it, that a client may be told. */
const FAILURES: ReadonlySet<number> = new Set([502, 503, 504]);

/** What became of the requests. */
export interface Tally {
  /** Answers that were held against the ledger. */
  judged: number;
  /** Those of them that came from the cache. */
  hits: number;
  /** Those of them that no client had made the engine be asked for. */
  warmed: number;
  /** Those of them that came from the cache past their ttl. */
  stale: number;
  /** How often each came, for example `hit memory`, `fwd=bypass epochs-unknown`, `503 engine-unreachable`. */
  readonly outcomes: Map<string, number>;
  /** The same of requests that were sent and answered while nothing was disturbed. */
  readonly calm: Map<string, number>;
}

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** Sends one request; what is noted in `sent` is noted in the turn that hands it over. */
export function sendTo(
  port: number,
  message: {
    readonly method: string;
    readonly path: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body?: Buffer;
    readonly agent: Agent;
    /** Milliseconds without a byte after which it is given up; never unless given. */
    readonly patience?: number | undefined;
  },
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const { body, patience, ...rest } = message;
    const request = httpRequest({ host: '127.0.0.1', port, ...rest }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const { statusCode: status = 0, headers } = response;
        resolve({ status, headers, text: Buffer.concat(chunks).toString() });
      });
    });
    request.on('error', reject);
    if (patience !== undefined) {
      request.setTimeout(patience, () => request.destroy(new Error('no answer came')));
    }
    request.end(body);
  });
}

/**
 * Clients that ask at random, each its next question when it has its answer, until the signal.
 * @param calmFor milliseconds since something was disturbed; 0 while it is
 */
export async function askAtRandom(options: {
  gateways: readonly OracleGateway[];
  ledger: Ledger;
  tally: Tally;
  /** Whether no client has asked for what the engine answered under this number. */
  isWarm: (serial: number) => boolean;
  /** As of {@link allQuestions}. */
  isShared: boolean;
  random: (below: number) => number;
  calmFor: () => number;
  signal: AbortSignal;
}): Promise<void> {
  const { ledger, tally, random, signal } = options;
  const questions = allQuestions(options.isShared);

  function next(): Question {
    const kinds = ['large', 'rare', 'wide'] as const;
    const list = questions[kinds.find((kind) => random(ONE_IN[kind]) === 0) ?? 'usual'];
    const question = list[random(list.length)];
    if (question === undefined) throw new Error('there are no questions');
    return question;
  }

  function count(outcome: string, calm: boolean): void {
    for (const counts of calm ? [tally.outcomes, tally.calm] : [tally.outcomes]) {
      counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
    }
  }

  async function ask(gateway: OracleGateway, agent: Agent): Promise<void> {
    const question = next();
    const fresh = random(ONE_IN.fresh) === 0;
    const headers = { ...question.headers, ...(fresh && { 'cache-control': 'no-cache' }) };
    const expected = ledger.expected(fresh);
    let reply: Reply;
    try {
      const { port, patience } = gateway;
      reply = await sendTo(port, { method: 'POST', agent, ...question, headers, patience });
    } catch {
      // Killed, or started anew: it promised nothing.
      count('no answer', false);
      return void (await delay(BREATH));
    }
    const { status } = reply;
    const took = ledger.now() - expected.at;
    const asked = `${question.user}, ${question.asked}${fresh ? ', fresh' : ''}`;
    const told = `${gateway.name}, ${asked}: ${status} ${reply.headers['cache-status']}, after ${took.toFixed(1)} ms`;
    try {
      const cache = cacheStatusOf(reply.headers);
      const failed = FAILURES.has(status);
      count(`${failed ? status : ''} ${short(cache)}`.trim(), options.calmFor() > took);
      if (failed) return void (await delay(BREATH));
      const stamp = status === 200 ? readStamp(reply.text) : undefined;
      if (stamp === undefined) return ledger.accuse(`${told}\n${reply.text.slice(0, 1_000)}`);
      if (stamp.user !== question.login || stamp.asked !== question.asked) {
        return ledger.accuse(`${told} is the answer to ${stamp.user}, ${stamp.asked}`);
      }
      tally.judged += 1;
      if (cache?.hit === true) tally.hits += 1;
      if (cache?.hit === true && options.isWarm(stamp.serial)) tally.warmed += 1;
      if (cache?.detail === 'engine-away') tally.stale += 1;
      ledger.judge(expected, question.places, stamp, told);
    } catch (error) {
      ledger.accuse(`${told}: ${String(error)}`);
    }
  }

  await Promise.all(
    options.gateways.map(async (gateway) => {
      const agent = new Agent({ keepAlive: true });
      const client = async () => {
        while (!signal.aborted) await ask(gateway, agent);
      };
      await Promise.all(Array.from({ length: CLIENTS }, client));
      agent.destroy();
    }),
  );
}

function short(cache: CacheStatus | undefined): string {
  if (cache === undefined) return 'no Cache-Status';
  const words = [
    cache.hit ? 'hit' : cache.fwd,
    cache.stored ? 'stored' : undefined,
    cache.detail,
  ].filter((word) => word !== undefined);
  return words.join(' ');
}
