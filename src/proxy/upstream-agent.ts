import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';

/**
 * An idle connection is closed after this long (ms), sooner than servers do: a request must not go out on a
 * connection that the upstream is just closing, since nobody could tell whether it was read.
 */
export const IDLE = 4_000;

/** How TLS is spoken with an upstream: PEM. */
export interface UpstreamTls {
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
}

export interface UpstreamAgent {
  readonly agent: HttpAgent;
  /** Undefined for an upstream without TLS. */
  readonly tls: UpstreamTls | undefined;
  /** Tells client certificates apart; '' without one. It is a login, so it belongs into keys. */
  readonly certificate: string;
}

/**
 * The connections to an upstream, with its certificate authority and the gateway's own certificate.
 * @param upstream its URL, and PEM files
 * @param keepAlive whether a connection is used for more than one request
 */
export function createUpstreamAgent(
  upstream: {
    readonly url: string;
    readonly ca: string | undefined;
    readonly certificate: string | undefined;
    readonly key: string | undefined;
  },
  keepAlive: boolean,
): UpstreamAgent {
  const options = { keepAlive, timeout: IDLE, scheduling: 'lifo' as const };
  if (new URL(upstream.url).protocol !== 'https:') {
    return { agent: new HttpAgent(options), tls: undefined, certificate: '' };
  }
  const cert = upstream.certificate === undefined ? undefined : readFileSync(upstream.certificate);
  const tls: UpstreamTls = {
    ...(upstream.ca !== undefined && { ca: readFileSync(upstream.ca) }),
    ...(cert !== undefined && { cert }),
    ...(upstream.key !== undefined && { key: readFileSync(upstream.key) }),
  };
  const certificate = cert === undefined ? '' : createHash('sha256').update(cert).digest('hex');
  return { agent: new HttpsAgent({ ...options, ...tls }), tls, certificate };
}
