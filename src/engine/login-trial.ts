import type { EngineConfig } from '../config/config.ts';
import type { Emit } from '../events.ts';
import { acceptsConnections } from '../proxy/probe.ts';
import { readLoginAnswer, type LoginAnswer } from '../xmla/answer/login-answer.ts';
import { SOAP, XMLA } from '../xmla/namespaces.ts';
import { soapActionOf } from '../xmla/request/soap-action.ts';
import { engineFailure } from './engine-failure.ts';
import { engineTarget } from './engine-target.ts';
import { createSmallRequests, inTime, type SmallRequests } from './small-request.ts';

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
  const replicas = config.url.map((url) => ({
    requests: createSmallRequests(url, config),
    path: engineTarget(url, undefined, []),
  }));

  async function reachable(): Promise<(typeof replicas)[number] | undefined> {
    for (const replica of replicas) {
      if (await acceptsConnections(replica.requests.origin)) return replica;
    }
    return undefined;
  }

  async function ask(authorization: string, signal: AbortSignal): Promise<LoginAnswer> {
    const replica = replicas.length === 1 ? replicas[0] : await reachable();
    if (replica === undefined) throw new Error('no replica of the engine accepts a connection');
    const { head, body } = await send(replica.requests, replica.path, authorization, signal);
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
      try {
        return await inTime(config, signal, (ending) => ask(authorization, ending));
      } catch (error) {
        const { reason } = engineFailure(error);
        if (!signal.aborted) emit({ type: 'engine-failed', project: '', reason, error });
        return 'unavailable';
      }
    },
    close() {
      for (const { requests } of replicas) requests.close();
    },
  };
}

async function send(
  requests: SmallRequests,
  path: string,
  authorization: string,
  signal: AbortSignal,
) {
  const headers = {
    authorization,
    'content-type': 'text/xml; charset=utf-8',
    soapaction: soapActionOf('Discover'),
    accept: 'text/xml',
  };
  const answer = await requests.send({ method: 'POST', path, headers, body: QUESTION }, signal);
  const coding = answer.head.headers['content-encoding'] ?? 'identity';
  if (coding.trim().toLowerCase() !== 'identity') {
    throw new Error('the engine answered a login in a content coding that is not known');
  }
  return answer;
}
