import { beforeEach, describe, expect, test } from '@jest/globals';
import { mddatasetAnswer, rowsetAnswer } from '../support/answers.ts';
import { discover, execute } from '../support/envelopes.ts';
import { askXmla, shortStatus } from '../support/http-client.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { startTestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const engine = shared(() => startStubEngine(() => {}));
const gateway = shared(() => startTestGateway(settings(OFF)));
let count = 0;

const settings = (cubes: Record<string, 'on' | 'off'>) => ({
  engine: { url: engine.url },
  projects: { Shop: { cubes }, Other: {}, Closed: { cache: 'off', cubes: { Sales: 'on' } } },
});
const OFF = { 'Live [x] Sales': 'off', Costs: 'on' } as const;

/** Asked in the catalog Shop, each time another statement. */
const inShop = (from: string) =>
  execute({
    statement: `SELECT {[Measures].[${(count += 1)}]} ON 0 FROM ${from}`,
    properties: { Catalog: 'Shop' },
  });
const twice = async (body: Buffer, path = '/mdx/xmla') => [
  shortStatus(await askXmla(gateway.url, body, { path })),
  shortStatus(await askXmla(gateway.url, body, { path })),
];
const UNCACHED = ['bypass cache-off', 'bypass cache-off'];
const CACHED = ['miss stored', 'hit'];

beforeEach(async () => {
  await gateway.reload(settings(OFF));
  engine.answerWith(sendXml(mddatasetAnswer()));
});

describe('a statement', () => {
  test.each([
    '[Live [x]] Sales]',
    '[LIVE [X]] SALES] WHERE [Time].[1997]',
    '/* [Costs] */ [Live [x]] Sales]',
    '[Shop].[Live [x]] Sales]',
    '(SELECT [Time].[1997] ON 0 FROM [Live [x]] Sales])',
    'NON VISUAL (SELECT [Time].[1997] ON 0 FROM (SELECT [a] ON 0 FROM [ Live [x]] Sales ]))',
    // Not understood, so that it may be any cube.
    "'Costs'",
    '[Costs] AS [Live [x]] Sales]',
  ])('FROM %s goes to the engine each time', async (from) => {
    expect(await twice(inShop(from))).toEqual(UNCACHED);
  });

  test.each(['[Costs]', 'Sales', '[Live Sales]', '(SELECT [Time].[1997] ON 0 FROM [Sales])'])(
    'FROM %s is cached',
    async (from) => {
      expect(await twice(inShop(from))).toEqual(CACHED);
    },
  );

  test('of the same cube in another project is cached', async () => {
    const query = execute({
      statement: 'SELECT FROM [Live [x]] Sales]',
      properties: { Catalog: 'Other' },
    });
    expect(await twice(query)).toEqual(CACHED);
    expect(await twice(query, '/mdx/xmla/Shop')).toEqual(UNCACHED);
  });

  test('in a catalog that the engine chooses may be one of the cube', async () => {
    const statement = `SELECT FROM [Live [x]] Sales]`;
    // Closed is off for such a query, whatever it asks for.
    await gateway.reload({ ...settings(OFF), projects: { Shop: { cubes: OFF } } });
    expect(await twice(execute({ statement }))).toEqual(UNCACHED);
    expect(await twice(execute({ statement: 'SELECT FROM [Costs]' }))).toEqual(CACHED);
  });

  test('of a cube that is on in a project that is off goes to the engine', async () => {
    const query = execute({
      statement: 'SELECT FROM [Sales]',
      properties: { Catalog: 'Closed' },
    });
    expect(await twice(query)).toEqual(UNCACHED);
  });

  test('whose answer was stored before its cube was switched off goes to the engine', async () => {
    await gateway.reload(settings({}));
    const query = inShop('[Live [x]] Sales]');
    expect(await twice(query)).toEqual(CACHED);
    await gateway.reload(settings(OFF));
    expect(await twice(query)).toEqual(UNCACHED);
  });
});

describe('a Discover', () => {
  beforeEach(() => {
    engine.answerWith(sendXml(rowsetAnswer()));
  });
  const inCatalog = (requestType: string, restrictions: Record<string, string>) =>
    discover({ requestType, restrictions: { CATALOG_NAME: 'Shop', ...restrictions } });

  test.each([
    ['MDSCHEMA_MEASURES', { CUBE_NAME: 'Live [x] Sales' }],
    ['MDSCHEMA_MEASURES', { CUBE_NAME: 'live [X] sales' }],
    ['MDSCHEMA_MEASURES', { CUBE_NAME: '' }],
    ['MDSCHEMA_MEASURES', {}],
    ['MDSCHEMA_CUBES', { BASE_CUBE_NAME: 'Costs' }],
    ['MDSCHEMA_CUBES', { BASE_CUBE_NAME: 'Live [x] Sales', CUBE_NAME: 'Costs' }],
  ] as readonly (readonly [string, Record<string, string>])[])(
    '%s with %j may speak of the cube and goes to the engine',
    async (type, restrictions) => {
      expect(await twice(inCatalog(type, restrictions))).toEqual(UNCACHED);
    },
  );

  test.each([
    ['MDSCHEMA_MEASURES', { CUBE_NAME: 'Costs' }],
    ['DBSCHEMA_CATALOGS', {}],
  ] as readonly (readonly [string, Record<string, string>])[])(
    '%s with %j does not, and is cached',
    async (type, restrictions) => {
      expect(await twice(inCatalog(type, restrictions))).toEqual(CACHED);
    },
  );
});
