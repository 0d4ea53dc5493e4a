import { describe, expect, test } from '@jest/globals';
import { mistakes } from '../fake-files.ts';
import { CERTIFICATE } from '../pem-samples.ts';

const CACHE_KEYS =
  'ttl, refresh_ahead, stale_if_error, memory, max_entry, share, engine_permissions_ignored, client_control, purge_on_refresh_cube, functions, volatile, lease, key_secret, purge, redis';
const FUNCTION =
  'must be the name of a function without brackets, such as Today or Assembly.Fn, and none that reads clock, user, server or parameters, such as Now or UserName, which can never be declared stable';
const NAME_OF_MDX =
  'a name of up to 255 letters, digits and underscores, such as LastDay, without dots and brackets';
const MDX_NAME = `must be ${NAME_OF_MDX}`;
const TTL = 'must be a duration such as 12h, 30m or 45s, between 1s and 30d';
const HOST = 'must be an IP address or a host name such as 127.0.0.1, 0.0.0.0, :: or localhost';
const RANGE =
  'must be an IP address or range such as 10.0.0.0/8 or fd00::/8, or one of loopback, linklocal, uniquelocal';
const ORIGIN =
  'must be an origin as browsers send it, such as https://bi.example or http://localhost:3000: http:// or https:// and a host in lower case, a port only if it is not the usual one, nothing behind it; no patterns, not null';
const USER =
  'must be a user name: 1 to 255 bytes without colon and control characters, no white space at either end, not beginning with #';
const ENGINE_URL =
  'must be an http:// or https:// URL with a host, without user, password, query and fragment; ' +
  '{project} may stand in it once, as a whole segment of the path; ' +
  'or a list of up to 16 different ones for the replicas of the engine, all with {project} or none';
const REDIS_URL =
  'must be empty, or redis:// or rediss:// with a host, without query and fragment, ' +
  'such as rediss://user:password@redis.example:6379; ' +
  'or a list of up to 16 different ones, all with redis:// or all with rediss://';
const REDIS_KEYS =
  'url, mode, master, username, password, ca, certificate, key, namespace, encryption_key';
const KYLIN =
  'kylin needs an engine.url that ends in /mdx/xmla, /mdx/xmla_server, or one of them with /{project}';
const SECRET =
  'of 32 to 1024 characters without control characters (in quotes if it is a number); or null';
const PROJECT = 'must be a project name: not empty, not . or .., without control characters';
const HOOK_NAME = 'must be 1 to 64 letters, digits, underscores and hyphens';
const HOOK_PROJECTS =
  'must be a list of different project names, or a mapping of other names to them: at least one, each of at most 255 bytes';
const KYLIN_HOOK = 'format: kylin5, user: u, projects: [A]';
const DBT_HOOK = 'format: dbt, secret: 0123456789abcdef, projects: [A]';
const SIZE = 'must be a size such as 256MiB, 64KiB or a number of bytes,';
const PERMISSIONS =
  'needs cache.engine_permissions_ignored: true, because users then see answers that the engine might have refused them';

