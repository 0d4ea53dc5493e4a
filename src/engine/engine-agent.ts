import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { EngineConfig } from '../config/config.ts';

/**
 * An idle connection is closed after this long (ms), sooner than engines do: a request must not go out on a
 * connection that the engine is just closing, since nobody could tell whether it was read.
 */
const IDLE = 4_000;

export interface EngineAgent {
  readonly agent: HttpAgent;
  /** Tells client certificates apart; '' without one. It is a login, so it belongs into keys. */
  readonly certificate: string;
}

/** The connections to an engine, with its certificate authority and the gateway's own certificate. */
export function createEngineAgent(config: EngineConfig): EngineAgent {
  const options = { keepAlive: true, timeout: IDLE, scheduling: 'lifo' as const };
  if (!config.url.startsWith('https:')) {
    return { agent: new HttpAgent(options), certificate: '' };
  }
  const cert = config.certificate === undefined ? undefined : readFileSync(config.certificate);
  const agent = new HttpsAgent({
    ...options,
    ...(config.ca !== undefined && { ca: readFileSync(config.ca) }),
    ...(cert !== undefined && { cert }),
    ...(config.key !== undefined && { key: readFileSync(config.key) }),
  });
  const certificate = cert === undefined ? '' : createHash('sha256').update(cert).digest('hex');
  return { agent, certificate };
}
