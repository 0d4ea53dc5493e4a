import { request as httpRequest, type ClientRequest, type RequestOptions } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { answerHead, bodyUpTo, decodedAnswer } from '../proxy/answer.ts';
import type { UpstreamAnswer, UpstreamHead } from '../proxy/answer.ts';
import { Silence, type Upstream } from '../proxy/upstream.ts';
import {
  createConnections,
  isClosed,
  isReasonUnderstood,
  NotUnderstood,
  StaleConnection,
  type Connections,
  type EngineQuery,
} from './connections.ts';

/** Sends queries to one upstream. */
export interface QueryClient {
  /**
   * Sends a query and waits for the head of its answer. On a connection that the engine had closed meanwhile, it is
   * sent once more on a new one.
   * @throws NotConnected when nothing was sent; Silence; any error of the connection
   */
  send(query: EngineQuery): Promise<UpstreamAnswer>;
  close(): void;
}

/**
 * The first query goes by `node:http`, and the others by undici, which is loaded behind the first answer: a gateway
 * that has just been started answers sooner by that. A query whose answer undici does not understand is sent once more
 * by `node:http`, and so are the next ones until an answer comes that undici would have understood: an engine that
 * always answers in such a way is asked once for each query.
 */
export function createQueryClient(upstream: Upstream): QueryClient {
  let connections: Connections | undefined;
  let isQuick = false;
  let isClosing = false;

  function beQuick(): void {
    if (isClosing) return;
    connections ??= createConnections(upstream);
    isQuick = true;
  }

  async function sendPlainly({ path, headers, body, ...limits }: EngineQuery) {
    // In the order of undici: an engine sees no difference but the letter case of names that have none.
    const all = { Host: upstream.origin.host, Connection: 'keep-alive', ...headers };
    const request = begin(upstream, { method: 'POST', path, headers: all });
    let understood = true;
    request.on('continue', () => {
      understood = false;
    });
    const answering = upstream.answerTo(request, limits);
    request.end(body);
    const answer = await answering.catch((error: NodeJS.ErrnoException) => {
      throw request.reusedSocket && isClosed(error) ? new StaleConnection() : error;
    });
    understood &&= isReasonUnderstood(answer.statusMessage);
    answer.once('close', () => {
      if (understood && answer.errored === null) setImmediate(beQuick);
    });
    return answer;
  }

  return {
    async send(query) {
      const failed = { asStale: false, asOdd: false };
      while (true) {
        await upstream.settled();
        const quick = isQuick && !failed.asOdd ? connections : undefined;
        try {
          return await (quick === undefined ? sendPlainly(query) : quick.send(query));
        } catch (error) {
          if (error instanceof NotUnderstood) {
            isQuick = false;
            failed.asOdd = true;
          } else if (error instanceof StaleConnection && !failed.asStale) {
            failed.asStale = true;
            // An engine that closed one connection has most likely closed them all.
            connections?.closeIdle();
            upstream.closeIdle();
          } else throw error;
        }
      }
    },
    close() {
      isClosing = true;
      connections?.close();
    },
  };
}

/** A client waits for a small answer, so that this counts where `engine.timeout` is longer (ms). */
const LONGEST = 30_000;

/** Bytes, without content coding. */
const LARGEST_ANSWER = 1024 * 1024;

/** The answer is no answer to a small question. */
export class LongAnswer extends Error {
  override readonly name = 'LongAnswer';
}

/**
 * Asks the engine a small question of the gateway's own.
 * @param upstream without kept connections: some servers bind a login to the connection on which it was made, and would
 *   take the next one's for the same
 * @returns the whole answer; its body has no content coding, unless in one that is not known
 * @throws when no whole answer comes; {@link LongAnswer} when it is longer than 1 MiB
 */
export async function askOnce(
  upstream: Upstream,
  asked: {
    readonly method: 'GET' | 'POST';
    readonly path: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body?: Buffer;
    /** As {@link RequestLimits}. */
    readonly connectLimit?: number | undefined;
  },
  signal: AbortSignal,
): Promise<{ readonly head: UpstreamHead; readonly body: Buffer }> {
  const { method, path, body: sent, connectLimit } = asked;
  const request = begin(upstream, {
    method,
    path,
    headers: {
      ...asked.headers,
      ...(sent !== undefined && { 'content-length': sent.length }),
      'accept-encoding': 'identity',
    },
  });
  const answering = upstream.answerTo(request, { signal, timeout: LONGEST, connectLimit });
  request.end(sent);
  const answer = await answering;
  const { head, body } = decodedAnswer(answer, answerHead(answer), () => {});
  const whole = await bodyUpTo(body, LARGEST_ANSWER);
  if (whole === undefined) throw new LongAnswer('the engine answered at too great length');
  return { head, body: whole };
}

/**
 * Runs work that may take `engine.timeout`, at most 30 seconds.
 * @param timeout milliseconds
 * @throws Silence when time is up, else what the work throws
 */
export async function inTime<T>(
  timeout: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = AbortSignal.timeout(Math.min(timeout, LONGEST));
  try {
    return await work(signal === undefined ? late : AbortSignal.any([signal, late]));
  } catch (error) {
    throw late.aborted ? new Silence() : error;
  }
}

function begin({ origin, agent }: Upstream, options: RequestOptions): ClientRequest {
  const start = origin.protocol === 'https:' ? httpsRequest : httpRequest;
  return start(origin, { ...options, agent });
}
