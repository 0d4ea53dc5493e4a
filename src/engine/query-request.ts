import { request as httpRequest, type Agent, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { watchConnection } from '../proxy/connection.ts';
import { guardConnection, readWhatCame } from '../proxy/kept-connection.ts';
import { endOnSilence } from '../proxy/silence.ts';
import type { UpstreamTls } from '../proxy/upstream-agent.ts';
import type { UpstreamAnswer } from '../proxy/upstream-answer.ts';
import { NoAnswer } from '../proxy/upstream-failure.ts';
import { EngineSilence, NotConnected } from './engine-failure.ts';
import {
  createQueryConnections,
  isReasonUnderstood,
  NotUnderstood,
  StaleConnection,
  type QueryConnections,
} from './query-connections.ts';

/** A request that changes nothing at the engine, so that it may be sent again. */
export interface QueryRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly signal: AbortSignal;
  /** How long the engine may be silent (ms). */
  readonly timeout: number;
}

/** Sends queries to one replica. */
export interface QuerySender {
  /**
   * Sends a query and waits for the head of its answer. On a connection that the engine had closed meanwhile, it is
   * sent once more on a new one.
   * @param connectLimit how long the connection may take (ms); undefined for no limit of its own
   * @param over called once when an answer that was returned is over, with the error when it broke off
   * @throws NotConnected when nothing was sent; EngineSilence; any error of the connection
   */
  send(
    query: QueryRequest,
    connectLimit: number | undefined,
    over: (error: Error | null) => void,
  ): Promise<UpstreamAnswer>;
  close(): void;
}

/**
 * The first query goes by `node:http`, and the others by undici, which is loaded behind the first answer: a gateway
 * that has just been started answers sooner by that. A query whose answer undici does not understand is sent once more
 * by `node:http`, and so are the next ones until an answer comes that undici would have understood: an engine that
 * always answers in such a way is asked once for each query.
 */
export function createQuerySender(
  origin: URL,
  { agent, tls }: { readonly agent: Agent; readonly tls: UpstreamTls | undefined },
): QuerySender {
  let quick: QueryConnections | undefined;
  let state: 'plain' | 'quick' | 'closed' = 'plain';

  function closeIdle(): void {
    quick?.closeIdle();
    for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
  }

  function beQuick(): void {
    if (state === 'closed') return;
    quick ??= createQueryConnections(origin, tls);
    state = 'quick';
  }

  const send: QuerySender['send'] = (query, connectLimit, over) => {
    if (quick !== undefined && state === 'quick') return quick.send(query, connectLimit, over);
    return sendPlainly(origin, agent, query, connectLimit, (error, understood) => {
      if (error === null && understood) setImmediate(beQuick);
      over(error);
    });
  };

  return {
    async send(query, connectLimit, over) {
      let wasStale = false;
      for (;;) {
        await readWhatCame(agent);
        try {
          return await send(query, connectLimit, over);
        } catch (error) {
          if (error instanceof NotUnderstood) {
            if (state === 'quick') state = 'plain';
          } else if (error instanceof StaleConnection && !wasStale) {
            wasStale = true;
            // An engine that closed one connection has most likely closed them all.
            closeIdle();
          } else throw error;
        }
      }
    },
    close() {
      state = 'closed';
      quick?.close();
    },
  };
}

/** @param over told besides whether undici would have understood the answer */
function sendPlainly(
  origin: URL,
  agent: Agent,
  { path, headers, body, signal, timeout }: QueryRequest,
  connectLimit: number | undefined,
  over: (error: Error | null, understood: boolean) => void,
): Promise<IncomingMessage> {
  const start = origin.protocol === 'https:' ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    let answer: IncomingMessage | undefined;
    let understood = true;
    // In the order of undici: an engine sees no difference but the letter case of names that have none.
    const all = { Host: origin.host, Connection: 'keep-alive', ...headers };
    const options = { method: 'POST', path, agent, signal, headers: all };
    const request = start(new URL(origin), options, (response) => {
      answer = response;
      response.once('error', () => {});
      understood &&= isReasonUnderstood(response.statusMessage);
      response.once('close', () => over(response.errored, understood));
      resolve(response);
    });
    const connection = watchConnection(request, connectLimit);
    guardConnection(request);
    endOnSilence(request, timeout, () => new EngineSilence());
    request.on('continue', () => {
      understood = false;
    });
    request.on('error', (error: NodeJS.ErrnoException) => {
      answer?.destroy(error);
      const stale = request.reusedSocket && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
      if (connection.failed()) reject(new NotConnected(error));
      else reject(stale ? new StaleConnection() : error);
    });
    // Nothing else tells of an engine that changes the protocol without being asked to.
    request.on('close', () => {
      if (answer === undefined) reject(new NoAnswer());
    });
    request.end(body);
  });
}
