/** Whether the files that the configuration names can be used. */

import { createPrivateKey, X509Certificate } from 'node:crypto';
import { isAbsolute, relative, sep } from 'node:path';
import { SECRET_MASK } from './problems.ts';
import type { KeyPath, Problem } from './problems.ts';

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
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return READ_ERRORS[code] ?? `cannot be read${code === '' ? '' : ` (${code})`}`;
}

export interface TlsFiles {
  readonly ca?: string | undefined;
  readonly certificate?: string | undefined;
  readonly key?: string | undefined;
}

/** The files that a configuration names, as absolute paths. */
export interface NamedFiles {
  readonly users: string | undefined;
  readonly tls: readonly (readonly [section: KeyPath, files: TlsFiles])[];
}

interface FileChecks {
  readonly readFile: ReadFile;
  /** Absolute; where the operator stands, for commands in messages. */
  readonly workingFolder: string;
  /** Paths that no message may show. */
  readonly hiddenPaths: ReadonlySet<string>;
}

/** Reads every file once and tells what is wrong with each. */
export function checkFiles(
  { users, tls }: NamedFiles,
  { readFile, workingFolder, hiddenPaths }: FileChecks,
): readonly Problem[] {
  const problems: Problem[] = [];

  function complain(key: KeyPath, path: string, message: string): undefined {
    const shown = hiddenPaths.has(path) ? SECRET_MASK : path;
    problems.push({ path: key, message: `${shown} ${message}` });
  }

  function read(key: KeyPath, path: string, advice = ''): string | undefined {
    try {
      return new TextDecoder().decode(readFile(path));
    } catch (error) {
      const problem = readErrorText(error);
      return complain(key, path, `${problem}${problem === 'does not exist' ? advice : ''}`);
    }
  }

  function readPem<T>(key: KeyPath, path: string, parse: (pem: string) => T, wanted: string) {
    const pem = read(key, path);
    if (pem === undefined) return undefined;
    try {
      return parse(pem);
    } catch {
      return complain(key, path, `holds no ${wanted}`);
    }
  }

  const readIdentity = (key: KeyPath, path: string) =>
    readPem(key, path, readCertificates, 'PEM certificate');

  if (users !== undefined) {
    const target = hiddenPaths.has(users) ? 'FILE' : shellPath(users, workingFolder);
    const advice = `; make it with: mdx-gateway hash-password NAME >> ${target}`;
    read(['auth', 'users'], users, advice);
  }
  for (const [section, { ca, certificate, key }] of tls) {
    if (ca !== undefined) readIdentity([...section, 'ca'], ca);
    if (certificate === undefined || key === undefined) continue;
    const [first] = readIdentity([...section, 'certificate'], certificate) ?? [];
    const wanted = 'PEM private key without a passphrase';
    const privateKey = readPem([...section, 'key'], key, createPrivateKey, wanted);
    if (first && privateKey && !first.checkPrivateKey(privateKey)) {
      complain([...section, 'key'], key, 'does not belong to the certificate');
    }
  }
  return problems;
}

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/** @throws Error when the PEM text holds no certificate, or a broken one. */
function readCertificates(pem: string): X509Certificate[] {
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
