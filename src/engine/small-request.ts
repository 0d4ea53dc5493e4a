import { request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { EngineConfig } from '../config/config.ts';
import { answerHead, type UpstreamHead } from '../proxy/answer-head.ts';
import { decodedAnswer } from '../proxy/decoded-answer.ts';
import { createUpstreamAgent } from '../proxy/upstream-agent.ts';
import { NoAnswer } from '../proxy/upstream-failure.ts';
import { EngineSilence } from './engine-failure.ts';
import { engineOrigin } from './engine-target.ts';

/** Somebody waits for a small answer, so that this counts where `engine.timeout` is longer (ms). */
const LONGEST = 30_000;

/** Bytes, without content coding. */
const LARGEST_ANSWER = 1024 * 1024;

/** The answer is no answer to a small question. */
export class LongAnswer extends Error {
  override readonly name = 'LongAnswer';
}

interface SmallRequest {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer;
}

/** A whole answer. Its body has no content coding, unless in one that is not known. */
interface SmallAnswer {
  readonly head: UpstreamHead;
  readonly body: Buffer;
}

/** Requests of the gateway's own to one replica, each on a connection of its own. */
export interface SmallRequests {
  readonly origin: URL;
  /** Tells client certificates apart; '' without one. */
  readonly certificate: string;
  /** @throws when no whole answer comes; {@link LongAnswer} when it is longer than 1 MiB */
  send(request: SmallRequest, signal: AbortSignal): Promise<SmallAnswer>;
  close(): void;
}

/** @param url of the replica; its path does not count */
export function createSmallRequests(url: string, config: EngineConfig): SmallRequests {
  const origin = engineOrigin(url);
  // A connection is never used again: some servers bind a login to the connection on which it was made, and
  // would take the next one's for the same.
  const { agent, certificate } = createUpstreamAgent({ ...config, url: origin.href }, false);
  const start = origin.protocol === 'https:' ? httpsRequest : httpRequest;
  return {
    origin,
    certificate,
    send({ method, path, headers, body }, signal) {
      const options: RequestOptions = {
        method,
        path,
        agent,
        signal,
        headers: {
          ...headers,
          ...(body !== undefined && { 'content-length': body.length }),
          'accept-encoding': 'identity',
        },
      };
      return new Promise((resolve, reject) => {
        const request = start(new URL(origin), options, (answer) => resolve(readAnswer(answer)));
        request.on('error', reject);
        // Nothing else tells of an engine that changes the protocol without being asked to.
        request.on('close', () => reject(new NoAnswer()));
        request.end(body);
      });
    },
    close: () => agent.destroy(),
  };
}

async function readAnswer(answer: IncomingMessage): Promise<SmallAnswer> {
  const { head, body } = decodedAnswer(answer, answerHead(answer), () => {});
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > LARGEST_ANSWER) throw new LongAnswer('the engine answered at too great length');
    chunks.push(chunk);
  }
  return { head, body: Buffer.concat(chunks) };
}

/**
 * Runs work that may take `engine.timeout`, at most 30 seconds. Whatever of it is left is aborted at its end.
 * @param signal gives up before
 * @throws EngineSilence when time is up, the reason of the signal when that gave up, else what the work throws
 */
export async function inTime<T>(
  { timeout }: Pick<EngineConfig, 'timeout'>,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ending = new AbortController();
  const limit = Math.min(timeout, LONGEST);
  const timer = setTimeout(() => ending.abort(new EngineSilence()), limit);
  const giveUp = () => ending.abort(signal?.reason);
  signal?.addEventListener('abort', giveUp, { once: true });
  try {
    return await Promise.race([work(ending.signal), rejection(ending.signal)]);
  } catch (error) {
    // What breaks when time is up is only how the silence ended.
    throw ending.signal.aborted ? ending.signal.reason : error;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', giveUp);
    // Whatever is left of the connection.
    ending.abort();
  }
}

function rejection(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
}
