import { readFileSync } from 'node:fs';
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { EngineConfig } from '../config/config.ts';

/**
 * An idle connection is closed after this long (ms), sooner than engines do: a request must not go out on a
 * connection that the engine is just closing, since nobody could tell whether it was read.
 */
const IDLE = 4_000;

/** The connections to an engine, with its certificate authority and the gateway's own certificate. */
export function createEngineAgent(config: EngineConfig): HttpAgent {
  const options = { keepAlive: true, timeout: IDLE, scheduling: 'lifo' as const };
  if (!config.url.startsWith('https:')) return new HttpAgent(options);
  return new HttpsAgent({
    ...options,
    ...(config.ca !== undefined && { ca: readFileSync(config.ca) }),
    ...(config.certificate !== undefined && { cert: readFileSync(config.certificate) }),
    ...(config.key !== undefined && { key: readFileSync(config.key) }),
  });
}
