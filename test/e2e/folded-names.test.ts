import { describe, expect, test } from '@jest/globals';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus, type Answer } from '../support/http-client.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

/** An engine whose collation ignores width and kana, as that of SSAS does: all these are one catalog, and one cube. */
const CATALOGS = ['Sales', 'Ｓales', ' ＳＡＬＥＳ', 'Sa\u00adles'];
const KANA = ['ライブ', 'らいぶ', 'ﾗｲﾌﾞ'];

const engine = shared(() =>
  startStubEngine((...asked) => sendXml(mddatasetAnswer({ members: [`data ${data}`] }))(...asked)),
);
const gateway = shared(() =>
  startTestGateway({
    engine: { url: `${engine.url}/{project}` },
    projects: { Shop: { cubes: { Live: 'off', らいぶ: 'off' } }, Closed: { cache: 'off' } },
  }),
);
let data = 1;

const ask = (catalog: string, cube = 'Cube', path = '/mdx/xmla') =>
  askXmla(
    gateway.url,
    execute({ statement: `SELECT FROM [${cube}]`, properties: { Catalog: catalog } }),
    { path },
  );
const told = ({ text }: Answer) => /data \d+/.exec(text)?.[0];

describe.each([
  ['catalog', (name: string) => ask(name)],
  ['project', (name: string) => ask('', 'Cube', `/mdx/xmla/${encodeURIComponent(name)}`)],
])('an answer that was asked for under one spelling of a %s', (_what, askIn) => {
  test.each(CATALOGS.flatMap((stored) => CATALOGS.map((purged) => [stored, purged] as const)))(
    '%j is never given after a purge of %j',
    async (stored, purged) => {
      await askIn(stored);
      expect(shortStatus(await askIn(stored))).toBe('hit');
      data += 1;
      const { status } = await send(gateway.url, {
        path: `/mdx/xmla/${encodeURIComponent(purged)}/clearCache`,
        headers: { authorization: basic('ADMIN') },
      });
      expect(status).toBe(200);
      expect(told(await askIn(stored))).toBe(`data ${data}`);
    },
  );
});

describe('a cube that is off', () => {
  test.each([
    ...['Live', 'Ｌive', 'ＬＩＶＥ', 'Li\u00adve', ...KANA].map((cube) => ['Shop', cube] as const),
    ...['Ｓhop', 'ＳＨＯＰ', 'Sh\u200bop'].map((catalog) => [catalog, 'Live'] as const),
    ['Ｃlosed', 'Any'] as const,
  ])('is asked of the engine each time: in %j the cube %j', async (catalog, cube) => {
    const answers = [await ask(catalog, cube), await ask(catalog, cube)];
    expect(answers.map(shortStatus)).toEqual(['bypass cache-off', 'bypass cache-off']);
  });

  test('leaves others alone', async () => {
    const answers = [await ask('Ｓhop', 'Ｌively'), await ask('Ｓhop', 'Ｌively')];
    expect(answers.map(shortStatus)).toEqual(['miss stored', 'hit']);
  });
});
