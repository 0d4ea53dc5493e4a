/** The files that a configuration names: what is wrong with those that are of no use. */
import { X509Certificate } from 'node:crypto';
import type { Reading } from './kinds.ts';
import { SECRET_MASK } from './problems.ts';

export const READ_ERRORS: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist',
  EACCES: 'cannot be read: permission denied',
  EPERM: 'cannot be read: permission denied',
  EISDIR: 'is a folder',
  NOT_REGULAR: 'is no regular file, which alone can be read again',
};

/** The rest of a sentence that begins with the file. */
export function readErrorText(error: unknown): string {
  const { code = '' } = error as { readonly code?: string };
  return READ_ERRORS[code] ?? `cannot be read${code === '' ? '' : ` (${code})`}`;
}

export const shown = (path: string, { hiddenPaths }: Reading) =>
  hiddenPaths.has(path) ? SECRET_MASK : path;

/** @param parse throws when the file holds none of what is wanted */
export function* readNamed<T>(
  key: string,
  path: string,
  reading: Reading,
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
export function readCertificates(pem: string): readonly X509Certificate[] {
  const blocks = pem.match(PEM_CERTIFICATE) ?? [];
  if (blocks.length === 0) throw new Error('no certificate');
  return blocks.map((block) => new X509Certificate(block));
}
