/** The keys of the section engine, and of the engine of a project. */

import { ENGINE_KIND_NAMES } from '../engine-kinds.ts';
import { choice, duration, engineUrls, filePath, loginName, orNull, secretText } from './kinds.ts';
import { leaf, optionalSection, section } from './leaf.ts';

const SECOND = 1000;
const HOUR = 3600 * SECOND;
const DAY = 24 * HOUR;

const service = {
  name: leaf(loginName(), 'The user name of the service account at the engine.'),
  password: leaf(secretText(1), 'Its password. Take it from the environment: ${ENGINE_PASSWORD}.'),
};
const SERVICE_MEANING = 'The service account. It stands here exactly when engine.login is service.';

/** The keys of an engine; a project may have some of them. */
export const engineKeys = {
  url: leaf(
    engineUrls(),
    'The XMLA endpoint of the engine, or a list of those of its replicas; a session stays with its replica. {project} is replaced by the project of the request path.',
  ),
  kind: leaf(
    choice(ENGINE_KIND_NAMES),
    'Which engine it is; docs/SESSIONS.md shows what that changes. generic fits all others.',
  ),
  login: leaf(
    choice(['forward', 'service', 'none']),
    'What the engine gets as a login: the one of the client (forward), that of a service account (service), or none.',
  ),
  service: optionalSection(service, SERVICE_MEANING),
  delegation: leaf(
    orNull(choice(['forward', 'refuse'])),
    'What becomes of requests that ask for the rights of another identity (properties such as EffectiveUserName, Roles and CustomData; WS-Security): forward sends them to the engine past the cache, refuse answers with a Fault. null: refuse with login: service, whose rights everybody could lend to himself otherwise, else forward.',
  ),
  session_idle: leaf(
    orNull(duration({ min: SECOND, max: 30 * DAY, off: true })),
    'After how long without a request the engine drops a session. As soon as a quarter of it has passed, a request that is answered from the cache touches the session at the engine. null: what is usual for the kind of engine; 0: it never drops one.',
  ),
  clear: leaf(
    choice(['none', 'kylin']),
    'Whether clearCache also clears the cache of the engine: kylin calls its clearCache at every replica before the gateway drops its own entries; engine.url then ends in /mdx/xmla or /mdx/xmla/{project}.',
  ),
  timeout: leaf(
    duration({ min: SECOND, max: HOUR }),
    'How long the engine may take to the first byte of its answer, and between two bytes of it.',
  ),
  ca: leaf(
    orNull(filePath()),
    'A PEM file with the certificates of the authorities that may have signed the certificate of the engine. null trusts those of Node.js.',
  ),
  certificate: leaf(
    orNull(filePath()),
    'A PEM file with a client certificate that is shown to the engine. Certificate and key stand together.',
  ),
  key: leaf(
    orNull(filePath()),
    'A PEM file with the private key of the client certificate, without a passphrase.',
  ),
};

export const engineSection = section(
  {
    url: engineKeys.url.prefault('http://127.0.0.1:8080/xmla'),
    kind: engineKeys.kind.prefault('generic'),
    login: engineKeys.login.prefault('none'),
    service: engineKeys.service.prefault(null),
    delegation: engineKeys.delegation.prefault(null),
    session_idle: engineKeys.session_idle.prefault(null),
    clear: engineKeys.clear.prefault('none'),
    timeout: engineKeys.timeout.prefault('300s'),
    ca: engineKeys.ca.prefault(null),
    certificate: engineKeys.certificate.prefault(null),
    key: engineKeys.key.prefault(null),
  },
  'The engine behind the gateway.',
);
