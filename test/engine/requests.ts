/** Everything that is asked of the engine, as data. */
import { DISCOVER_REQUESTS } from './discover-requests.ts';
import { EXECUTE_REQUESTS } from './execute-requests.ts';
import { MDX_REQUESTS } from './mdx-requests.ts';
import type { CacheableRequest } from './request.ts';

export { BYPASSED_REQUESTS, REFUSED_REQUESTS } from './uncacheable-requests.ts';
export type { CacheableRequest, NamedRequest } from './request.ts';

/** Requests without a session whose answers may be stored. No two of them share an answer's key. */
export const CACHEABLE_REQUESTS: readonly CacheableRequest[] = [
  ...EXECUTE_REQUESTS,
  ...MDX_REQUESTS,
  ...DISCOVER_REQUESTS,
];