/** Each holds one mistake, told in one line. */
const WRONG_VALUES: readonly (readonly [yaml: string, line: string])[] = [
  ['cache: { ttl: soon }', `cache.ttl: ${TTL} (got "soon")`],
  ['cache: { ttl: 30 }', `cache.ttl: ${TTL} (got 30)`],
  ['cache: { ttl: 999ms }', `cache.ttl: ${TTL} (got "999ms")`],
  ['cache: { ttl: 31d }', `cache.ttl: ${TTL} (got "31d")`],
  ['cache: { ttl: ~ }', `cache.ttl: ${TTL} (got nothing)`],
  ['cache: { ttl: [1h] }', `cache.ttl: ${TTL} (got a list)`],
  [
    'cache: { lease: 0 }',
    'cache.lease: must be a duration such as 12h, 30m or 45s, between 100ms and 2s (got 0)',
  ],
  [
    'auth: { verified_for: 10ms }',
    'auth.verified_for: must be a duration such as 12h, 30m or 45s, 0 or between 1s and 30d; or null (got "10ms")',
  ],
  [
    'auth: { believed_for: 2h }',
    'auth.believed_for: must be a duration such as 12h, 30m or 45s, 0 or between 1s and 1h (got "2h")',
  ],
  [
    'engine: { login: forward }\nauth: { provider: engine, verified_for: 61m }',
    'auth.verified_for: must not be longer than 1h with auth.provider: engine',
  ],
  ['engine: { url: [] }', `engine.url: ${ENGINE_URL} (got a list)`],
  ['engine: { url: [http://a/x, http://a/x] }', `engine.url: ${ENGINE_URL} (got a list)`],
  ['engine: { url: ["http://a/{project}", http://b/] }', `engine.url: ${ENGINE_URL} (got a list)`],
  [
    'engine: { headers: [X-Tenant, X Tenant] }',
    'engine.headers[1]: must be the name of a header: a letter, and then letters, digits, hyphens, underscores and dots (got "X Tenant")',
  ],
  ['engine: { headers: [X-Tenant, x-tenant] }', 'engine.headers[1]: stands twice in the list'],
  [
    'engine: { headers: [X-Tenant, X_Remote_User] }',
    'engine.headers: must not name x_remote_user: a client could pass for another one by it, or get binary answers',
  ],
  [
    'projects: { A: { engine: { headers: [Connection] } } }',
    'projects.A.engine.headers: must not name connection: it is of the connection or the body, for which the gateway makes its own',
  ],
  [
    'engine: { delegation: trust }',
    'engine.delegation: must be one of forward, refuse; or null (got "trust")',
  ],
  ['auth: { provider: engine }', 'auth.provider: engine needs engine.login: forward (it is none)'],
  [
    'cache: { client_control: admins }',
    'cache.client_control: must be one of nobody, purgers, everybody (got "admins")',
  ],
  ['cache: { functions: [Today, Now] }', `cache.functions[1]: ${FUNCTION} (got "Now")`],
  [
    'cache: { functions: ["VBA.uſerName"] }',
    `cache.functions[0]: ${FUNCTION} (got "VBA.uſerName")`,
  ],
  ['cache: { functions: ["[Fn]"] }', `cache.functions[0]: ${FUNCTION} (got "[Fn]")`],
  ['cache: { functions: ["Fn."] }', `cache.functions[0]: ${FUNCTION} (got "Fn.")`],
  [
    'projects: { A: { functions: [PredictX] } }',
    `projects.A.functions[0]: ${FUNCTION} (got "PredictX")`,
  ],
  ['cache: { volatile: [A.B] }', `cache.volatile[0]: ${MDX_NAME} (got "A.B")`],
  [
    'cache: { volatile: LastDay }',
    `cache.volatile: must be a list, each item ${NAME_OF_MDX} (got a text)`,
  ],
  [
    'projects: { A: { cubes: { Sales: no } } }',
    'projects.A.cubes.Sales: must be one of on, off (got "no")',
  ],
  [
    'cache: { memory: 256mb }',
    `cache.memory: ${SIZE} between 1MiB and 1024GiB; or null (got "256mb")`,
  ],
  ['limits: { body: 1.5MiB }', `limits.body: ${SIZE} between 1KiB and 256MiB (got "1.5MiB")`],
  ['limits: { body: 12.5 }', `limits.body: ${SIZE} between 1KiB and 256MiB (got 12.5)`],
  [
    'limits: { connections: 0 }',
    'limits.connections: must be a whole number between 1 and 1000000; or null (got 0)',
  ],
  ['limits: { head: 1MiB }', `limits.head: ${SIZE} between 1KiB and 256KiB (got "1MiB")`],
  [
    'limits: { per_user: 0 }',
    'limits.per_user: must be a whole number between 1 and 10000 (got 0)',
  ],
  [
    'listen: { port: 70000 }',
    'listen.port: must be a whole number between 0 and 65535 (got 70000)',
  ],
  [
    'listen: { port: "7080" }',
    'listen.port: must be a whole number between 0 and 65535 (got "7080")',
  ],
  ['listen: { port: .nan }', 'listen.port: must be a whole number between 0 and 65535 (got NaN)'],
  ['listen: { host: "[::1]" }', `listen.host: ${HOST} (got "[::1]")`],
  ['listen: { host: 300.1.1.1 }', `listen.host: ${HOST} (got "300.1.1.1")`],
  ['listen: { host: "" }', `listen.host: ${HOST} (got "")`],
  [
    'listen: { open: metrics }',
    'listen.open: must be a list, each item one of metrics, health, docs (got a text)',
  ],
  [
    'listen: { open: [docs, metric] }',
    'listen.open[1]: must be one of metrics, health, docs (got "metric")',
  ],
  ['listen: { open: [docs, docs] }', 'listen.open[1]: stands twice in the list'],
  ['listen: { trusted_proxies: [10] }', `listen.trusted_proxies[0]: ${RANGE} (got 10)`],
  ['listen: { trusted_proxies: ["10"] }', `listen.trusted_proxies[0]: ${RANGE} (got "10")`],
  [
    'listen: { trusted_proxies: [0.0.0.0/0] }',
    `listen.trusted_proxies[0]: ${RANGE} (got "0.0.0.0/0")`,
  ],
  ...(
    [
      ['https://bi.example/', 'https://bi.example'],
      ['https://bi.example/reports?x=1', 'https://bi.example', '(a secret)'],
      ['https://u:hunter2@bi.example', 'https://bi.example', '(a secret)'],
      ['https://BI.example', 'https://bi.example'],
      ['HTTPS://bi.example', 'https://bi.example'],
      ['https://bi.example:443', 'https://bi.example'],
      ['http://bi.example:080', 'http://bi.example'],
      ['http://[0::1]:3000', 'http://[::1]:3000'],
      ['https://bücher.example', 'https://xn--bcher-kva.example'],
      ['https:bi.example', 'https://bi.example'],
      ['https://*.example', undefined],
      ['https://bi.example:*', undefined],
      ['*', undefined],
      ['null', undefined],
      ['bi.example', undefined],
      ['file:///home', undefined],
      ['ftp://bi.example', undefined],
      ['https://bi.example:99999', undefined],
      ['', undefined],
    ] as const
  ).map(([value, meant, got = JSON.stringify(value)]) => {
    const end = meant === undefined ? '' : `; did you mean ${meant}?`;
    return [
      `listen: { cors: { origins: ["${value}"] } }`,
      `listen.cors.origins[0]: ${ORIGIN} (got ${got})${end}`,
    ] as const;
  }),
  ['listen: { cors: { origins: [null] } }', `listen.cors.origins[0]: ${ORIGIN} (got nothing)`],
  [
    'listen: { cors: { origins: https://bi.example } }',
    `listen.cors.origins: must be a list, each item ${ORIGIN.slice('must be '.length)} (got a text)`,
  ],
  [
    'listen: { cors: { origins: [https://a.b, https://a.b] } }',
    'listen.cors.origins[1]: stands twice in the list',
  ],
  [
    'listen: { cors: { max_age: 2d } }',
    'listen.cors.max_age: must be a duration such as 12h, 30m or 45s, 0 or between 1s and 1d (got "2d")',
  ],
  ['auth: { admins: ["a:b"] }', `auth.admins[0]: ${USER} (got "a:b")`],
  ['auth: { admins: [""] }', `auth.admins[0]: ${USER} (got "")`],
  ['auth: { purgers: ["a\\nb"] }', `auth.purgers[0]: ${USER} (got "a\\nb")`],
  ['auth: { purgers: [x, y, x] }', 'auth.purgers[2]: stands twice in the list'],
  ['auth: { admins: [007] }', `auth.admins[0]: ${USER} (got 7)`],
  [
    'engine: { login: service, service: { name: "a:b", password: c } }',
    'engine.service.name: must be a name without colon and control characters, not empty (got "a:b")',
  ],
  ['auth: { users: "" }', 'auth.users: must be the path of a file (got "")'],
  ['engine: { url: "ftp://x/" }', `engine.url: ${ENGINE_URL} (got "ftp://x/")`],
  ['engine: { url: "http://u:hunter2@x/" }', `engine.url: ${ENGINE_URL} (got (a secret))`],
  ['engine: { url: "http://x/?pw=hunter2" }', `engine.url: ${ENGINE_URL} (got (a secret))`],
  ['engine: { url: "http://x/#top" }', `engine.url: ${ENGINE_URL} (got (a secret))`],
  [
    'engine: { url: "http://x/{project}/{project}" }',
    `engine.url: ${ENGINE_URL} (got "http://x/{project}/{project}")`,
  ],
  [
    'engine: { url: "http://x/a{project}" }',
    `engine.url: ${ENGINE_URL} (got "http://x/a{project}")`,
  ],
  ['engine: { url: "http://{project}/" }', `engine.url: ${ENGINE_URL} (got "http://{project}/")`],
  ['engine: { url: "http://x/%2E./y" }', `engine.url: ${ENGINE_URL} (got "http://x/%2E./y")`],
  ['engine: { url: "http://x:99999/" }', `engine.url: ${ENGINE_URL} (got "http://x:99999/")`],
  [
    'engine: { kind: Mondrian }',
    'engine.kind: must be one of generic, mondrian, emondrian, kylin, ssas (got "Mondrian")',
  ],
  [
    'engine: { login: service }',
    'engine.service: is missing; login: service needs service: { name, password }',
  ],
  [
    'engine: { service: { name: a, password: b } }',
    'engine.service: must only stand together with login: service (login is none)',
  ],
  [
    'engine: { login: service, service: { name: a } }',
    'engine.service.password: is missing; must be a text of 1 to 1024 characters without control characters (in quotes if it is a number)',
  ],
  [
    'engine: { login: service, service: { name: a, password: 12345 } }',
    'engine.service.password: must be a text of 1 to 1024 characters without control characters (in quotes if it is a number) (got (a secret))',
  ],
  [
    'engine: { login: service, service: { name: a, pasword: hunter2 } }',
    'engine.service.pasword: unknown key; did you mean password? allowed: name, password',
  ],
  ['cache: { key_secret: short }', `cache.key_secret: must be a text ${SECRET} (got (a secret))`],
  [
    'cache: { redis: { url: "http://:hunter2@x" } }',
    `cache.redis.url: ${REDIS_URL} (got (a secret))`,
  ],
  [
    'cache: { redis: { url: "redis://x?tls=false" } }',
    `cache.redis.url: ${REDIS_URL} (got (a secret))`,
  ],
  [
    'cache: { redis: "redis://:hunter2@x" }',
    `cache.redis: must be a mapping with keys of ${REDIS_KEYS} (got a text)`,
  ],
  [
    'cache: { redis: { namespace: "a{b}" } }',
    'cache.redis.namespace: must be 1 to 64 letters, digits, dots, underscores and hyphens (got "a{b}")',
  ],
  [
    'cache: { share: everyone }\nengine: { login: forward }',
    `cache.share: everyone with login: forward ${PERMISSIONS}`,
  ],
  [
    'cache: { engine_permissions_ignored: "yes" }',
    'cache.engine_permissions_ignored: must be true or false (got "yes")',
  ],
  [
    'cache: { memory: 1MiB, max_entry: 2MiB }',
    'cache.max_entry: must not be larger than cache.memory',
  ],
  [
    'log: { level: loud }',
    'log.level: must be one of trace, debug, info, warn, error, silent (got "loud")',
  ],
  [
    'hooks: { "a b": { format: dbt, secret: 0123456789abcdef, projects: [A] } }',
    `hooks["a b"]: ${HOOK_NAME} (got "a b")`,
  ],
  [
    `hooks: { ${'x'.repeat(65)}: { ${KYLIN_HOOK} } }`,
    `hooks["${'x'.repeat(60)}…"]: ${HOOK_NAME} (got "${'x'.repeat(60)}…")`,
  ],
  [
    'hooks: { h: { user: u, projects: [A] } }',
    'hooks.h.format: is missing; must be one of kylin5, dbt',
  ],
  [
    'hooks: { h: { format: kylin, user: u, projects: [A] } }',
    'hooks.h.format: must be one of kylin5, dbt (got "kylin")',
  ],
  [
    'hooks: { h: { format: kylin5, projects: [A] } }',
    'hooks.h.user: is missing; format: kylin5 needs it',
  ],
  [
    'hooks: { h: { format: dbt, projects: [A] } }',
    'hooks.h.secret: is missing; format: dbt needs it',
  ],
  [
    `hooks: { h: { ${KYLIN_HOOK}, secret: 0123456789abcdef } }`,
    'hooks.h.secret: must not stand with format: kylin5',
  ],
  [`hooks: { h: { ${DBT_HOOK}, user: u } }`, 'hooks.h.user: must not stand with format: dbt'],
  [
    'hooks: { h: { format: dbt, secret: short, projects: [A] } }',
    'hooks.h.secret: must be a text of 16 to 1024 characters without control characters (in quotes if it is a number); or null (got (a secret))',
  ],
  [
    'hooks: { h: { format: kylin5, user: "a:b", projects: [A] } }',
    `hooks.h.user: ${USER}; or null (got "a:b")`,
  ],
  ['hooks: { h: { format: kylin5, user: u } }', `hooks.h.projects: is missing; ${HOOK_PROJECTS}`],
  [
    'hooks: { h: { format: kylin5, user: u, projects: A } }',
    `hooks.h.projects: ${HOOK_PROJECTS} (got "A")`,
  ],
  [
    'hooks: { h: { format: kylin5, user: u, projects: [] } }',
    `hooks.h.projects: ${HOOK_PROJECTS} (got a list)`,
  ],
  [
    'hooks: { h: { format: kylin5, user: u, projects: {} } }',
    `hooks.h.projects: ${HOOK_PROJECTS} (got a mapping)`,
  ],
  [
    'hooks: { h: { format: kylin5, user: u, projects: [A, A] } }',
    `hooks.h.projects: ${HOOK_PROJECTS} (got a list)`,
  ],
  [
    'hooks: { h: { format: kylin5, user: u, projects: { a: .. } } }',
    `hooks.h.projects: ${HOOK_PROJECTS} (got a mapping)`,
  ],
  [
    `hooks: { h: { format: kylin5, user: u, projects: [${'x'.repeat(256)}] } }`,
    `hooks.h.projects: ${HOOK_PROJECTS} (got a list)`,
  ],
  [
    'hooks: { h: { format: dbt, secret: 0123456789abcdef, projects: { a: B } } }',
    'hooks.h.projects: must be a list with format: dbt, each message of which purges all of them',
  ],
  ['projects: [A]', 'projects: must be a mapping by project name (got a list)'],
  ['projects: { "..": {} }', `projects[".."]: ${PROJECT} (got "..")`],
  ['projects: { "": {} }', `projects[""]: ${PROJECT} (got "")`],
  ['projects: { A: { ttl: 0 } }', `projects.A.ttl: ${TTL} (got 0)`],
  ['projects: { __proto__: { ttl: no } }', `projects.__proto__.ttl: ${TTL} (got "no")`],
  [
    'projects: { Adventure Works: { cache: true } }',
    'projects["Adventure Works"].cache: must be one of on, off (got true)',
  ],
  [
    'projects: { A: { share: everyone, engine: { login: forward } } }',
    `projects.A.share: everyone with login: forward ${PERMISSIONS}`,
  ],
  [
    'projects: { A: { share: everyone } }\nengine: { login: forward }',
    `projects.A.share: everyone with login: forward ${PERMISSIONS}`,
  ],
  [
    'projects: { A: { engine: { login: forward } } }\ncache: { share: everyone }',
    `projects.A.engine.login: forward with share: everyone ${PERMISSIONS}`,
  ],
  [
    'projects: { A: { engine: { login: service } } }',
    'projects.A.engine.service: is missing; login: service needs service: { name, password }',
  ],
  [
    'projects: { A: { engine: { certificate: a.pem } } }',
    'projects.A.engine.certificate: needs the key that belongs to it; both or none',
  ],
  [
    'listen: { certificate: a.pem }',
    'listen.certificate: needs the key that belongs to it; both or none',
  ],
  ['engine: { key: a.key }', 'engine.key: needs the certificate that belongs to it; both or none'],
  [
    'limits: { body: 17MiB, in_flight: 16MiB }',
    'limits.in_flight: must not be smaller than limits.body',
  ],
  [
    'limits: { in_flight: 15MiB }',
    `limits.in_flight: ${SIZE} between 16MiB and 64GiB; or null (got "15MiB")`,
  ],
  [
    'cache: { purge: { repeat_after: 10ms } }',
    'cache.purge.repeat_after: must be a duration such as 12h, 30m or 45s, 0 or between 1s and 1d (got "10ms")',
  ],
  [
    'cache: { purge: 10m }',
    'cache.purge: must be a mapping with keys of repeat_after (got a text)',
  ],
];

