import { readFileSync } from 'node:fs';

/** Authorities that are trusted, and a certificate with its key, as paths of PEM files. */
export type PemFiles = Readonly<Partial<Record<'ca' | 'certificate' | 'key', string | undefined>>>;

/** As options of node:tls. @throws Error when one cannot be read */
export const readPemFiles = ({ ca, certificate, key }: PemFiles) => ({
  ca: read(ca),
  cert: read(certificate),
  key: read(key),
});

const read = (path: string | undefined) => (path === undefined ? path : readFileSync(path));
