import {
  request as httpRequest,
  type ClientRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
} from 'node:http';
import { request as httpsRequest } from 'node:https';
import { watchConnection } from '../proxy/connection.ts';
import { endOnSilence } from '../proxy/silence.ts';
import { NoAnswer } from '../proxy/upstream-failure.ts';
import { EngineSilence } from './engine-failure.ts';
import { NotConnected, type Replica } from './replicas.ts';

/** A request that changes nothing at the engine, so that it may be sent again. */
export interface QueryRequest {
  readonly path: string;
  readonly headers: OutgoingHttpHeaders;
  readonly body: Buffer;
  readonly signal: AbortSignal;
  /** How long the engine may be silent (ms). */
  readonly timeout: number;
}

/**
 * Sends a query to a replica and waits for the head of its answer. On a connection that the engine had closed
 * meanwhile, it is sent once more on a new one.
 * @param connectLimit how long the connection may take (ms); undefined for no limit of its own
 * @throws NotConnected when nothing was sent; EngineSilence; any error of the connection
 */
export async function sendQuery(
  replica: Replica,
  query: QueryRequest,
  connectLimit: number | undefined,
): Promise<IncomingMessage> {
  try {
    return await send(replica, query, connectLimit);
  } catch (error) {
    if (!(error instanceof StaleConnection)) throw error;
    // An engine that closed one connection has most likely closed them all.
    for (const socket of Object.values(replica.agent.freeSockets).flat()) socket?.destroy();
    return send(replica, query, connectLimit);
  }
}

function send(
  { origin, agent }: Replica,
  { path, headers, body, signal, timeout }: QueryRequest,
  connectLimit: number | undefined,
): Promise<IncomingMessage> {
  const start = origin.protocol === 'https:' ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    let answer: IncomingMessage | undefined;
    const options = { method: 'POST', path, agent, signal, headers };
    const request: ClientRequest = start(new URL(origin), options, (response) => {
      answer = response;
      resolve(response);
    });
    const connection = watchConnection(request, connectLimit);
    endOnSilence(request, timeout, () => new EngineSilence());
    request.on('error', (error: Error) => {
      answer?.destroy(error);
      if (connection.failed()) reject(new NotConnected(error));
      else reject(brokenBeforeItBegan(request, error) ? new StaleConnection() : error);
    });
    // Nothing else tells of an engine that changes the protocol without being asked to.
    request.on('close', () => reject(new NoAnswer()));
    request.end(body);
  });
}

/** A kept-alive connection that the engine had already closed when the request went out on it. */
class StaleConnection extends Error {}

function brokenBeforeItBegan(request: ClientRequest, error: NodeJS.ErrnoException): boolean {
  return request.reusedSocket && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
}
