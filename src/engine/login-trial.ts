import { request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { EngineConfig } from '../config/config.ts';
import type { Emit } from '../events.ts';
import { answerHead } from '../proxy/answer-head.ts';
import { decodedAnswer } from '../proxy/decoded-answer.ts';
import { acceptsConnections } from '../proxy/probe.ts';
import { createUpstreamAgent } from '../proxy/upstream-agent.ts';
import { NoAnswer } from '../proxy/upstream-failure.ts';
import { readLoginAnswer, type LoginAnswer } from '../xmla/answer/login-answer.ts';
import { SOAP, XMLA } from '../xmla/namespaces.ts';
import { soapActionOf } from '../xmla/request/soap-action.ts';
import { engineFailure, EngineSilence } from './engine-failure.ts';
import { engineOrigin, engineTarget } from './engine-target.ts';

/** Somebody waits before a login window, so that this counts where `engine.timeout` is longer (ms). */
const LONGEST = 30_000;

/** The answer tells of one or a few data sources (bytes, without content coding). */
const LARGEST_ANSWER = 1024 * 1024;

/** The cheapest question that every engine knows: it opens no cube. */
const QUESTION = Buffer.from(
  `<?xml version="1.0" encoding="UTF-8"?>\n` +
    `<SOAP-ENV:Envelope xmlns:SOAP-ENV="${SOAP}"><SOAP-ENV:Body><Discover xmlns="${XMLA}">` +
    `<RequestType>DISCOVER_DATASOURCES</RequestType><Restrictions><RestrictionList/></Restrictions>` +
    `<Properties><PropertyList/></Properties></Discover></SOAP-ENV:Body></SOAP-ENV:Envelope>`,
);

export interface LoginTrial {
  /**
   * Asks the engine a small question with this header Authorization. Never rejects. The whole takes no longer than
   * `engine.timeout` or 30 seconds.
   */
  try(authorization: string, signal: AbortSignal): Promise<LoginAnswer>;
  /** Ends its connections. */
  close(): void;
}

/** Tries logins at the engine: at its first replica that accepts a connection, without a project. */
export function createLoginTrial({
  config,
  emit,
}: {
  readonly config: EngineConfig;
  /** Told why an engine could not say. */
  readonly emit: Emit;
}): LoginTrial {
  const replicas = config.url.map((url) => createReplica(url, config));
  const limit = Math.min(config.timeout, LONGEST);

  async function reachable(): Promise<Replica | undefined> {
    for (const replica of replicas) {
      if (await acceptsConnections(replica.origin)) return replica;
    }
    return undefined;
  }

  async function ask(authorization: string, signal: AbortSignal): Promise<LoginAnswer> {
    const replica = replicas.length === 1 ? replicas[0] : await reachable();
    if (replica === undefined) throw new Error('no replica of the engine accepts a connection');
    const { head, body } = await send(replica, authorization, signal);
    const said = readLoginAnswer({
      status: head.status,
      contentType: head.headers['content-type'],
      body,
    });
    if (said === 'unavailable') {
      throw new Error(`the engine answered a login with status ${head.status} and no clear word`);
    }
    return said;
  }

  return {
    async try(authorization, signal) {
      if (signal.aborted) return 'unavailable';
      const ending = new AbortController();
      const timer = setTimeout(() => ending.abort(new EngineSilence()), limit);
      const giveUp = () => ending.abort(signal.reason);
      signal.addEventListener('abort', giveUp, { once: true });
      try {
        return await Promise.race([ask(authorization, ending.signal), rejection(ending.signal)]);
      } catch (error) {
        // What breaks when time is up is only how the silence ended.
        const cause: unknown = ending.signal.aborted ? ending.signal.reason : error;
        const { reason } = engineFailure(cause);
        if (!signal.aborted) emit({ type: 'engine-failed', project: '', reason, error: cause });
        return 'unavailable';
      } finally {
        clearTimeout(timer);
        signal.removeEventListener('abort', giveUp);
        // Whatever is left of the connection.
        ending.abort();
      }
    },
    close() {
      for (const { agent } of replicas) agent.destroy();
    },
  };
}

type Replica = ReturnType<typeof createReplica>;

function createReplica(url: string, config: EngineConfig) {
  const origin = engineOrigin(url);
  return {
    origin,
    path: engineTarget(url, undefined, []),
    // A connection is never used again: some servers bind a login to the connection on which it was made, and
    // would take the next one's for the same.
    agent: createUpstreamAgent({ ...config, url: origin.href }, false).agent,
    start: origin.protocol === 'https:' ? httpsRequest : httpRequest,
  };
}

function send(
  { origin, path, agent, start }: Replica,
  authorization: string,
  signal: AbortSignal,
): Promise<Awaited<ReturnType<typeof readAnswer>>> {
  const options: RequestOptions = {
    method: 'POST',
    path,
    agent,
    signal,
    headers: {
      authorization,
      'content-type': 'text/xml; charset=utf-8',
      'content-length': QUESTION.length,
      soapaction: soapActionOf('Discover'),
      accept: 'text/xml',
      'accept-encoding': 'identity',
    },
  };
  return new Promise((resolve, reject) => {
    const request = start(new URL(origin), options, (answer) => resolve(readAnswer(answer)));
    request.on('error', reject);
    // Nothing else tells of an engine that changes the protocol without being asked to.
    request.on('close', () => reject(new NoAnswer()));
    request.end(QUESTION);
  });
}

async function readAnswer(answer: IncomingMessage) {
  const { head, body } = decodedAnswer(answer, answerHead(answer), () => {});
  const coding = head.headers['content-encoding'] ?? 'identity';
  if (coding.trim().toLowerCase() !== 'identity') {
    throw new Error('the engine answered a login in a content coding that is not known');
  }
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > LARGEST_ANSWER) throw new Error('the engine answered a login at too great length');
    chunks.push(chunk);
  }
  return { head, body: Buffer.concat(chunks) };
}

function rejection(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
}
