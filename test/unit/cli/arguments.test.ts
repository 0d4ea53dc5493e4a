import { describe, expect, test } from '@jest/globals';
import { helpText, helpValue, parseArguments, UsageError } from '../../../src/cli/arguments.ts';

const RIGHT: readonly (readonly [words: string, command: object])[] = [
  ['', { kind: 'serve', config: undefined }],
  ['serve', { kind: 'serve', config: undefined }],
  ['--config a.yaml', { kind: 'serve', config: 'a.yaml' }],
  ['serve --config a.yaml', { kind: 'serve', config: 'a.yaml' }],
  ['--config=a.yaml serve', { kind: 'serve', config: 'a.yaml' }],
  ['--config=-odd.yaml', { kind: 'serve', config: '-odd.yaml' }],
  ['demo', { kind: 'demo', port: undefined }],
  ['demo --once --port 0', { kind: 'demo', once: true, port: 0 }],
  ['demo-engine --port 8080', { kind: 'demo-engine', port: 8080 }],
  ['demo --port=65535', { kind: 'demo', port: 65_535 }],
  ['check --config a.yaml', { kind: 'check', config: 'a.yaml' }],
  ['check --connect --config a.yaml', { kind: 'check', config: 'a.yaml', connect: true }],
  ['hash-password', { kind: 'hash-password', name: undefined }],
  ['hash-password ADMIN', { kind: 'hash-password', name: 'ADMIN' }],
  ['hash-password -- -odd', { kind: 'hash-password', name: '-odd' }],
  ['export-store --config a.yaml', { kind: 'export-store', config: 'a.yaml', output: undefined }],
  [
    'export-store --output b.jsonl --config a.yaml',
    { kind: 'export-store', config: 'a.yaml', output: 'b.jsonl' },
  ],
  ['import-store --config=a.yaml', { kind: 'import-store', config: 'a.yaml', input: undefined }],
  [
    'import-store --config a.yaml --input b.jsonl',
    { kind: 'import-store', config: 'a.yaml', input: 'b.jsonl' },
  ],
  ['--help', { kind: 'help' }],
  ['-h', { kind: 'help' }],
  ['check --help', { kind: 'help', name: 'check' }],
  ['server --help', { kind: 'help' }],
  ['help', { kind: 'help' }],
  ['help purge --json', { kind: 'help', name: 'purge', json: true }],
  ['--version', { kind: 'version' }],
  ['version --json', { kind: 'version', json: true }],
  ['status', { kind: 'status' }],
  ['status --json --url u', { kind: 'status', json: true, url: 'u' }],
  ['purge', { kind: 'purge', name: undefined }],
  ['purge Shop --user A --ca c', { kind: 'purge', name: 'Shop', user: 'A', ca: 'c' }],
  ['purge --password-file f', { kind: 'purge', 'password-file': 'f' }],
  ['explain - --project P --as A', { kind: 'explain', name: '-', project: 'P', as: 'A' }],
  ['explain q --header a:b --header c:d', { kind: 'explain', name: 'q', header: ['a:b', 'c:d'] }],
];

const ALL =
  'serve, demo, demo-engine, check, hash-password, export-store, import-store, status, purge, explain, help, version';
const CONNECTION = '[--url URL] [--user NAME] [--password-file FILE] [--ca FILE] [--json]';
const PASSWORD =
  '--password is not accepted: all users of a machine can see command lines; use --password-file FILE, MDX_GATEWAY_PASSWORD, or type it when it is asked for';
