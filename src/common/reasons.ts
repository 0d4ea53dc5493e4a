/**
 * Closed words for what happened to a request, in `Cache-Status` (`detail=`), metrics (`reason`),
 * log.
 */

/** Why a request was not looked up in the cache and its answer not stored. */
export const BYPASS_REASONS = {
  malformed: 'The body is not a well-formed XMLA envelope.',
  encoding: 'The text encoding of the body is unknown or misnamed, or contradicts the request.',
  'long-request': 'The body is longer than 4 MiB, or the statement than 1,048,576 UTF-16 units.',
  'unknown-shape': 'The envelope holds something that is not part of the known shape of XMLA.',
  'soap-action': 'The header SOAPAction contradicts the body.',
  'content-type':
    'The Content-Type is not text/xml or application/xml, or has a parameter beside charset.',
  accept: 'The client did not ask for XML.',
  method: 'Only a POST request carries a query.',
  session: 'The request begins or ends a session, asks for its token, or names several sessions.',
  'unknown-session': 'The session is not known here, or another user began it.',
  'dirty-session':
    'Something that was sent in the session may change its answers, or Redis did not know the session for a while.',
  'session-unavailable':
    'Redis cannot be reached, so the gateway cannot know what happened in the session.',
  'first-catalog':
    'The session is choosing its first catalog, or has chosen it and the request names none: the order of requests counts.',
  'no-store': 'The client asked to keep its answer out of the cache (Cache-Control: no-store).',
  security: 'The envelope carries WS-Security.',
  'identity-property': 'A property asks for the rights of another identity.',
  'duplicate-property': 'A property is named twice.',
  'real-time': 'The property RealTimeOlap asks for a fresh answer.',
  'not-a-query':
    'The command is not a statement, or its statement does not begin with SELECT or WITH.',
  'unclear-statement': 'The statement cannot be read with certainty, or is too long for that.',
  'several-statements': 'The request holds more than one statement.',
  drillthrough: 'The text holds DRILLTHROUGH.',
  'system-rowset': 'The statement reads $SYSTEM.',
  volatile: 'The statement calls a function whose value changes with time, user or parameter.',
  'unknown-function':
    'The statement calls a function that is not known to depend on the data alone.',
  'no-cache-comment': 'A comment #NoCache asks for a fresh answer.',
  'many-catalogs': 'The request names more catalogs, or more cubes, than any client needs.',
  'long-name': 'The name of a catalog or a cube is longer than 255 bytes of UTF-8.',
  'many-names':
    'Within an hour, the user has named more new projects and catalogs than limits.names_per_user.',
  'discover-type': 'This Discover request type is not on the list of those that may be cached.',
  'cache-off': 'The configuration switches the cache off for this project or cube.',
  'watch-blind':
    'The source that is watched for this project does not answer (when_blind: bypass).',
  'epochs-unknown':
    'Redis cannot be reached, so the gateway cannot know which entries are still valid.',
} as const;

/** Why an answer that might have been stored was not. */
export const REFUSAL_REASONS = {
  'engine-status': 'The status of the answer is not 200.',
  'media-type': 'The media type of the answer is not text/xml or application/xml.',
  'content-coding': 'The answer carries a content coding that the gateway did not ask for.',
  truncated: 'The answer broke off before it was complete.',
  'not-well-formed': 'The answer is not well-formed XML to its end.',
  'answer-encoding': 'The text encoding of the answer is unknown or contradicts itself.',
  'answer-shape':
    'The answer is not one rowset or one mddataset in the response of its method, or it tells properties that were not asked for.',
  fault: 'The answer holds a Fault, Exception, Error, Messages or Warning.',
  'error-cell': 'A cell or member of the answer holds the text of an error.',
  'session-in-answer': 'The answer shows a session that is not clearly the one of its request.',
  'session-changed': 'The session changed while the answer was made.',
  'too-large': 'The answer is larger than cache.max_entry.',
  'no-room': 'The bodies under way use up limits.in_flight.',
} as const;