/** Of the section cache.redis. */
const WRONG_REDIS: readonly (readonly [yaml: string, line: string])[] = [
  ['url: []', `url: ${REDIS_URL} (got (a secret))`],
  ['url: [""]', `url: ${REDIS_URL} (got (a secret))`],
  ['url: ["redis://a", ""]', `url: ${REDIS_URL} (got (a secret))`],
  ['url: ["redis://a", "rediss://b"], mode: cluster', `url: ${REDIS_URL} (got (a secret))`],
  ['url: ["redis://a", "redis://a"], mode: cluster', `url: ${REDIS_URL} (got (a secret))`],
  ['url: ["redis://a", 7], mode: cluster', `url: ${REDIS_URL} (got (a secret))`],
  ['url: ["redis://a", "redis://b"]', 'url: must be one address with mode: standalone'],
  [
    'mode: replicated, url: "redis://a"',
    'mode: must be one of standalone, sentinel, cluster (got "replicated")',
  ],
  ['mode: cluster', 'url: must not be empty with mode: cluster'],
  ['mode: sentinel, master: m', 'url: must not be empty with mode: sentinel'],
  [
    'mode: sentinel, url: "redis://a"',
    'master: is missing; mode: sentinel needs the name of the master',
  ],
  ['mode: cluster, url: "redis://a", master: m', 'master: must only stand with mode: sentinel'],
  [
    'mode: sentinel, url: "redis://a", master: "a b"',
    'master: must be 1 to 255 letters, digits, dots, underscores and hyphens; or null (got "a b")',
  ],
  [
    'mode: cluster, url: "redis://a/1"',
    'url: must not name a database other than 0; cache.redis.namespace keeps deployments apart',
  ],
  [
    'mode: sentinel, url: "redis://a/1", master: m',
    'url: must not name a database other than 0; cache.redis.namespace keeps deployments apart',
  ],
  [
    'url: "redis://a/1"',
    'url: must not name a database other than 0; cache.redis.namespace keeps deployments apart',
  ],
  [
    'mode: cluster, url: ["redis://u:p@a", "redis://u:q@b"]',
    'url: must name the same user and password in all addresses',
  ],
  ['url: "redis://a", username: u', 'password: is missing; username needs it'],
  ['password: hunter2', 'password: must only stand together with an address in url'],
  [
    'url: "redis://a", username: "u:v", password: p',
    'username: must be a name without colon and control characters, not empty; or null (got "u:v")',
  ],
  ['url: "redis://a", ca: ca.pem', 'ca: needs a rediss:// URL'],
  ['ca: ca.pem', 'ca: needs a rediss:// URL'],
  [
    'url: "rediss://a", certificate: a.pem',
    'certificate: needs the key that belongs to it; both or none',
  ],
  ['url: "rediss://a", key: a.key', 'key: needs the certificate that belongs to it; both or none'],
  [
    `encryption_key: ${'k'.repeat(32)}`,
    'encryption_key: must only stand together with an address in url',
  ],
  ['encryption_key: hunter2', `encryption_key: must be a text ${SECRET} (got (a secret))`],
];

