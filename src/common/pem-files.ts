import { readFileSync } from 'node:fs';

export type PemFiles = Readonly<Partial<Record<'ca' | 'certificate' | 'key', string | undefined>>>;

/** Options of node:tls. @throws Error when a file cannot be read */
export const readPemFiles = ({ ca, certificate, key }: PemFiles) => ({
  ca: read(ca),
  cert: read(certificate),
  key: read(key),
});

const read = (path: string | undefined) => (path === undefined ? path : readFileSync(path));
