/** The section `storage` of the configuration file; see schema.ts. */

import {
  choice,
  duration,
  filePath,
  flag,
  integer,
  loginName,
  orNull,
  secretText,
  storageUrl,
} from './kinds.ts';
import { leaf, optionalSection, section } from './leaf.ts';

/** Limits of `timeout` (ms). */
const TIMEOUT = { min: 100, max: 3_600_000 };

export const storageSection = section(
  {
    driver: leaf(
      choice(['sqlite', 'postgres', 'http']),
      'Where roles and datasets are: in a file of this machine (sqlite), in a PostgreSQL that replicas share (postgres), or at another server that speaks the same interface (http).',
    ).prefault('sqlite'),
    path: leaf(
      filePath(),
      'With sqlite: the file. Its folder is made when it is not there.',
    ).prefault('./data/gateway.sqlite'),
    url: leaf(
      storageUrl(),
      'With postgres: the database, postgres://user:password@host:5432/database. With http: the server, to which /api/… is added.',
    ).prefault(''),
    login: leaf(
      choice(['forward', 'service']),
      'With http: what the server gets as a login, the one of the client (forward) or that of a service account (service).',
    ).prefault('forward'),
    service: optionalSection(
      {
        name: leaf(loginName(), 'The user name of the service account at the server.'),
        password: leaf(
          secretText(1),
          'Its password. Take it from the environment: ${STORAGE_PASSWORD}.',
        ),
      },
      'The service account. It stands here exactly when storage.login is service.',
    ).prefault(null),
    tls: leaf(
      flag(),
      'With postgres: whether the connection is encrypted, and the certificate of the server checked.',
    ).prefault(false),
    ca: leaf(
      orNull(filePath()),
      'A PEM file with the certificates of the authorities that may have signed the certificate of the server. null trusts those of Node.js.',
    ).prefault(null),
    certificate: leaf(
      orNull(filePath()),
      'A PEM file with a client certificate that is shown to the server. Certificate and key stand together.',
    ).prefault(null),
    key: leaf(
      orNull(filePath()),
      'A PEM file with the private key of the client certificate, without a passphrase.',
    ).prefault(null),
    connections: leaf(
      integer({ min: 1, max: 100 }),
      'With postgres: the most connections of this process.',
    ).prefault(10),
    timeout: leaf(
      orNull(duration(TIMEOUT)),
      'With postgres: how long an operation may take (null: 1500ms). With http: how long the server may take to the first byte of its answer, and between two bytes of it (null: 60s).',
    ).prefault(null),
  },
  'Where roles and datasets are kept.',
);
