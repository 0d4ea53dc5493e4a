import type { EngineConfig } from '../config/config.ts';
import type { Emit } from '../common/events.ts';
import { NotConnected } from '../proxy/upstream.ts';
import { readLoginAnswer, type LoginAnswer } from '../xmla/answer/watch-answer.ts';
import { SOAP, XMLA } from '../xmla/names.ts';
import { soapActionOf } from '../xmla/names.ts';
import { askOnce, inTime } from './client.ts';
import { engineTarget } from './engine-target.ts';
import { reportFailure } from './failure.ts';
import { CONNECT_LIMIT, upstreamOf } from './replicas.ts';

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

/** Tries logins at the engine: at its first replica to which a connection can be made, without a project. */
export function createLoginTrial({
  config,
  emit,
}: {
  readonly config: Pick<EngineConfig, 'url' | 'ca' | 'certificate' | 'key' | 'timeout'>;
  /** Told why an engine could not say. */
  readonly emit: Emit;
}): LoginTrial {
  const replicas = config.url.map((url) => ({
    upstream: upstreamOf(url, config, false),
    path: engineTarget(url, undefined, []),
  }));

  async function send(authorization: string, signal: AbortSignal) {
    const headers = {
      authorization,
      'content-type': 'text/xml; charset=utf-8',
      soapaction: soapActionOf('Discover'),
      accept: 'text/xml',
    };
    let failure: unknown;
    for (const [index, { upstream, path }] of replicas.entries()) {
      const connectLimit = index < replicas.length - 1 ? CONNECT_LIMIT : undefined;
      const asked = { method: 'POST', path, headers, body: QUESTION, connectLimit } as const;
      try {
        return await askOnce(upstream, asked, signal);
      } catch (error) {
        if (!(error instanceof NotConnected) || signal.aborted) throw error;
        failure = error;
      }
    }
    throw failure;
  }

  async function ask(authorization: string, signal: AbortSignal): Promise<LoginAnswer> {
    const { head, body } = await send(authorization, signal);
    const coding = head.headers['content-encoding'] ?? 'identity';
    if (coding.trim().toLowerCase() !== 'identity') {
      throw new Error('the engine answered a login in a content coding that is not known');
    }
    const contentType = head.headers['content-type'];
    const said = readLoginAnswer({ status: head.status, contentType, body });
    if (said === 'unavailable') {
      throw new Error(`the engine answered a login with status ${head.status} and no clear word`);
    }
    return said;
  }

  return {
    async try(authorization, signal) {
      if (signal.aborted) return 'unavailable';
      try {
        return await inTime(config.timeout, signal, (ending) => ask(authorization, ending));
      } catch (error) {
        if (!signal.aborted) reportFailure(emit, '', error);
        return 'unavailable';
      }
    },
    close() {
      for (const { upstream } of replicas) upstream.close();
    },
  };
}
