import { execFileSync } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse, parseAllDocuments } from 'yaml';

const DEPLOY = fileURLToPath(new URL('../../deploy', import.meta.url));

export interface ComposeService {
  readonly image: string;
  readonly user?: string;
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly healthcheck: { readonly test: readonly string[] };
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  /** SOURCE:PLACE:MODE, where SOURCE is an absolute path or the name of a volume. */
  readonly volumes?: readonly string[];
  readonly tmpfs?: readonly string[];
  readonly secrets?: readonly { readonly source: string }[];
  readonly ports?: readonly string[];
  readonly networks?: Readonly<Record<string, unknown>>;
  readonly mem_limit: string;
  readonly read_only: boolean;
  readonly cap_drop: readonly string[];
  readonly security_opt: readonly string[];
  readonly restart: string;
}

export interface ComposeFile {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
}

/**
 * What docker-compose makes of the compose file in a copy of the folder deploy, with all profiles.
 * @throws when the file is not valid for it
 */
export function readCompose(folder: string): ComposeFile {
  const profiles = ['demo', 'monitoring'].flatMap((name) => ['--profile', name]);
  const options = { cwd: folder, encoding: 'utf8', env: { PATH: process.env['PATH'] } } as const;
  const text = execFileSync('docker-compose', [...profiles, 'config'], options);
  // It writes a dollar sign as the file has to.
  return parse(text.replaceAll('$$', '$')) as ComposeFile;
}

export function copyDeploy(folder: string): void {
  cpSync(DEPLOY, folder, {
    recursive: true,
    filter: (path) => !path.endsWith('/secrets') && !path.endsWith('/.env'),
  });
}

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

/** What kubectl makes of a folder below deploy/kubernetes. @param copy a copy of deploy */
export function renderKubernetes(copy: string, folder: string): Manifest[] {
  const place = join(copy, 'kubernetes', folder);
  const file = join(place, 'kustomization.yaml');
  // Debian's kubectl knows folders under their former key alone; the present ones take it too.
  const text = readFileSync(file, 'utf8').replace(
    /^resources:\n {2}- (\.\..*)$/m,
    'bases: [$1]\nresources:',
  );
  writeFileSync(file, text);
  const rendered = execFileSync('kubectl', ['kustomize', place], {
    encoding: 'utf8',
    stdio: 'pipe',
  });
  return parseAllDocuments(rendered).map((document) => document.toJS() as Manifest);
}
