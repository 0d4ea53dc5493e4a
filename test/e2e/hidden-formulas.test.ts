import { beforeEach, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../../src/common/clock.ts';
import { tryConnections } from '../../src/compose/try-connections.ts';
import { faultAnswer, response, rowsetAnswer } from '../support/answers.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { load } from '../unit/config/fake-files.ts';
import { shared } from '../support/opened.ts';

const engine = shared(() => startStubEngine(() => {}));

beforeEach(() => {
  engine.seen.length = 0;
});

type Row = Readonly<Record<string, string>>;
const functionRow = (name: string, origin = '1'): Row => ({ FUNCTION_NAME: name, ORIGIN: origin });
const measure = (cube: string, name: string, EXPRESSION = ''): Row => ({
  CUBE_NAME: cube,
  MEASURE_UNIQUE_NAME: `[Measures].[${name}]`,
  EXPRESSION,
});

function rowset(rows: readonly Row[]): string {
  const columns = (row: Row) =>
    Object.entries(row).map(([name, text]) => `<${name}>${text}</${name}>`);
  return response(
    'Discover',
    'rowset',
    rows.map((row) => `<row>${columns(row).join('')}</row>`).join(''),
  );
}

/** By request type, and where it is asked by catalog, by both. */
function answering(rows: Readonly<Record<string, readonly Row[]>>): void {
  engine.answerWith((answer, request) => {
    const text = request.body.toString();
    const type = /<RequestType>(\w+)</.exec(text)?.[1] ?? '';
    const catalog = /<CATALOG_NAME>([^<]*)</.exec(text)?.[1];
    const found = rows[catalog === undefined ? type : `${type} ${catalog}`];
    const isFirst = type === 'DISCOVER_DATASOURCES';
    sendXml(isFirst ? rowsetAnswer() : found ? rowset(found) : faultAnswer())(answer, request);
  });
}

async function check(more: object = {}) {
  const { kind, ...settings } = { kind: 'mondrian', ...more };
  const config = load({ yaml: JSON.stringify({ engine: { url: engine.url, kind }, ...settings }) });
  const parts = {
    clock: systemClock,
    random: Math.random,
    randomBytes,
    sleep: (ms: number) => sleep(ms),
  };
  const { lines, ok } = await tryConnections(config, { ...parts, emit() {} });
  const own = lines.filter((line) => !/^(?:engine|Redis|storage)/.test(line));
  return { own, ok };
}

const CATALOGS = [{ CATALOG_NAME: 'Shop' }, { CATALOG_NAME: 'HR' }];
const HARMLESS = {
  MDSCHEMA_FUNCTIONS: ['Filter', '*', 'IS EMPTY', '_CaseTest', 'Now', 'CurrentDateString'].map(
    (name) => functionRow(name),
  ),
  DBSCHEMA_CATALOGS: CATALOGS,
  'MDSCHEMA_MEASURES Shop': [
    measure('Sales', 'Units'),
    measure('Sales', 'Double', '2 * [Measures].[Units]'),
  ],
  'MDSCHEMA_SETS Shop': [
    { CUBE_NAME: 'Sales', SET_NAME: 'Best', EXPRESSION: 'Head([a].Members, 3)' },
  ],
  'MDSCHEMA_MEASURES HR': [measure('Staff', 'Now', 'IIf([a] = &quot;Now&quot;, 1, 2)')],
  'MDSCHEMA_SETS HR': [],
};

test('an engine that hides nothing costs no line', async () => {
  answering(HARMLESS);
  expect(await check()).toEqual({ own: [], ok: true });
});

test('user-defined functions, and cubes whose formulas hide clock or user, are named', async () => {
  answering({
    ...HARMLESS,
    MDSCHEMA_FUNCTIONS: [
      ...HARMLESS.MDSCHEMA_FUNCTIONS,
      ...[
        functionRow('Today'),
        functionRow('Today'),
        functionRow('Filter', '2'),
        functionRow('Own.Fn', '2'),
      ],
    ],
    'MDSCHEMA_MEASURES Shop': [
      measure('Sales', 'Age', 'DateDiff(&quot;d&quot;, [a], Now())'),
      measure('Sales', 'Mine', 'UserName'),
      measure('Stock', 'Old', 'Today()'),
    ],
    'MDSCHEMA_SETS HR': [
      { CUBE_NAME: 'Staff', SET_NAME: 'Me', EXPRESSION: 'StrToSet(CustomData())' },
    ],
  });
  const remedy =
    'where that changes by time or user, projects.NAME.cubes: { CUBE: off } keeps it out of the cache';
  const cubes = [
    `cube Sales of Shop: hides: [Measures].[Age] (volatile), [Measures].[Mine] (volatile); ${remedy}`,
    `cube Stock of Shop: hides: [Measures].[Old] (calls Today); ${remedy}`,
    `cube Staff of HR: hides: Me (volatile); ${remedy}`,
  ];
  const declare =
    'user-defined; put those that read neither clock, user nor server into cache.functions';
  expect(await check()).toEqual({
    own: [`functions Today, Filter, Own.Fn: pass: ${declare}`, ...cubes],
    ok: true,
  });
  const declared = await check({ cache: { functions: ['today', 'Own.Fn'] } });
  expect(declared.own).toEqual([`functions Filter: pass: ${declare}`, cubes[0], cubes[2]]);
});

test('an engine that does not answer these is still up', async () => {
  answering({});
  expect(await check()).toEqual({
    own: [
      `functions of ${engine.url}: unknown: it does not answer MDSCHEMA_FUNCTIONS (status 200)`,
      `formulas of ${engine.url}: unknown: it does not answer DBSCHEMA_CATALOGS (status 200)`,
    ],
    ok: true,
  });
});

test('an engine of many projects is asked for each that is configured, and one that is shared once', async () => {
  answering(HARMLESS);
  const url = `${engine.url}/{project}`;
  await check({ projects: { One: { engine: { url } }, Two: { engine: { url } }, Other: {} } });
  const asked = engine.seen.filter(({ body }) => body.includes('MDSCHEMA_FUNCTIONS'));
  expect(asked.map((one) => one.url).sort()).toEqual(['/xmla', '/xmla/One', '/xmla/Two']);
});