/** Of `engine.clear`. */
const WRONG_CLEAR: readonly (readonly [yaml: string, line: string])[] = [
  ['engine: { clear: all }', 'engine.clear: must be one of none, kylin (got "all")'],
  ['engine: { clear: kylin }', `engine.clear: ${KYLIN}`],
  [
    'engine: { clear: kylin, url: ["http://a/mdx/xmla", "http://b/xmla"] }',
    `engine.clear: ${KYLIN}`,
  ],
  ['projects: { A: { engine: { clear: kylin } } }', `projects.A.engine.clear: ${KYLIN}`],
  [
    'engine: { clear: kylin, url: http://a/mdx/xmla }\nprojects: { A: { engine: { url: http://b/xmla } } }',
    `projects.A.engine.clear: ${KYLIN}`,
  ],
];

const UNKNOWN_KEYS: readonly (readonly [yaml: string, line: string])[] = [
  ['cache: { tll: 12h }', `cache.tll: unknown key; did you mean ttl? allowed: ${CACHE_KEYS}`],
  [
    'cache: { max-entry: 1MiB }',
    `cache.max-entry: unknown key; did you mean max_entry? allowed: ${CACHE_KEYS}`,
  ],
  ['cache: { wibble: 1 }', `cache.wibble: unknown key; allowed: ${CACHE_KEYS}`],
  ['cache: { __proto__: {} }', `cache.__proto__: unknown key; allowed: ${CACHE_KEYS}`],
  [
    'cahce: {}',
    'cahce: unknown key; did you mean cache? allowed: listen, workers, auth, engine, cache, projects, hooks, storage, limits, log, statistics, warm',
  ],
  [
    'projects: { A: { chache: off } }',
    'projects.A.chache: unknown key; did you mean cache? allowed: cache, ttl, stale_if_error, share, functions, cubes, watch, engine',
  ],
  [
    'store: { driver: sqlite }',
    'store: unknown key; did you mean storage? allowed: listen, workers, auth, engine, cache, projects, hooks, storage, limits, log, statistics, warm',
  ],
];

