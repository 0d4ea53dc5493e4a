import { afterEach, expect, test } from '@jest/globals';
import type { EngineKind } from '../../src/common/engine-kinds.ts';
import { discover, execute } from '../support/envelopes.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import { askStamped, beginSession, inSession } from '../support/stamped-client.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { asToolkit, type Toolkit } from '../support/toolkits.ts';

let engine: SessionEngine;
let gateway: TestGateway;
afterEach(async () => {
  await gateway.close();
  await engine.close();
});

const LITE: Toolkit = {
  typed: ['RequestType', 'Statement', 'RestrictionList', 'PropertyList', 'Catalog'],
  type: 'xsd:string',
  nil: false,
};
const ZEEP: Toolkit = { typed: [], type: '', nil: true };
const XMLA = 'urn:schemas-microsoft-com:xml-analysis';

test.each<[string, Toolkit, string, EngineKind]>([
  ['SOAP::Lite', LITE, '#', 'mondrian'],
  ['SOAP::Lite', LITE, '#', 'ssas'],
  ['zeep', ZEEP, ':', 'mondrian'],
  ['zeep', ZEEP, ':', 'ssas'],
])(
  'what %s writes hits the second time, in a session too, and of a purger purges nothing',
  async (_name, toolkit, mark, kind) => {
    engine = await startSessionEngine({ kind });
    gateway = await startTestGateway({
      engine: { url: engine.url, kind, login: 'none' },
      cache: { share: 'user' },
    });
    const ask = async (method: 'Discover' | 'Execute', plain: Buffer) => {
      const headers = { soapaction: `"${XMLA}${mark}${method}"` };
      const body = asToolkit(plain, toolkit);
      return (await askStamped(gateway.url, body, { user: 'ADMIN', headers })).status;
    };
    const properties = { Catalog: 'Sales', Format: '' };
    const cubes = { requestType: 'MDSCHEMA_CUBES', properties };
    const query = { statement: 'SELECT FROM [Sales]', properties };
    for (const status of ['miss stored', 'hit']) {
      expect(await ask('Discover', discover(cubes))).toBe(status);
      expect(await ask('Execute', execute(query))).toBe(status);
      const id = await beginSession(gateway.url, { user: 'ADMIN', properties, toolkit });
      expect(await ask('Execute', execute({ ...query, session: inSession(id) }))).toBe(status);
      // An empty statement keeps a session alive.
      const kept = { statement: '', properties, session: inSession(id) };
      expect(await ask('Execute', execute(kept))).toBe('bypass not-a-query');
      expect(await ask('Execute', execute({ ...query, session: inSession(id) }))).toBe('hit');
    }
    // Written as others write it, it is another question.
    expect((await askStamped(gateway.url, execute(query), { user: 'ADMIN' })).status).toBe(
      'miss stored',
    );
    expect(gateway.events.filter(({ type }) => type === 'purged')).toEqual([]);
  },
);
