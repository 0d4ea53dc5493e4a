import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import {
  renderConfigReference,
  renderDefaultYaml,
} from '../../../../scripts/generate-config-reference.ts';
import type { Config } from '../../../../src/config/config.ts';
import { loadConfig } from '../../../../src/config/load-config.ts';
import { fakeReadFile } from '../fake-files.ts';
import { CERTIFICATE, PRIVATE_KEY } from '../pem-samples.ts';

const root = new URL('../../../../', import.meta.url);
const shipped = (path: string) => readFileSync(new URL(path, root), 'utf8');

const ENVIRONMENT = {
  ENGINE_URL: 'http://engine.example/xmla',
  REDIS_URL: 'rediss://gateway:pw@redis.example:6379/0',
  REDIS_PASSWORD: 'pw',
  KEY_SECRET: '0'.repeat(64),
  ENCRYPTION_KEY: '1'.repeat(64),
  POSTGRES_URL: 'postgres://gateway:pw@db.example:5432/gateway',
};

/** The files that the examples name, where they would lie on a server. */
const NAMED_FILES = {
  '/app/config/users.htpasswd': '',
  '/etc/mdx-gateway/users.htpasswd': '',
  '/etc/mdx-gateway/tls/gateway.pem': CERTIFICATE,
  '/etc/mdx-gateway/tls/gateway.key': PRIVATE_KEY,
  '/etc/mdx-gateway/tls/company-ca.pem': CERTIFICATE,
};

function loadShipped(name: string, env: Readonly<Record<string, string>> = ENVIRONMENT): Config {
  const file = `config/${name}`;
  return loadConfig({
    file,
    env,
    workingFolder: '/app',
    readFile: fakeReadFile({ ...NAMED_FILES, [`/app/${file}`]: shipped(file) }),
  });
}

describe('config/', () => {
  const names = readdirSync(new URL('config/', root)).filter((name) => name.endsWith('.yaml'));

  test('holds the default and the examples', () => {
    expect(names).toEqual(
      expect.arrayContaining([
        'default.yaml',
        'example-docker.yaml',
        'example-kylin-redis.yaml',
        'example-mondrian.yaml',
        'example-redis-sentinel.yaml',
      ]),
    );
  });

  test.each(names)('%s passes the schema', (name) => {
    expect(loadShipped(name).listen.port).toBeGreaterThan(0);
  });

  test('default.yaml is the same as no file at all', () => {
    const withoutFile = loadConfig({
      file: undefined,
      env: {},
      workingFolder: '/app/config',
      readFile: fakeReadFile(NAMED_FILES),
    });
    expect(loadShipped('default.yaml', {})).toEqual(withoutFile);
  });

  test('example-docker.yaml listens on every address and takes the environment', () => {
    const { listen, engine, cache } = loadShipped('example-docker.yaml', {
      ...ENVIRONMENT,
      PORT: '9000',
    });
    expect(listen).toMatchObject({ host: '0.0.0.0', port: 9000 });
    expect(engine).toMatchObject({
      url: ['http://engine.example/xmla'],
      login: 'forward',
    });
    expect(cache.redis.url).toEqual([ENVIRONMENT.REDIS_URL]);
  });

  test('example-kylin-redis.yaml needs its secrets and shares no answer between users', () => {
    expect(() => loadShipped('example-kylin-redis.yaml', {})).toThrow(/REDIS_URL is not set/);
    const { cache, engine, projects } = loadShipped('example-kylin-redis.yaml');
    const shares = [cache.share, ...[...projects.values()].map(({ share }) => share)];
    expect(new Set(shares)).toEqual(new Set(['user']));
    expect(engine.login).toBe('forward');
  });
});

describe('made from the schema by scripts/generate-config-reference.ts, and up to date:', () => {
  test('docs/CONFIGURATION.md', () => {
    expect(shipped('docs/CONFIGURATION.md')).toBe(renderConfigReference());
  });

  test('config/default.yaml', () => {
    expect(shipped('config/default.yaml')).toBe(renderDefaultYaml());
  });

  test('the reference tells of every key of the configuration', () => {
    const reference = renderConfigReference();
    // What was fitted, which is no key.
    const { memory: _, ...config } = loadShipped('default.yaml', {});
    const paths = Object.entries(config).flatMap(([section, keys]) =>
      section === 'projects'
        ? ['cache', 'ttl', 'share', 'engine'].map((key) => `projects.NAME.${key}`)
        : Object.keys(keys as object).map((key) => `${section}.${key}`),
    );
    expect(paths.length).toBeGreaterThan(30);
    expect(paths.filter((path) => !reference.includes(`| \`${path}\` |`))).toEqual([]);
  });
});
