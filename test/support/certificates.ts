import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Certificate {
  /** Paths of PEM files. */
  readonly certificate: string;
  readonly key: string;
  readonly pem: string;
}

export interface Authority extends Certificate {
  /** Makes a certificate of 127.0.0.1 and localhost. */
  issue(commonName: string): Certificate;
  remove(): void;
}

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

/** A certificate authority of a test's own, made by openssl. */
export function makeAuthority(): Authority {
  const folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-ca-'));
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'pipe' });
  const at = (name: string): Certificate => ({
    certificate: join(folder, `${name}.pem`),
    key: join(folder, `${name}.key`),
    get pem() {
      return readFileSync(join(folder, `${name}.pem`), 'utf8');
    },
  });
  const own = at('ca');
  openssl(
    ...['req', '-x509', ...NEW_KEY, '-keyout', own.key, '-out', own.certificate],
    ...['-subj', '/CN=Test Authority', '-days', '2'],
  );
  return {
    certificate: own.certificate,
    key: own.key,
    pem: own.pem,
    issue(commonName) {
      const made = at(commonName);
      openssl(
        ...['req', '-x509', ...NEW_KEY, '-keyout', made.key, '-out', made.certificate],
        ...['-CA', own.certificate, '-CAkey', own.key, '-subj', `/CN=${commonName}`, '-days', '2'],
        ...['-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost'],
        ...['-addext', 'basicConstraints=critical,CA:FALSE'],
      );
      return made;
    },
    remove: () => rmSync(folder, { recursive: true }),
  };
}
