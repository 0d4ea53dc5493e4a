/** From checked keys to the configuration of the program: paths, what projects inherit, what must fit together. */

import { resolve } from 'node:path';
import type { Config, EngineConfig, ProjectConfig } from './config.ts';
import type { WrittenPath } from './kinds.ts';
import type { KeyPath, Problem } from './problems.ts';
import type { CheckedEngine, CheckedFile, CheckedProject } from './schema.ts';

/** A file that the configuration names. */
export interface NamedFile {
  readonly key: KeyPath;
  /** Absolute. */
  readonly path: string;
  /** True when the path came from the environment, so that no message may show it. */
  readonly hidden: boolean;
}

/** What must be in the files that the configuration names. */
export type NamedFiles =
  | { readonly kind: 'users'; readonly file: NamedFile }
  | { readonly kind: 'authorities'; readonly file: NamedFile }
  | { readonly kind: 'identity'; readonly certificate: NamedFile; readonly privateKey: NamedFile };

export interface Resolution {
  readonly config: Config;
  readonly files: readonly NamedFiles[];
  readonly problems: readonly Problem[];
}

type Optional<T> = { readonly [K in keyof T]?: T[K] | undefined };

/** @param folder absolute; relative paths of the file start there. */
export function resolveConfig(file: CheckedFile, folder: string): Resolution {
  const problems: Problem[] = [];
  const files: NamedFiles[] = [];
  const complain = (path: KeyPath, message: string) => problems.push({ path, message });

  const absolute = ({ text }: WrittenPath) => resolve(folder, text);
  const absoluteOrNone = (path: WrittenPath | null) => (path === null ? undefined : absolute(path));
  const named = (path: WrittenPath, ...key: KeyPath): NamedFile => ({
    key,
    path: absolute(path),
    hidden: path.hidden,
  });

  /** Looks at the TLS keys of one section as it was written, before anything is inherited. */
  function noteTlsFiles(
    written: Optional<Pick<CheckedEngine, 'ca' | 'certificate' | 'key'>>,
    section: KeyPath,
  ): void {
    const { ca, certificate, key } = written;
    if (ca) files.push({ kind: 'authorities', file: named(ca, ...section, 'ca') });
    if (certificate && key) {
      files.push({
        kind: 'identity',
        certificate: named(certificate, ...section, 'certificate'),
        privateKey: named(key, ...section, 'key'),
      });
    } else if (certificate) {
      complain([...section, 'certificate'], 'needs the key that belongs to it; both or none');
    } else if (key) {
      complain([...section, 'key'], 'needs the certificate that belongs to it; both or none');
    }
  }

  function checkService(
    { login, service }: Pick<CheckedEngine, 'login' | 'service'>,
    section: KeyPath,
  ): void {
    const path = [...section, 'service'];
    if (login === 'service' && service === null) {
      complain(path, 'is missing; login: service needs service: { name, password }');
    } else if (login !== 'service' && service !== null) {
      complain(path, `must only stand together with login: service (login is ${login})`);
    }
  }

  function checkShare(
    share: CheckedFile['cache']['share'],
    login: CheckedEngine['login'],
    path: KeyPath,
    subject = 'everyone with login: forward',
  ): void {
    if (share !== 'everyone' || login !== 'forward') return;
    if (file.cache.engine_permissions_ignored) return;
    complain(
      path,
      `${subject} needs cache.engine_permissions_ignored: true, ` +
        'because users then see answers that the engine might have refused them',
    );
  }

  function resolveEngine({ ca, certificate, key, service, ...rest }: CheckedEngine): EngineConfig {
    return {
      ...rest,
      service: service ?? undefined,
      ca: absoluteOrNone(ca),
      certificate: absoluteOrNone(certificate),
      key: absoluteOrNone(key),
    };
  }

  function resolveProject(name: string, project: CheckedProject): ProjectConfig {
    const path = ['projects', name];
    const { cache: switched, ttl = file.cache.ttl, share = file.cache.share } = project;
    const engine = inheritEngine(project.engine ?? {}, file.engine);
    const { login, service } = project.engine ?? {};
    noteTlsFiles(project.engine ?? {}, [...path, 'engine']);
    // What is inherited as a whole was already told of the section it comes from.
    if (login !== undefined || service !== undefined) checkService(engine, [...path, 'engine']);
    if (project.share !== undefined) {
      checkShare(share, engine.login, [...path, 'share']);
    } else if (login !== undefined) {
      checkShare(share, login, [...path, 'engine', 'login'], 'forward with share: everyone');
    }
    return { cache: switched, ttl, share, engine: resolveEngine(engine) };
  }

  files.push({ kind: 'users', file: named(file.auth.users, 'auth', 'users') });
  noteTlsFiles(file.listen, ['listen']);
  noteTlsFiles(file.engine, ['engine']);
  checkService(file.engine, ['engine']);
  checkShare(file.cache.share, file.engine.login, ['cache', 'share']);
  if (file.cache.max_entry > file.cache.memory) {
    complain(['cache', 'max_entry'], 'must not be larger than cache.memory');
  }

  const { certificate, key, ...listen } = file.listen;
  const { key_secret, ...cache } = file.cache;
  const config: Config = {
    listen: {
      ...listen,
      certificate: absoluteOrNone(certificate),
      key: absoluteOrNone(key),
    },
    auth: { ...file.auth, users: absolute(file.auth.users) },
    engine: resolveEngine(file.engine),
    cache: { ...cache, key_secret: key_secret ?? undefined },
    projects: new Map(
      [...file.projects].map(([name, project]) => [name, resolveProject(name, project)]),
    ),
    limits: file.limits,
    log: file.log,
  };
  return { config, files, problems };
}

/**
 * Fills in what a project leaves out. Certificate and key are inherited as a pair, so that a half is never
 * completed with the other half of another engine; the service account only by a login that uses it.
 */
function inheritEngine(own: Optional<CheckedEngine>, common: CheckedEngine): CheckedEngine {
  const ownPair = own.certificate !== undefined || own.key !== undefined;
  const { certificate = null, key = null } = ownPair ? own : common;
  const login = own.login ?? common.login;
  const inheritedService = login === 'service' ? common.service : null;
  return {
    url: own.url ?? common.url,
    kind: own.kind ?? common.kind,
    login,
    service: own.service === undefined ? inheritedService : own.service,
    timeout: own.timeout ?? common.timeout,
    ca: own.ca === undefined ? common.ca : own.ca,
    certificate,
    key,
  };
}