/** HTTP statuses and meanings of answers that the gateway gave without engine or cache. */
export const GATEWAY_REASONS = {
  preflight: [204, 'A browser asked whether a page of a listed origin may send requests.'],
  unauthenticated: [401, 'The request has no valid Basic credentials.'],
  throttled: [429, 'There were too many failed logins, or too many calls of a hook.'],
  'login-queue': [503, 'Too many logins are waiting to be checked.'],
  'bad-request': [400, 'The request cannot be understood or must not be forwarded.'],
  'not-found': [404, 'Nothing is served under this path.'],
  forbidden: [403, 'The user may not do this, or the request comes from another site.'],
  'purge-failed': [503, 'Redis did not confirm the purge.'],
  'engine-not-cleared': [502, 'A replica of the engine did not clear its own cache.'],
  'identity-refused': [403, 'The request asks for the rights of another user.'],
  // Engines send a Fault with 200, and clients look for it there.
  'unknown-session': [
    200,
    'The session is not known here, or another user began it; the client begins anew.',
  ],
  'session-unavailable': [
    503,
    'Redis cannot be reached, so other gateways cannot be told that the session changes.',
  ],
  'not-warmed': [409, 'The warm-up is off, or a run is under way already.'],
  'method-not-allowed': [405, 'The HTTP method has no meaning here.'],
  'too-big': [413, 'The body is larger than limits.body, limits.dataset, or 64 KiB for a hook.'],
  'content-coding': [415, 'The content coding of the body is neither gzip nor deflate.'],
  'transfer-coding': [501, 'The body has a transfer coding other than chunked.'],
  overloaded: [
    503,
    'Too many requests are waiting, or this one has waited for limits.wait: for the engine, for memory, or to read or write a dataset.',
  ],
  'engine-unreachable': [502, 'No connection to the engine was made in time, or it broke off.'],
  'engine-login': [502, 'The engine refused the login of the gateway itself.'],
  'engine-timeout': [504, 'The engine did not answer in time.'],
  'query-times-out': [
    504,
    'The query timed out less than a minute ago, and the engine was not asked again.',
  ],
  'client-gone': [499, 'The client went away before it had its answer.'],
  internal: [500, 'The gateway itself failed.'],
} as const;

/** Why an operation of the role and dataset API was not done, beside those above: as there. */
export const API_REASONS = {
  'media-type': [415, 'The Content-Type of the request is not application/json in UTF-8.'],
  'no-such-role': [404, 'There is no role with this id.'],
  'not-a-member': [404, 'The user is not in the role.'],
  'no-such-dataset': [404, 'The project has no dataset with this name.'],
  'name-taken': [409, 'Another role has this name; letter case does not count.'],
  'already-member': [409, 'The user is in the role already; letter case does not count.'],
  'dataset-exists': [409, 'The project has a dataset with this name already.'],
  'built-in-role': [409, 'The built-in role cannot be deleted.'],
  'storage-unavailable': [503, 'The storage cannot be reached or did not answer in time.'],
  'not-cleared': [503, 'The change is saved, but the cache is not yet cleared.'],
} as const;

export const HIT_SOURCES = {
  memory: 'From the memory of this process.',
  redis: 'From Redis.',
  coalesced: 'From the answer that another request was fetching.',
  'engine-away':
    'From an entry past its ttl, because the engine could not be reached or did not answer.',
} as const;

/** All words, by the outcome that they are of. */
export const REASONS = {
  bypass: BYPASS_REASONS,
  miss: REFUSAL_REASONS,
  hit: HIT_SOURCES,
  gateway: GATEWAY_REASONS,
} as const;

/** Meaning of a word of an outcome; '' for one that is none. */
export function meaningOf(outcome: string, word: string): string {
  const tables: Readonly<Record<string, Readonly<Record<string, unknown>>>> = REASONS;
  const { [outcome]: table = {} } = tables;
  return Object.hasOwn(table, word) ? String([table[word]].flat().at(-1)) : '';
}

export type BypassReason = keyof typeof BYPASS_REASONS;
export type RefusalReason = keyof typeof REFUSAL_REASONS;
export type GatewayReason = keyof typeof GATEWAY_REASONS;
export type ApiReason = keyof typeof API_REASONS;
export type HitSource = keyof typeof HIT_SOURCES;
