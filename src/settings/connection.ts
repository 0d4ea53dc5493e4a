/** Keys and rules that sections of connections to a server have in common: TLS files, the service account. */
import { createPrivateKey } from 'node:crypto';
import * as kinds from './kinds.ts';
import { readCertificates, readNamed, shown } from './named-files.ts';
import type { Broken } from './problems.ts';
import { key, optional, orNull, REQUIRED, section, type ValuesOf } from './setting.ts';

export const tlsFiles = {
  /** A PEM file with the certificates of the authorities that may have signed the certificate of
   * the server. null trusts those of Node.js. */
  ca: orNull(kinds.filePath),
  /** A PEM file with a client certificate for the server. Certificate and key stand together. */
  certificate: orNull(kinds.filePath),
  /** A PEM file with the private key of the client certificate, without a passphrase. */
  key: orNull(kinds.filePath),
};

export const service = optional(
  section({
    /** The user name of the service account. */
    name: key(kinds.loginName, REQUIRED),
    /** Its password. Take it from a file, ${file:/run/secrets/service_password}, or from the environment, ${SERVICE_PASSWORD}. */
    password: key(kinds.secretText(1), REQUIRED),
  }),
);

type TlsFiles = Partial<ValuesOf<typeof tlsFiles>>;

/** @param needs what is wrong with the files where the connection is not encrypted */
export function* tlsRules(files: TlsFiles, reading: kinds.Reading, needs = ''): Broken {
  const { ca, certificate, key } = files;
  for (const [name, path] of Object.entries({ ca, certificate, key })) {
    if (path !== undefined && needs !== '') yield [name, needs];
  }
  const wanted = 'PEM certificate';
  if (certificate && !key) yield ['certificate', 'needs the key that belongs to it; both or none'];
  if (key && !certificate) yield ['key', 'needs the certificate that belongs to it; both or none'];
  if (ca) yield* readNamed('ca', ca, reading, readCertificates, wanted);
  if (!certificate || !key) return;
  const chain = yield* readNamed('certificate', certificate, reading, readCertificates, wanted);
  const unlocked = 'PEM private key without a passphrase';
  const privateKey = yield* readNamed('key', key, reading, createPrivateKey, unlocked);
  if (privateKey && chain?.[0]?.checkPrivateKey(privateKey) === false) {
    yield ['key', `${shown(key, reading)} does not belong to the certificate`];
  }
}

type Login = Readonly<{ login: string; service: object | undefined }>;
export function* loginRules({ login, service }: Login): Broken {
  const missing = 'is missing; login: service needs service: { name, password }';
  const surplus = `must only stand together with login: service (login is ${login})`;
  if ((login === 'service') !== !!service) yield ['service', service ? surplus : missing];
}
