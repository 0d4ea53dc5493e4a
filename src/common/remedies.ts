import type { BypassReason, RefusalReason } from './reasons.ts';

/** Advice on bypasses and on answers that are not stored, or why that is right. */
export const REMEDIES: Readonly<Record<BypassReason | RefusalReason, string>> = {
  malformed: 'Have the client send well-formed SOAP; engines refuse such a body too.',
  encoding:
    'Have the client declare its encoding once, preferably as charset=utf-8; in XML as UTF-8, not utf8.',
  'long-request': 'Have the client name sets instead of long lists of members.',
  'unknown-shape':
    'POST /admin/explain shows what was not understood. Have the client leave that out, or report it.',
  'soap-action': 'Have the client, or a proxy in front, send the SOAPAction of the body.',
  'content-type': 'Have the client send Content-Type: text/xml, with charset alone.',
  accept: 'Have the client accept text/xml, or send no Accept.',
  method: 'As it should be: requests by other methods ask no query.',
  session: 'As it should be: the engine must see where sessions begin and end.',
  'unknown-session':
    'Give all gateways one cache.redis: then each of them knows a session, and it outlives a restart.',
  'dirty-session':
    'As it should be if clients define something in the session. If Redis was away, open the workbook again.',
  'session-unavailable': 'GET /health/ready says why Redis cannot be used.',
  'first-catalog': 'Have the client name its catalog in each request.',
  'no-store':
    'Set cache.client_control: nobody, or have the client leave out Cache-Control: no-store.',
  security: 'Have the client log in by HTTP Basic instead of WS-Security.',
  'identity-property':
    'Leave EffectiveUserName, Roles and CustomData out of the connection string.',
  'duplicate-property': 'Have the client name each property once.',
  'real-time': 'Leave RealTimeOlap out of the connection string if cached data will do.',
  'not-a-query':
    'As it should be: commands change something, so a stored answer cannot replace them.',
  'unclear-statement':
    'POST /admin/explain shows what was not understood. Write it more plainly, or report it.',
  'several-statements': 'Have the client send one statement with each request.',
  drillthrough: 'As it should be: the rows behind a cell are many, and are seldom asked for twice.',
  'system-rowset': 'As it should be: $SYSTEM shows the present state of the engine.',
  volatile: 'Replace functions such as Now() or UserName() with constants.',
  'unknown-function':
    'The log names it. If it reads neither clock, user nor server, add it to cache.functions.',
  'no-cache-comment': 'Remove the comment #NoCache from the statement.',
  'many-catalogs': 'Have the client ask for one catalog with each request.',
  'long-name': 'Use names of at most 255 bytes.',
  'many-names':
    'GET /admin/requests?user=… shows what was asked. If it is intended, raise limits.names_per_user.',
  'discover-type': 'As it should be: such answers change with time, session or user.',
  'cache-off': 'As configured: projects.NAME.cache or projects.NAME.cubes is off.',
  'watch-blind': 'GET /admin/watches says why the source does not answer.',
  'epochs-unknown': 'GET /health/ready says why Redis cannot be used.',
  'engine-status': 'The log of the engine says why it answers like that.',
  'media-type': 'Look at what answers at engine.url: an engine sends text/xml.',
  'content-coding': 'Have the engine compress only as Accept-Encoding asks for it.',
  truncated: 'The log of the engine, or of a proxy in front of it, says why answers break off.',
  'not-well-formed': 'Report it to the vendor of the engine: its answers are not XML.',
  'answer-encoding': 'Have the engine answer in UTF-8 and declare that once.',
  'answer-shape': 'As it should be: only rowsets and mddatasets are stored.',
  fault: 'See the log of the engine. A query that fails goes to the engine each time.',
  'error-cell': 'Repair the calculation whose cells show errors, or let it return an empty cell.',
  'session-in-answer': 'As it should be: others must not get this answer.',
  'session-changed': 'As it should be: the gateway judges the next request anew.',
  'too-large': 'Raise cache.max_entry, and cache.memory with it, or have reports ask for less.',
  'no-room': 'Raise limits.in_flight.',
};