const NO_MAPPING: readonly (readonly [yaml: string, line: string])[] = [
  ['cache: 12h', `cache: must be a mapping with keys of ${CACHE_KEYS} (got a text)`],
  [
    '- a',
    'must be a mapping with keys of listen, workers, auth, engine, cache, projects, hooks, storage, limits, log, statistics, warm (got a list)',
  ],
  [
    '42',
    'must be a mapping with keys of listen, workers, auth, engine, cache, projects, hooks, storage, limits, log, statistics, warm (got a number)',
  ],
];

describe('a configuration with one mistake is refused in one line that names the key and what is allowed', () => {
  test.each([...WRONG_VALUES, ...UNKNOWN_KEYS, ...NO_MAPPING])('%s', (yaml, line) => {
    expect(mistakes({ yaml })).toEqual([line]);
  });

  test.each(WRONG_REDIS)('cache.redis: { %s }', (keys, line) => {
    const files = { '/etc/gateway/ca.pem': CERTIFICATE };
    expect(mistakes({ yaml: `cache: { redis: { ${keys} } }`, files })).toEqual([
      `cache.redis.${line}`,
    ]);
  });

  test.each(WRONG_CLEAR)('%s', (yaml, line) => {
    expect(mistakes({ yaml })).toEqual([line]);
  });
});

