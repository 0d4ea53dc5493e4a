import { describe, expect, test } from '@jest/globals';
import { FOLDER, mistakes } from '../../config/fake-files.ts';

const CACHE_KEYS =
  'ttl, refresh_ahead, stale_if_error, memory, max_entry, share, engine_permissions_ignored, client_control, purge_on_refresh_cube, functions, volatile, lease, key_secret, purge, redis';
const TTL = 'must be a duration such as 12h, 30m or 45s, between 1s and 30d';

const NO_YAML: readonly (readonly [yaml: string, line: string])[] = [
  ['cache:\n  ttl: 1h\n  ttl: 2h', 'line 3, column 3: this key stands twice in its mapping'],
  [
    'cache: {',
    'line 1, column 9: the indentation does not fit, or a bracket or brace is not closed',
  ],
  ['cache:\n\tttl: 1h', 'line 2, column 1: a tab cannot be used for indentation; use spaces'],
  ['log: {}\n---\nlog: {}', 'line 2, column 1: only one YAML document is allowed'],
  ['log: !mine {}', 'line 1, column 6: this tag is not allowed'],
  ['log: !!set {}', 'line 1, column 6: this tag is not allowed'],
  ['%YAML 1.1\n---\nlog: {}', 'line 1, column 1: the directive %YAML may only say 1.2'],
  ['log: &here {}', 'log: line 1, column 12: aliases and anchors are not allowed'],
  ['log: *hunter2', 'log: line 1, column 6: aliases and anchors are not allowed'],
  ['&k log: {}', 'log: line 1, column 4: aliases and anchors are not allowed'],
  ['? [a]\n: 1', 'line 1, column 3: a key must be a plain word or a quoted text'],
  [
    'log: { level: @info }',
    'line 1, column 15: a value that begins with this character must stand in quotes',
  ],
  ['log: { level: info: }', 'line 1, column 15: this is not YAML'],
];

const NO_ENVIRONMENT: readonly (readonly [yaml: string, line: string])[] = [
  [
    'engine: { url: "${ENGINE_URL}" }',
    'engine.url: the environment variable ENGINE_URL is not set; set it, or give a default: ${ENGINE_URL:-default}',
  ],
  [
    'auth: { admins: ["${__proto__}"] }',
    'auth.admins[0]: the environment variable __proto__ is not set; set it, or give a default: ${__proto__:-default}',
  ],
  [
    'engine: { url: "http://${ENGINE-HOST}/" }',
    'engine.url: holds ${ without a whole ${NAME}, ${NAME:-default} or ${file:PATH}; for the two characters themselves write $${',
  ],
  ['"${X}": {}', '["${X}"]: a key takes nothing from the environment or a file'],
  ['"${file:x}": {}', '["${file:x}"]: a key takes nothing from the environment or a file'],
  [
    'engine: { url: "${file:}" }',
    'engine.url: holds ${ without a whole ${NAME}, ${NAME:-default} or ${file:PATH}; for the two characters themselves write $${',
  ],
  ['cache: { key_secret: "${file:secret}" }', 'cache.key_secret: the file secret does not exist'],
];

describe('what is no YAML, or refers to no variable, is told in one line that says where', () => {
  test.each([...NO_YAML, ...NO_ENVIRONMENT])('%s', (yaml, line) => {
    expect(mistakes({ yaml })).toEqual([line]);
  });
});

describe('values from the environment keep to the rules of the key', () => {
  test.each([
    ['listen: { port: "${V}" }', '-1', 'listen.port: must be a whole number between 0 and 65535'],
    ['listen: { port: "${V}" }', '0x10', 'listen.port: must be a whole number between 0 and 65535'],
    ['listen: { port: "${V}" }', ' 80', 'listen.port: must be a whole number between 0 and 65535'],
    ['cache: { ttl: "${V}" }', '', `cache.ttl: ${TTL}`],
    ['cache: { ttl: "${V}h" }', '1h, memory: 1', `cache.ttl: ${TTL}`],
    [
      'cache: { engine_permissions_ignored: "${V}" }',
      'constructor',
      'cache.engine_permissions_ignored: must be true or false',
    ],
    [
      'auth: { admins: "${V}" }',
      '[MALLORY]',
      'auth.admins: must be a list, each item a user name: 1 to 255 bytes without colon and control characters, no white space at either end, not beginning with #',
    ],
    ['cache: "${V}"', '{ ttl: 1h }', `cache: must be a mapping with keys of ${CACHE_KEYS}`],
    [
      'engine: { service: "${V}" }',
      'x',
      'engine.service: must be a mapping with keys of name, password',
    ],
  ])('%s with %j', (yaml, V, line) => {
    const got =
      yaml.includes('admins') || /(cache|service): "/.test(yaml) ? 'a text' : '(a secret)';
    expect(mistakes({ yaml, env: { V } })).toEqual([`${line} (got ${got})`]);
  });

  test('a default from the file is shown like any other value', () => {
    expect(mistakes({ yaml: 'listen: { port: "${V:-many}" }' })).toEqual([
      'listen.port: must be a whole number between 0 and 65535 (got "many")',
    ]);
  });

  test('what a variable holds is not looked at for references again', () => {
    expect(mistakes({ yaml: 'log: { level: "${A}" }', env: { A: '${B}', B: 'info' } })).toEqual([
      'log.level: must be one of trace, debug, info, warn, error, silent (got (a secret))',
    ]);
  });
});

describe('the configuration file itself', () => {
  const file = `${FOLDER}/gateway.yaml`;

  test.each([
    [{ yaml: '', files: { [file]: 'ENOENT' } }, 'does not exist'],
    [{ yaml: '', files: { [file]: 'EACCES' } }, 'cannot be read: permission denied'],
    [{ yaml: '', files: { [file]: 'EISDIR' } }, 'is a folder'],
    [{ yaml: Uint8Array.of(0x6c, 0xff) }, 'is not UTF-8 text'],
    [{ yaml: '#'.repeat(1024 * 1024 + 1) }, 'is larger than 1MiB'],
  ])('%#: must be readable, small and UTF-8', (wrong, line) => {
    expect(mistakes(wrong)).toEqual([line]);
  });

  test('cannot exhaust the parser by nesting', () => {
    for (const depth of [20, 50_000]) {
      const [line, ...more] = mistakes({ yaml: '['.repeat(depth) + ']'.repeat(depth) });
      expect(line).toMatch(/line 1, column \d+: the nesting is too deep$/);
      expect(more).toEqual([]);
    }
  });
});
