/** Whether the files that the configuration names can be used. */

import { createPrivateKey, X509Certificate } from 'node:crypto';
import { isAbsolute, relative, sep } from 'node:path';
import { SECRET_MASK } from './problems.ts';

/** Reads a whole file. @throws an Error with the `code` of the system, such as ENOENT, or NOT_REGULAR. */
export type ReadFile = (path: string) => Uint8Array;

const READ_ERRORS: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist',
  EACCES: 'cannot be read: permission denied',
  EPERM: 'cannot be read: permission denied',
  EISDIR: 'is a folder',
  NOT_REGULAR: 'is no regular file, which alone can be read again',
};

/** Why a file cannot be read, as the rest of a sentence that begins with the file. */
export function readErrorText(error: unknown): string {
  const { code = '' } = error as { readonly code?: string };
  return READ_ERRORS[code] ?? `cannot be read${code === '' ? '' : ` (${code})`}`;
}

/** Keys that are wrong, from the section in question on, each with the rest of a sentence that begins with it. */
export type Broken = Iterable<readonly [key: string, message: string]>;

/** How the files are read. */
export interface NamedFiles {
  readonly readFile: ReadFile;
  /** Absolute; where the operator stands, for commands in messages. */
  readonly workingFolder: string;
  /** Paths that no message may show. */
  readonly hiddenPaths: ReadonlySet<string>;
}

export interface TlsFiles {
  readonly ca?: string | undefined;
  readonly certificate?: string | undefined;
  readonly key?: string | undefined;
}

export function* unusableUsers(path: string, named: NamedFiles): Broken {
  const target = named.hiddenPaths.has(path) ? 'FILE' : shellPath(path, named.workingFolder);
  for (const [key, problem] of readNamed('users', path, named, String, '')) {
    const isMissing = problem.endsWith(READ_ERRORS['ENOENT'] ?? '');
    const advice = `; make it with: mdx-gateway hash-password NAME >> ${target}`;
    yield [key, isMissing ? problem + advice : problem];
  }
}

export function* unusableTls({ ca, certificate, key }: TlsFiles, named: NamedFiles): Broken {
  const wanted = 'PEM certificate';
  if (ca) yield* readNamed('ca', ca, named, readCertificates, wanted);
  if (!certificate || !key) return;
  const chain = yield* readNamed('certificate', certificate, named, readCertificates, wanted);
  const unlocked = 'PEM private key without a passphrase';
  const privateKey = yield* readNamed('key', key, named, createPrivateKey, unlocked);
  if (privateKey && chain?.[0]?.checkPrivateKey(privateKey) === false) {
    yield ['key', `${shown(key, named)} does not belong to the certificate`];
  }
}

const shown = (path: string, { hiddenPaths }: NamedFiles) =>
  hiddenPaths.has(path) ? SECRET_MASK : path;

/** @param parse throws when the file holds none of what is wanted */
function* readNamed<T>(
  key: string,
  path: string,
  named: NamedFiles,
  parse: (text: string) => T,
  wanted: string,
): Generator<readonly [key: string, message: string], T | undefined> {
  let text: string;
  try {
    text = new TextDecoder().decode(named.readFile(path));
  } catch (error) {
    yield [key, `${shown(path, named)} ${readErrorText(error)}`];
    return undefined;
  }
  try {
    return parse(text);
  } catch {
    yield [key, `${shown(path, named)} holds no ${wanted}`];
    return undefined;
  }
}

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/** @throws Error when the PEM text holds no certificate, or a broken one. */
function readCertificates(pem: string): readonly X509Certificate[] {
  const blocks = pem.match(PEM_CERTIFICATE) ?? [];
  if (blocks.length === 0) throw new Error('no certificate');
  return blocks.map((block) => new X509Certificate(block));
}

/** The path as one word of a shell, short when it lies below the working folder. */
function shellPath(path: string, workingFolder: string): string {
  const below = relative(workingFolder, path);
  const outside = below === '..' || below.startsWith(`..${sep}`) || isAbsolute(below);
  const shortest = outside ? path : `./${below}`;
  return /^[\w./-]+$/.test(shortest) ? shortest : `'${shortest.replaceAll("'", `'\\''`)}'`;
}
