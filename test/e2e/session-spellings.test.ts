import { afterEach, describe, expect, test } from '@jest/globals';
import { ask, begin, sharedBy, startLenientEngine, type Ask } from '../support/lenient-engine.ts';
import { inSession } from '../support/stamped-client.ts';
import type { StubEngine } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** An engine may know one session by several names. What is done under one of them counts under all. */

const MEMBER = "CREATE SESSION MEMBER [Sales].[Measures].[Mine] AS '1'";
const SELECT = 'SELECT FROM [Sales]';

const open: { close(): Promise<void> }[] = [];
function keep<T extends { close(): Promise<void> }>(one: T): T {
  open.push(one);
  return one;
}
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
});

const lenientEngine = async (): Promise<StubEngine> => keep(await startLenientEngine());

/** Sees that what was made in a session is shown in it alone, and that no other is dirty. */
async function expectDirty(gateway: TestGateway, id: string, bobs: string, how: Ask = {}) {
  const own = await ask(gateway, SELECT, { catalog: 'A', session: inSession(id), ...how });
  expect([own.status, own.shown]).toEqual(['bypass dirty-session', 'made in A']);
  const other = await ask(gateway, SELECT, {
    catalog: 'A',
    user: 'bob',
    session: inSession(bobs),
    ...how,
  });
  // His is clean still.
  expect([other.status, other.shown]).toEqual(['miss stored', 'plain in A']);
}

describe('what is made in a session counts', () => {
  test.each([
    ['in another letter case', (id: string) => id.toUpperCase()],
    ['in braces', (id: string) => `{${id}}`],
    ['between blanks', (id: string) => ` ${id} `],
  ])('when its id is spelt %s', async (_how, spelt) => {
    const engine = await lenientEngine();
    const gateway = keep(await startTestGateway(sharedBy(engine.url, 'ssas')));
    const [id, bobs] = [await begin(gateway), await begin(gateway, { user: 'bob' })];
    const made = await ask(gateway, MEMBER, { catalog: 'A', session: inSession(spelt(id)) });
    expect(made.status).toBe('bypass unknown-session');
    await expectDirty(gateway, id, bobs);
  });

  test('when the project is spelt otherwise', async () => {
    const engine = await lenientEngine();
    const url = engine.url.replace('/xmla', '/{project}/xmla');
    const gateway = keep(await startTestGateway(sharedBy(url, 'ssas')));
    const [id, bobs] = [
      await begin(gateway, { path: '/mdx/xmla/P' }),
      await begin(gateway, { user: 'bob', path: '/mdx/xmla/P' }),
    ];
    await ask(gateway, MEMBER, { catalog: 'A', session: inSession(id), path: '/mdx/xmla/p' });
    await expectDirty(gateway, id, bobs, { path: '/mdx/xmla/P' });
  });

  test('when another project leads to the same engine', async () => {
    const engine = await lenientEngine();
    const again = [engine.url, engine.url.replace('127.0.0.1', 'localhost')];
    const more = { projects: { P: { engine: { url: again } } } };
    const gateway = keep(await startTestGateway(sharedBy(engine.url, 'ssas', more)));
    const [id, bobs] = [await begin(gateway), await begin(gateway, { user: 'bob' })];
    await ask(gateway, MEMBER, { catalog: 'A', session: inSession(id), path: '/mdx/xmla/P' });
    await expectDirty(gateway, id, bobs);
  });

  test.each([
    [
      'the addresses',
      (url: string) => sharedBy([url, url.replace('127.0.0.1', 'localhost')], 'ssas'),
    ],
    ['the kind', (url: string) => sharedBy(url, 'mondrian')],
  ])('when %s of the engine were others for a while', async (_what, meanwhile) => {
    const engine = await lenientEngine();
    const gateway = keep(await startTestGateway(sharedBy(engine.url, 'ssas')));
    const [id, bobs] = [await begin(gateway), await begin(gateway, { user: 'bob' })];
    await gateway.reload(meanwhile(engine.url));
    await ask(gateway, MEMBER, { catalog: 'A', session: inSession(id) });
    await gateway.reload(sharedBy(engine.url, 'ssas'));
    await expectDirty(gateway, id, bobs);
  });

  test.each([
    ['twice', (id: string) => ({ 'x-as-sessionid': [id, 'another'] })],
    ['in one line with another', (id: string) => ({ 'X-AS-SessionID': `${id} , another` })],
    ['with underscores', (id: string) => ({ X_AS_SessionID: id })],
    ['with other signs', (id: string) => ({ 'x.as.sessionid': id })],
    ['in braces', (id: string) => ({ 'x-as-sessionid': `{${id}}` })],
  ])('when the header names it %s', async (_how, headers) => {
    const engine = await lenientEngine();
    const gateway = keep(await startTestGateway(sharedBy(engine.url, 'ssas')));
    const [id, bobs] = [await begin(gateway), await begin(gateway, { user: 'bob' })];
    const made = await ask(gateway, MEMBER, { catalog: 'A', headers: headers(id) });
    expect(made.status).toMatch(/^bypass/);
    await expectDirty(gateway, id, bobs);
  });
});

test('a session is not moved to another catalog by another spelling unnoticed', async () => {
  const engine = await lenientEngine();
  const gateway = keep(await startTestGateway(sharedBy(engine.url, 'ssas')));
  const [id, bobs] = [await begin(gateway), await begin(gateway, { user: 'bob' })];
  await ask(gateway, SELECT, { catalog: 'B', session: inSession(id.toUpperCase()) });
  const own = await ask(gateway, SELECT, { session: inSession(id) });
  expect([own.status, own.shown]).toEqual(['bypass dirty-session', 'plain in B']);
  expect((await ask(gateway, SELECT, { user: 'bob', session: inSession(bobs) })).shown).toBe(
    'plain in A',
  );
});

test('a cacheable request names its session in the usual spelling, whichever it came in', async () => {
  const engine = await lenientEngine();
  const gateway = keep(await startTestGateway(sharedBy(engine.url, 'ssas')));
  const id = await begin(gateway);
  const asked = await ask(gateway, SELECT, {
    catalog: 'A',
    headers: { x_as_sessionid: ` ${id} ` },
  });
  expect(asked.status).toBe('miss stored');
  const { headers } = engine.seen.at(-1) ?? {};
  expect([headers?.['x-as-sessionid'], headers?.['x_as_sessionid']]).toEqual([id, undefined]);
});

test('who asks for a session token in any spelling is not answered from the cache', async () => {
  const engine = await lenientEngine();
  const gateway = keep(await startTestGateway(sharedBy(engine.url, 'ssas')));
  await ask(gateway, SELECT, { catalog: 'A' });
  for (const name of ['X-AS-GetSessionToken', 'X_AS_GetSessionToken']) {
    const asked = await ask(gateway, SELECT, { catalog: 'A', headers: { [name]: 'true' } });
    expect(asked.status).toBe('bypass session');
  }
});
