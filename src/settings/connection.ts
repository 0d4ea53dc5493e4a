import { createPrivateKey, X509Certificate } from 'node:crypto';
import * as kinds from './kinds.ts';
import { type Broken, SECRET_MASK } from './problems.ts';
import { key, optional, orNull, REQUIRED, section, type ValuesOf } from './setting.ts';

export const tlsFiles = {
  /** A PEM file with the certificates of the authorities that may sign the server's certificate.
   * null trusts those of Node.js. */
  ca: orNull(kinds.filePath),
  /** A PEM file with a client certificate for the server. Set certificate and key together. */
  certificate: orNull(kinds.filePath),
  /** A PEM file with the private key of the client certificate, without a passphrase. */
  key: orNull(kinds.filePath),
};

export const service = optional(
  section({
    /** The user name of the service account. */
    name: key(kinds.loginName, REQUIRED),
    /** The password of that account. Take it from a file, ${file:/run/secrets/service_password}, or
     * from the environment, ${SERVICE_PASSWORD}. */
    password: key(kinds.secretText(1), REQUIRED),
  }),
);

type TlsFiles = Partial<ValuesOf<typeof tlsFiles>>;

/** @param needs the mistake when files stand with an unencrypted connection */
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

export const READ_ERRORS: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist',
  EACCES: 'cannot be read: permission denied',
  EPERM: 'cannot be read: permission denied',
  EISDIR: 'is a folder',
  NOT_REGULAR: 'is no regular file, which alone can be read again',
};

/** Continues a sentence that begins with the file. */
export function readErrorText(error: unknown): string {
  const { code = '' } = error as { readonly code?: string };
  return READ_ERRORS[code] ?? `cannot be read${code === '' ? '' : ` (${code})`}`;
}

const shown = (path: string, { hiddenPaths }: kinds.Reading) =>
  hiddenPaths.has(path) ? SECRET_MASK : path;

export function* readNamed<T>(
  key: string,
  path: string,
  reading: kinds.Reading,
  parse: (text: string) => T,
  wanted: string,
): Generator<readonly [key: string, message: string], T | undefined> {
  let bytes: Uint8Array | undefined;
  try {
    bytes = reading.readFile(path);
    return parse(new TextDecoder().decode(bytes));
  } catch (error) {
    const problem = bytes === undefined ? readErrorText(error) : `holds no ${wanted}`;
    yield [key, `${shown(path, reading)} ${problem}`];
    return undefined;
  }
}

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/** @throws Error when there is none, or a broken one */
function readCertificates(pem: string): readonly X509Certificate[] {
  const blocks = pem.match(PEM_CERTIFICATE) ?? [];
  if (blocks.length === 0) throw new Error('no certificate');
  return blocks.map((block) => new X509Certificate(block));
}
