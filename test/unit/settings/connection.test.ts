import { describe, expect, test } from '@jest/globals';
import { FOLDER, mistakes } from '../config/fake-files.ts';
import type { Case } from '../config/fake-files.ts';
import { CERTIFICATE, LOCKED_KEY, OTHER_KEY, PRIVATE_KEY } from '../config/pem-samples.ts';

describe('the files that the configuration names must be of use', () => {
  const tls = 'listen: { certificate: tls/a.pem, key: tls/a.key }';
  const certificate = `${FOLDER}/tls/a.pem`;
  const key = `${FOLDER}/tls/a.key`;
  const users = `${FOLDER}/users.htpasswd`;

  const cases: readonly (readonly [Case, string])[] = [
    [
      { yaml: tls, files: { [key]: PRIVATE_KEY } },
      `listen.certificate: ${certificate} does not exist`,
    ],
    [
      { yaml: tls, files: { [certificate]: CERTIFICATE, [key]: 'EACCES' } },
      `listen.key: ${key} cannot be read: permission denied`,
    ],
    [
      { yaml: tls, files: { [certificate]: PRIVATE_KEY, [key]: PRIVATE_KEY } },
      `listen.certificate: ${certificate} holds no PEM certificate`,
    ],
    [
      {
        yaml: tls,
        files: { [certificate]: CERTIFICATE.replace('MII', 'AAA'), [key]: PRIVATE_KEY },
      },
      `listen.certificate: ${certificate} holds no PEM certificate`,
    ],
    [
      { yaml: tls, files: { [certificate]: CERTIFICATE, [key]: CERTIFICATE } },
      `listen.key: ${key} holds no PEM private key without a passphrase`,
    ],
    [
      { yaml: tls, files: { [certificate]: CERTIFICATE, [key]: LOCKED_KEY } },
      `listen.key: ${key} holds no PEM private key without a passphrase`,
    ],
    [
      { yaml: tls, files: { [certificate]: CERTIFICATE, [key]: OTHER_KEY } },
      `listen.key: ${key} does not belong to the certificate`,
    ],
    [
      { yaml: 'engine: { ca: /ca.pem }', files: { '/ca.pem': 'EISDIR' } },
      'engine.ca: /ca.pem is a folder',
    ],
    [
      { yaml: `cache: { redis: { url: "rediss://a", ca: ca.pem } }` },
      `cache.redis.ca: ${FOLDER}/ca.pem does not exist`,
    ],
    [
      {
        yaml: 'cache: { redis: { url: "rediss://a", certificate: tls/a.pem, key: tls/a.key } }',
        files: { [certificate]: CERTIFICATE, [key]: OTHER_KEY },
      },
      `cache.redis.key: ${key} does not belong to the certificate`,
    ],
    [
      { yaml: 'engine: { ca: "${CA}" }', env: { CA: '/hunter2.pem' } },
      'engine.ca: (a secret) does not exist',
    ],
    [
      { yaml: 'projects: { A: { engine: { ca: ca.pem } } }' },
      `projects.A.engine.ca: ${FOLDER}/ca.pem does not exist`,
    ],
    [
      { yaml: '', files: { [users]: 'ENOENT' } },
      `auth.users: ${users} does not exist; make it with: mdx-gateway hash-password NAME >> ${users}`,
    ],
    [
      { yaml: 'auth: { users: "../our users" }' },
      "auth.users: /etc/our users does not exist; make it with: mdx-gateway hash-password NAME >> '/etc/our users'",
    ],
    [
      { yaml: 'auth: { users: "${U}" }', env: { U: '/hunter2' } },
      'auth.users: (a secret) does not exist; make it with: mdx-gateway hash-password NAME >> FILE',
    ],
    [
      { yaml: '', files: { [users]: 'EACCES' } },
      `auth.users: ${users} cannot be read: permission denied`,
    ],
    [{ yaml: '', files: { [users]: 'EIO' } }, `auth.users: ${users} cannot be read (EIO)`],
  ];

  test.each(cases)('%j', (wrong, line) => {
    expect(mistakes(wrong)).toEqual([line]);
  });
});