const SEE = 'mdx-gateway --help shows what is allowed';
const WRONG: readonly (readonly [words: string, message: string])[] = [
  ['server', `"server": unknown command; did you mean serve? allowed: ${ALL}`],
  ['a.yaml', `"a.yaml": unknown command; allowed: ${ALL}`],
  ['__proto__', `"__proto__": unknown command; allowed: ${ALL}`],
  ['serve --confg a.yaml', `Unknown option '--confg'; ${SEE}`],
  ['serve --port 80', 'serve does not take --port; allowed: serve [--config FILE]'],
  ['check -c a.yaml', `Unknown option '-c'; ${SEE}`],
  [
    'hash-password --config a',
    'hash-password does not take --config; allowed: hash-password [NAME]',
  ],
  ['demo --no-once', `Unknown option '--no-once'; ${SEE}`],
  ['serve --config', `Option '--config <value>' argument missing; ${SEE}`],
  ['serve --config=', 'serve: --config needs a value'],
  ['demo --port --once', `Option '--port' argument is ambiguous; ${SEE}`],
  ['serve --config a --config b', 'serve: --config is given twice'],
  ['demo --once=yes', `Option '--once' does not take an argument; ${SEE}`],
  ['demo --port 65536', 'demo: --port must be a whole number between 0 and 65535 (got "65536")'],
  ['demo --port 8o', 'demo: --port must be a whole number between 0 and 65535 (got "8o")'],
  ['check', 'check needs --config FILE'],
  ['export-store', 'export-store needs --config FILE'],
  ['import-store --input b.jsonl', 'import-store needs --config FILE'],
  [
    'export-store --config a --input b',
    'export-store does not take --input; allowed: export-store --config FILE [--output FILE]',
  ],
  [
    'import-store b.jsonl',
    'import-store does not take "b.jsonl"; allowed: import-store --config FILE [--input FILE]',
  ],
  ['serve a.yaml', 'serve does not take "a.yaml"; allowed: serve [--config FILE]'],
  [
    'demo-engine --port x',
    'demo-engine: --port must be a whole number between 0 and 65535 (got "x")',
  ],
  ['demo-engine --once', 'demo-engine does not take --once; allowed: demo-engine [--port N]'],
  ['demo x', 'demo does not take "x"; allowed: demo [--once] [--port N]'],
  ['purge A --password', PASSWORD],
  ['purge A --password=secret', PASSWORD],
  ['status Shop', `status does not take "Shop"; allowed: status ${CONNECTION}`],
  ['purge A B', `purge does not take "B"; allowed: purge [PROJECT] ${CONNECTION}`],
  ['purge --project A', `purge does not take --project; allowed: purge [PROJECT] ${CONNECTION}`],
  ['explain', 'explain needs FILE'],
  ['purge --user=', 'purge: --user needs a value'],
  ['help purg', `"purg": unknown command; did you mean purge? allowed: ${ALL}`],
  ['version 1', 'version does not take "1"; allowed: version [--json]'],
  ['hash-password A B', 'hash-password does not take "B"; allowed: hash-password [NAME]'],
];

const split = (words: string) => words.split(' ').filter((word) => word !== '');

describe('the command line', () => {
  test.each(RIGHT)('%s', (words, command) => {
    expect(parseArguments(split(words))).toEqual(command);
  });
});

describe('a wrong command line is told in one line, with what is allowed', () => {
  test.each(WRONG)('%s', (words, message) => {
    expect(() => parseArguments(split(words))).toThrow(new UsageError(message));
  });

  test('even when a word holds a line break', () => {
    expect(() => parseArguments(['a\nb'])).toThrow('"a\\nb": unknown command');
    expect(() => parseArguments(['--a\nb'])).toThrow(/^[^\n]+$/);
  });
});

describe('the help', () => {
  const words = RIGHT.flatMap(([line]) => split(line)).map((word) => word.replace(/=.*/, ''));
  const options = [...new Set(words.filter((word) => word.startsWith('--')))];

  test('tells of every command and every option, in lines that fit', () => {
    const told = helpText();
    expect(options.length).toBeGreaterThan(15);
    expect([...options, ...ALL.split(', ')].filter((word) => !told.includes(word))).toEqual([]);
    expect(told.split('\n').filter((line) => line.length > 100)).toEqual([]);
  });

  test('of one command tells of its own options alone', () => {
    expect(helpText('check')).toBe(`  mdx-gateway check --config FILE [--connect]
      report what is wrong with a configuration, or print the one in effect;
      --connect also says whether engines, Redis, storage and what is watched answer
`);
    const ofPurge = options.filter((word) => helpText('purge').includes(`${word} `));
    expect(ofPurge.sort()).toEqual(['--ca', '--json', '--password-file', '--url', '--user']);
    expect(helpValue('purge').commands).toEqual([
      { name: 'purge', takes: `[PROJECT] ${CONNECTION}`, does: expect.any(Array) },
    ]);
    expect(helpValue().commands.map(({ name }) => name)).toEqual(ALL.split(', '));
  });
});
