import { afterEach, describe, expect, test } from '@jest/globals';
import { ask, begin, sharedBy, startLenientEngine, type Ask } from '../support/lenient-engine.ts';
import { inSession } from '../support/stamped-client.ts';
import type { StubEngine } from '../support/stub-engine.ts';
import { startTestGateway } from '../support/test-gateway.ts';

/** Sessions of requests in other encodings, of long ones, of such that name many, and of such that nobody understands. */

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

describe('a body in another encoding', () => {
  const inAscii = { odd: (text: string) => text.replace('UTF-8', 'us-ascii') };
  const inLatin = { odd: (text: string) => text.replace('UTF-8', 'ISO-8859-1') };
  const type = { headers: { 'content-type': 'text/xml' } };

  test.each([
    ['US-ASCII', inAscii],
    ['ISO-8859-1', inLatin],
  ])('%s reaches no session of another, and changes none but its own', async (_name, odd) => {
    const engine = await lenientEngine();
    const gateway = keep(await startTestGateway(sharedBy(engine.url, 'generic')));
    const [id, bobs] = [
      await begin(gateway),
      await begin(gateway, { user: 'bob', ...odd, ...type }),
    ];
    await ask(gateway, MEMBER, { catalog: 'A', session: inSession(id) });
    const stolen = await ask(gateway, SELECT, {
      user: 'bob',
      session: inSession(id),
      ...odd,
      ...type,
    });
    expect([stolen.status, stolen.shown]).toEqual(['gateway unknown-session', undefined]);

    const asBob = { user: 'bob', catalog: 'A', session: inSession(bobs), ...odd, ...type };
    const first = await ask(gateway, SELECT, asBob);
    expect([first.status, first.shown]).toEqual(['miss stored', 'plain in A']);
    expect((await ask(gateway, SELECT, asBob)).status).toBe('hit');
    await ask(gateway, MEMBER, asBob);
    const carols = await begin(gateway);
    const other = await ask(gateway, SELECT, { catalog: 'A', session: inSession(carols) });
    // It was asked in another encoding, so it is an entry of its own.
    expect([other.status, other.shown]).toEqual(['miss stored', 'plain in A']);
    expect((await ask(gateway, SELECT, asBob)).status).toBe('bypass dirty-session');
    const again = await ask(gateway, SELECT, { catalog: 'A', session: inSession(carols) });
    expect(again.status).toBe('hit');
  });

  test('has entries of its own for each encoding, and for how that is told', async () => {
    const engine = await lenientEngine();
    const gateway = keep(await startTestGateway(sharedBy(engine.url, 'generic')));
    const bare = { odd: (text: string) => text.replace(/<\?xml.*?\?>/, '') };
    const latin = { headers: { 'content-type': 'text/xml; charset=iso-8859-1' } };
    for (const how of [
      type,
      { ...inAscii, ...type },
      { ...inLatin, ...type },
      { ...inLatin, ...latin },
      { ...bare, ...latin },
    ]) {
      expect((await ask(gateway, SELECT, { catalog: 'A', ...how })).status).toBe('miss stored');
      expect((await ask(gateway, SELECT, { catalog: 'A', ...how })).status).toBe('hit');
    }
  });
});

describe('is refused, and no engine sees it:', () => {
  const ids = (count: number) =>
    Array.from({ length: count }, (_, at) => `<a SessionId="${at}"/>`).join('');
  const into = (block: string) => (text: string) =>
    text.replace('<SOAP-ENV:Body>', `<SOAP-ENV:Header>${block}</SOAP-ENV:Header><SOAP-ENV:Body>`);

  test.each<[string, Ask]>([
    ['seventeen sessions in one request', { odd: into(ids(17)) }],
    [
      'seventeen sessions, one of them in the header',
      { odd: into(ids(16)), headers: { 'x-as-sessionid': 'x' } },
    ],
    ['four thousand sessions', { odd: into(ids(4_000)) }],
    ['an id of 4,097 characters', { session: inSession('x'.repeat(4_097)) }],
    ['such an id in the header', { headers: { 'x-as-sessionid': 'x'.repeat(4_097) } }],
    [
      'a long body nested deeper than 64 elements',
      { odd: () => `<x:session xmlns:x="u">${'<x:b>'.repeat(220_000)}` },
    ],
  ])('%s', async (_what, how) => {
    const engine = await lenientEngine();
    const gateway = keep(await startTestGateway(sharedBy(engine.url, 'ssas')));
    const { status, answer } = await ask(gateway, SELECT, how);
    expect([status, answer.status]).toEqual(['gateway bad-request', 400]);
    expect(engine.seen).toEqual([]);
  });

  test('but not sixteen of them, nor an id of 1,024 characters', async () => {
    const engine = await lenientEngine();
    const gateway = keep(await startTestGateway(sharedBy(engine.url, 'ssas')));
    expect((await ask(gateway, SELECT, { odd: into(ids(16)) })).status).toBe(
      'bypass unknown-shape',
    );
    const long = await ask(gateway, SELECT, { session: inSession('x'.repeat(1_024)) });
    expect(long.status).toBe('bypass unknown-session');
  });
});

test('a long request and one that was not understood go to the replica of their session', async () => {
  const [left, right] = [await lenientEngine(), await lenientEngine()];
  const gateway = keep(await startTestGateway(sharedBy([left.url, right.url], 'ssas')));
  for (let turn = 0; turn < 6; turn += 1) {
    const before = left.seen.length;
    const id = await begin(gateway);
    const home = left.seen.length > before ? left : right;
    const session = inSession(id);
    const long = `${SELECT} /*${'x'.repeat(1_100_000)}*/`;
    for (const [statement, how] of [
      [long, {}],
      [SELECT, { odd: (text: string) => text.replace('<Command>', '<Command a="1">') }],
      [SELECT, { odd: (text: string) => text.replace('Envelope>', 'Envelope><!-- -->') }],
      [SELECT, { headers: { 'x-as-sessionid': `${id}, another` } }],
    ] as const) {
      const seen = home.seen.length;
      await ask(gateway, statement, { catalog: 'A', session, ...how });
      expect(home.seen.length).toBe(seen + 1);
    }
  }
});