test('every mistake is told, each in its own line', () => {
  expect(
    mistakes({
      yaml: 'cache: { tll: 1h, lease: 1h }\nlisten: { port: x }\nlog: { levle: info, colour: red }',
    }),
  ).toEqual([
    'listen.port: must be a whole number between 0 and 65535 (got "x")',
    'cache.lease: must be a duration such as 12h, 30m or 45s, between 100ms and 2s (got "1h")',
    `cache.tll: unknown key; did you mean ttl? allowed: ${CACHE_KEYS}`,
    'log.levle: unknown key; did you mean level? allowed: level, slow, statements',
    'log.colour: unknown key; allowed: level, slow, statements',
  ]);
});

test('a long or unprintable value cannot break or flood the line', () => {
  const [line] = mistakes({ yaml: `log: { level: "a\\u2028b\\n${'x'.repeat(1000)}" }` });
  expect(line).toBe(
    `log.level: must be one of trace, debug, info, warn, error, silent (got "a\\u2028b\\n${'x'.repeat(56)}…")`,
  );
  const [unknown] = mistakes({ yaml: `log: { "a\\nb${'x'.repeat(1000)}": 1 }` });
  expect(unknown).toBe(
    `log["a\\nb${'x'.repeat(57)}…"]: unknown key; allowed: level, slow, statements`,
  );
});
