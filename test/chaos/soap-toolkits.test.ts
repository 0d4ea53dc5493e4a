import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { DATA_SOURCE_INFO } from '../engine/engine-files.ts';
import { startMondrian, type RunningEngine } from '../engine/mondrian.ts';
import { ensureDebianPackages } from '../support/debian-packages.ts';
import { shortStatus } from '../support/http-client.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** Toolkits that nobody here wrote ask the live engine through the gateway, as a user who may purge. */

const SLOW = 180_000;
const USER = 'Jürgen Schäfer';
const STATEMENT = `WITH MEMBER [Measures].[Erlös ä] AS '[Measures].[Units] * 2'\nSELECT {[Measures].[Erlös ä]} ON COLUMNS FROM [Sales]`;

const folder = fileURLToPath(new URL('../support/soap-toolkits/', import.meta.url));
/** Debian's own interpreter, for which its packages are. */
const PYTHON = '/usr/bin/python3';
const CLIENTS = [
  ['python3-zeep', PYTHON, `${folder}ask.py`, 'zeep'],
  ['libsoap-lite-perl', '/usr/bin/perl', `${folder}ask.pl`],
  ['python3-requests', PYTHON, `${folder}ask.py`, 'requests'],
] as const;

let engine: RunningEngine;
let gateway: TestGateway;

beforeAll(async () => {
  await ensureDebianPackages([
    { name: 'python3-zeep', probe: '/usr/lib/python3/dist-packages/zeep/__init__.py' },
    { name: 'python3-requests', probe: '/usr/lib/python3/dist-packages/requests/__init__.py' },
    { name: 'libsoap-lite-perl', probe: '/usr/share/perl5/SOAP/Lite.pm' },
  ]);
  engine = await startMondrian();
  const settings = { engine: { url: engine.url, kind: 'mondrian' }, auth: { admins: [USER] } };
  gateway = await startTestGateway(settings, {}, [USER]);
}, SLOW);
afterAll(async () => {
  await gateway?.close();
  await engine?.close();
}, SLOW);

interface Told {
  readonly what: string;
  readonly cacheStatus: string | null;
  readonly text: string;
}

async function ask(url: string, [, program, ...script]: (typeof CLIENTS)[number]) {
  const login = [USER, USER.toLowerCase()];
  const args = [...script, url, ...login, STATEMENT, 'Bazaar', DATA_SOURCE_INFO];
  const { stdout } = await promisify(execFile)(program, args, { maxBuffer: 1 << 26 });
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Told);
}

const statuses = (all: readonly Told[]) =>
  all.map(({ what, cacheStatus }) => {
    const headers = cacheStatus === null ? {} : { 'cache-status': cacheStatus };
    return [what, shortStatus({ headers }).replace(/ stored$/, '')];
  });

test.each(CLIENTS.map((client) => [client[0], client] as const))(
  '%s is answered from the cache the second time, in clean sessions, and purges nothing',
  async (_name, client) => {
    const direct = await ask(engine.url, client);
    const before = gateway.events.length;
    const first = await ask(`${gateway.url}/mdx/xmla`, client);
    const second = await ask(`${gateway.url}/mdx/xmla`, client);
    const [found, executed] = direct;
    for (const told of [first, second]) {
      expect([told[0]?.text, told[1]?.text]).toEqual([found?.text, executed?.text]);
    }
    expect(executed?.text).toContain('Erlös ä');
    const passing = { begin: ['begin', 'bypass not-a-query'], end: ['end', 'bypass session'] };
    const of = (status: string) => [
      ['discover', status],
      ['execute', status],
      passing.begin,
      ['in session', status],
      passing.end,
    ];
    expect(statuses(first)).toEqual(of('miss'));
    expect(statuses(second)).toEqual(of('hit'));
    const events = gateway.events.slice(before);
    const answered = events.filter(({ type }) => type === 'xmla-answered');
    // SOAP::Lite asks without a login first.
    const users = answered.flatMap((one) => (one.type === 'xmla-answered' && one.principal) || []);
    expect(new Set(users)).toEqual(new Set([USER]));
    expect(events.filter(({ type }) => type === 'purged' || type === 'login-refused')).toEqual([]);
  },
  SLOW,
);
