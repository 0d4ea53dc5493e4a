import type { BypassReason, RefusalReason } from './reasons.ts';

/** What an operator can do about a request that passes the cache or an answer that is not stored, or why it is right. */
export const REMEDIES: Readonly<Record<BypassReason | RefusalReason, string>> = {
  malformed: 'Have the client send well-formed SOAP; the engine refuses such a body.',
  encoding:
    'Have the client declare its encoding once, best charset=utf-8; in XML as UTF-8, not utf8.',
  'long-request': 'Have the client name sets in place of long lists of members.',
  'unknown-shape': 'POST /admin/explain names what was not understood; leave it out, or report it.',
  'soap-action': 'Have the client, or a proxy in front, send the SOAPAction of the body.',
  'content-type': 'Have the client send Content-Type: text/xml, with charset alone.',
  accept: 'Have the client accept text/xml, or send no Accept.',
  method: 'As it should be: only a POST asks anything.',
  session: 'As it should be: what begins and ends a session must reach the engine.',
  'unknown-session':
    'With one cache.redis for all gateways, sessions are known at all, and outlive a restart.',
  'dirty-session':
    'As it should be where clients define something in it; after Redis was away, open the workbook again.',
  'session-unavailable': 'See why Redis cannot be used: GET /health/ready.',
  'first-catalog': 'Have the client name its catalog in each request.',
  'no-store':
    'Set cache.client_control: nobody, or take Cache-Control: no-store out of the client.',
  security: 'Have the client log in by HTTP Basic in place of WS-Security.',
  'identity-property':
    'Leave EffectiveUserName, Roles and CustomData out of the connection string.',
  'duplicate-property': 'Have the client name each property once.',
  'real-time': 'Leave RealTimeOlap out of the connection string, where stored data will do.',
  'not-a-query': 'As it should be: commands change something, and are not repeated.',
  'unclear-statement':
    'POST /admin/explain names what was not understood; write it plainly, or report it.',
  'several-statements': 'Have the client send one statement with each request.',
  drillthrough: 'As it should be: the rows behind a cell are large, and seldom asked twice.',
  'system-rowset': 'As it should be: $SYSTEM tells how the engine is now.',
  volatile: 'Put constants in the place of functions such as Now() or UserName().',
  'unknown-function':
    'The log names it; where it reads neither clock, user nor server, put it into cache.functions.',
  'no-cache-comment': 'Take the comment #NoCache out of the statement.',
  'many-catalogs': 'Have the client ask for one catalog with each request.',
  'long-name': 'Use names of at most 255 bytes.',
  'many-names':
    'GET /admin/requests?user=… shows what was asked; raise limits.names_per_user if it is meant.',
  'discover-type': 'As it should be: such answers change by time, session or user.',
  'cache-off': 'As configured: projects.NAME.cache or projects.NAME.cubes says off.',
  'watch-blind': 'GET /admin/watches says why it cannot be seen whether the data changed.',
  'epochs-unknown': 'See why Redis cannot be used: GET /health/ready.',
  'engine-status': 'See the log of the engine for why it answers so.',
  'media-type': 'See what answers at engine.url: an engine sends text/xml.',
  'content-coding': 'Have the engine compress only as Accept-Encoding asks for it.',
  truncated: 'The log of the engine, or of a proxy before it, says why answers break off.',
  'not-well-formed': 'Report it to the maker of the engine: its answers are not XML.',
  'answer-encoding': 'Have the engine answer in UTF-8, and declare that once.',
  'answer-shape': 'As it should be: only rowsets and mddatasets are repeated.',
  fault: 'See the log of the engine; a query that fails is asked again each time.',
  'error-cell': 'Repair the calculation whose cells show errors, or have it give an empty cell.',
  'session-in-answer': 'As it should be: it must not be repeated to others.',
  'session-changed': 'As it should be: the next request is judged anew.',
  'too-large': 'Raise cache.max_entry, and cache.memory with it; or have reports ask for less.',
  'no-room': 'Raise limits.in_flight.',
};
