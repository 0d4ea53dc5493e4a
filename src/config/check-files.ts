/** Whether the files that the configuration names can be used. */

import { createPrivateKey, X509Certificate } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { isAbsolute, relative, sep } from 'node:path';
import { SECRET_MASK } from './problems.ts';
import type { Problem } from './problems.ts';
import type { NamedFile, NamedFiles } from './resolve-config.ts';

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

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/** @throws Error when the PEM text holds no certificate, or a broken one. */
function readCertificates(pem: string): X509Certificate[] {
  const blocks = pem.match(PEM_CERTIFICATE) ?? [];
  if (blocks.length === 0) throw new Error('no certificate');
  return blocks.map((block) => new X509Certificate(block));
}

const shownPath = (file: NamedFile) => (file.hidden ? SECRET_MASK : file.path);

interface FileChecks {
  readonly readFile: ReadFile;
  /** Absolute; where the operator stands, for commands in messages. */
  readonly workingFolder: string;
}

/** Reads every file once and tells what is wrong with each. */
export function checkFiles(
  namedFiles: readonly NamedFiles[],
  { readFile, workingFolder }: FileChecks,
): readonly Problem[] {
  const problems: Problem[] = [];
  const complain = (file: NamedFile, message: string): undefined => {
    problems.push({ path: file.key, message: `${shownPath(file)} ${message}` });
  };

  function read(file: NamedFile, advice?: (problem: string) => string): string | undefined {
    try {
      return new TextDecoder().decode(readFile(file.path));
    } catch (error) {
      const problem = readErrorText(error);
      return complain(file, advice === undefined ? problem : advice(problem));
    }
  }

  function readPem<T>(file: NamedFile, parse: (pem: string) => T, wanted: string): T | undefined {
    const pem = read(file);
    if (pem === undefined) return undefined;
    try {
      return parse(pem);
    } catch {
      return complain(file, `holds no ${wanted}`);
    }
  }

  const readIdentity = (file: NamedFile) => readPem(file, readCertificates, 'PEM certificate');
  const readKey = (file: NamedFile): KeyObject | undefined =>
    readPem(file, createPrivateKey, 'PEM private key without a passphrase');

  for (const named of namedFiles) {
    switch (named.kind) {
      case 'users':
        read(named.file, (problem) =>
          problem === 'does not exist'
            ? `does not exist; make it with: ${makeUsersCommand(named.file, workingFolder)}`
            : problem,
        );
        break;
      case 'authorities':
        readIdentity(named.file);
        break;
      case 'identity': {
        const [certificate] = readIdentity(named.certificate) ?? [];
        const key = readKey(named.privateKey);
        if (certificate && key && !certificate.checkPrivateKey(key)) {
          complain(named.privateKey, 'does not belong to the certificate');
        }
        break;
      }
    }
  }
  return problems;
}

function makeUsersCommand(file: NamedFile, workingFolder: string): string {
  const target = file.hidden ? 'FILE' : shellPath(file.path, workingFolder);
  return `mdx-gateway hash-password NAME >> ${target}`;
}

/** The path as one word of a shell, short when it lies below the working folder. */
function shellPath(path: string, workingFolder: string): string {
  const below = relative(workingFolder, path);
  const outside = below === '..' || below.startsWith(`..${sep}`) || isAbsolute(below);
  const shortest = outside ? path : `./${below}`;
  return /^[\w./-]+$/.test(shortest) ? shortest : `'${shortest.replaceAll("'", `'\\''`)}'`;
}
