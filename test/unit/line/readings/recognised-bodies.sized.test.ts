import { describe, expect, test } from '@jest/globals';
import { ENGINE_KINDS } from '../../../../src/common/engine-kinds.ts';
import { asksTheSame } from '../../../../src/line/gaps.ts';
import { createReadings } from '../../../../src/line/readings.ts';
import { circumstancesOf } from '../../../../src/line/circumstances.ts';
import { understand, type UnderstoodRequest } from '../../../../src/line/understand.ts';
import { discover, execute } from '../../../support/envelopes.ts';
import { excelRequests } from '../../../support/excel-session.ts';
import { fuzzSeed, mutate, randomFrom } from '../../../support/mutate.ts';
import { sizes } from '../../../support/sizes.ts';
import { learntBodies } from './learnt-bodies.ts';

const ENGINE = {
  traits: ENGINE_KINDS.mondrian,
  settings: { headers: [], delegation: 'forward' } as never,
  engine: { id: 'engine' },
  volatile: [],
  addressee: { project: undefined, query: [] },
};
const CIRCUMSTANCES = circumstancesOf({ 'content-type': 'text/xml' }, ENGINE);
const read = (body: Buffer): Promise<UnderstoodRequest> => understand(CIRCUMSTANCES, body);

const SESSION = 'qy3p8o1v5zk2';
const GUID = '0F8FAD5B-D9CB-469F-A165-70867728950E';
const IDS = {
  DbpropMsmdActivityID: GUID,
  DbpropMsmdRequestID: '{7c9e6679-7425-40de-944b-e07fc1f90ae7}',
  DbpropMsmdCurrentActivityID: GUID.toLowerCase(),
};
const OWN = { DbpropMsmdActivityID: GUID, ClientProcessID: '4711' };
const session = { kind: 'in', id: SESSION } as const;
const number = '<ClientProcessID>4711</ClientProcessID>';
const activity = `<DbpropMsmdActivityID>${GUID}</DbpropMsmdActivityID>`;

/** What is learnt, as it comes from clients; and what only looks like it, which must not be. */
const SEEDS: readonly Buffer[] = [
  ...excelRequests(SESSION).map(({ body }) => body),
  execute({
    statement: 'SELECT FROM [Sales]',
    properties: { Catalog: 'FoodMart', ...IDS },
    session,
  }),
  execute({ statement: 'SELECT FROM [Sales]', properties: { ...IDS, Catalog: 'FoodMart' } }),
  discover({ requestType: 'MDSCHEMA_CUBES', properties: { Catalog: 'FoodMart', ...IDS }, session }),
  discover({ requestType: 'DISCOVER_KEYWORDS' }),
];
/** What looks like a gap, put in as it stands. */
function withText(place: string, put: string): Buffer {
  const body = execute({ statement: 'SELECT FROM [Sales]', properties: { Catalog: 'FoodMart' } });
  return Buffer.from(body.toString().replace(place, `${put}${place}`));
}
const TRAPS: ReadonlyMap<string, Buffer> = new Map([
  ['a property in CDATA of another', withText('FoodMart', `<![CDATA[/*${activity}*/]]>`)],
  ['a session in a comment of the statement', withText('SELECT', `/* SessionId="${SESSION}" */`)],
  ['a property in a comment', withText('<Catalog', `<!--${activity}-->`)],
  ['a property in a processing instruction', withText('<Catalog', `<?x ${activity}?>`)],
  ['a number in CDATA of another property', withText('FoodMart', `<![CDATA[/*${number}*/]]>`)],
  ['a number in a comment', withText('<Catalog', `<!--${number}-->`)],
  ['a number in another property', withText('<Catalog', `<X>${number}</X>`)],
  ['a property in another property', withText('<Catalog', `<X>${activity}</X>`)],
  ['a session of another element', withText('<Properties', `<Y SessionId="${SESSION}"/>`)],
  [
    'a property that stands twice',
    execute({ statement: 'SELECT FROM [Sales]', properties: twice('Timeout', GUID), session }),
  ],
]);

const BODIES = [...SEEDS, ...TRAPS.values()];

function twice(name: string, value: string) {
  return [
    { name, value },
    { name, value },
  ];
}

const LETTERS = '0123456789abcdefABCDEF-{}gzGZ_<"\' &;\0é';

/** Mostly letters that may stand in an id. */
function otherId(length: number, random: (below: number) => number): string {
  const most = random(4) === 0 ? LETTERS.length : random(2) === 0 ? 22 : 16;
  return Array.from({ length }, () => LETTERS.charAt(random(most))).join('');
}

/** Mostly a number that an id of a process may be. */
function otherNumber(random: (below: number) => number): string {
  const length = random(10) === 0 ? random(13) : 1 + random(7);
  const most = random(20) === 0 ? LETTERS.length : 10;
  return Array.from({ length }, () => LETTERS.charAt(random(most))).join('');
}

/** The body with ids of another request, some of them damaged, of another length or exchanged; now and then more. */
function variant(body: Buffer, random: (below: number) => number): Buffer {
  const text = body.toString('latin1').replace(/(?<=[">])[\w{}-]{8,40}(?=["<])/g, (found) => {
    const kind = random(12);
    if (kind === 0) return found;
    const length = kind === 1 ? found.length + random(3) - 1 : found.length;
    return /[0-9]/.test(found) ? otherId(length, random) : found;
  });
  const numbered = text.replace(/(?<=>)[0-9]{1,7}(?=<)/g, (found) =>
    random(3) === 0 ? otherNumber(random) : found,
  );
  const changed = Buffer.from(numbered, 'latin1');
  return random(3) === 0 ? mutate(changed, random) : changed;
}

describe('a body that is recognised', () => {
  test('asks what the full reading says it asks, whatever it was made from', async () => {
    const seed = fuzzSeed();
    const random = randomFrom(seed);
    const bodies = learntBodies(CIRCUMSTANCES);
    let learnt = 0;
    for (const body of BODIES) {
      if (await bodies.learn(body)) learnt += 1;
    }
    const counts = {
      seed,
      runs: sizes.recognisedMutations,
      learnt,
      recognised: 0,
      other: 0,
    };
    for (let run = 0; run < counts.runs; run += 1) {
      const body = variant(BODIES[random(BODIES.length)] ?? Buffer.alloc(0), random);
      const recognised = bodies.find(body);
      if (recognised === undefined) {
        counts.other += 1;
        continue;
      }
      counts.recognised += 1;
      const asked = await read(body);
      const same = asksTheSame(recognised.reading.asked, asked);
      const id = asked.session.kind === 'in' ? asked.session.id : undefined;
      if (same && id === recognised.sessionId) continue;
      expect({ seed, run, body: body.toString('latin1'), id }).toEqual('what was recognised');
    }
    console.log(`recognised bodies: ${JSON.stringify(counts)}`);
    // A test that reaches only one side of the question asks nothing.
    expect(counts.recognised).toBeGreaterThan(counts.runs / 20);
    expect(counts.other).toBeGreaterThan(counts.runs / 10);
    expect(counts.learnt).toBeGreaterThan(30);
  });
});

describe('what only looks like an id is not taken for one', () => {
  test.each([...TRAPS])('%s', async (_name, body) => {
    const bodies = learntBodies(CIRCUMSTANCES);
    await bodies.learn(body);
    const other = Buffer.from(body.toString().replace(/(?<=[">])(?:0F|qy|47)/, '00'));
    expect(other).not.toEqual(body);
    const asked = await read(other);
    // A request that passes the cache may say the same with another comment.
    expect(asked.bypass === undefined && bodies.find(other)).toBeFalsy();
    expect(asksTheSame((await bodies.read(other)).asked, asked)).toBe(true);
    // It is kept by all of its bytes, where it names no session.
    const isKept = (await bodies.read(body)).recognised !== undefined;
    expect(isKept || asked.sessionIds.length > 0).toBe(true);
  });
});

test('nothing is kept of a body that names a session outside of its gap, and no mistake is hidden', async () => {
  const body = Buffer.from(
    execute({ statement: 'SELECT FROM [Sales]', session })
      .toString()
      .replace(/(<\/[\w-]+:Header>)/, `<x sessionid="other"/>$1`),
  );
  expect((await read(body)).sessionIds).toHaveLength(2);
  expect(await learntBodies(CIRCUMSTANCES).learn(body)).toBe(false);
  const readings = createReadings();
  const ownTurn = () => Promise.reject(new TypeError('a mistake'));
  const asking = { body, circumstances: CIRCUMSTANCES, owner: 'alice', ownTurn };
  await expect(readings.read(asking)).rejects.toThrow('a mistake');
});

describe('what is learnt of one request', () => {
  test.each([
    ['other ids of its own', { ...IDS, DbpropMsmdActivityID: GUID.replaceAll('0', '1') }, SESSION],
    ['another session', IDS, SESSION.replaceAll('q', 'x')],
    ['the id of another process', { ...IDS, ClientProcessID: '1234' }, SESSION],
  ])('recognises the next one with %s', async (_name, properties, id) => {
    const ask = (ids: Record<string, string>, of: string) =>
      execute({
        statement: 'SELECT FROM [Sales]',
        properties: { Catalog: 'FoodMart', ClientProcessID: '4711', ...ids },
        session: { kind: 'in', id: of },
      });
    const body = ask(IDS, SESSION);
    const bodies = learntBodies(CIRCUMSTANCES);
    expect(await bodies.learn(body)).toBe(true);
    const found = bodies.find(ask(properties, id));
    expect(found?.sessionId).toBe(id);
    expect(found && asksTheSame(found.reading.asked, await read(body))).toBe(true);
    expect(bodies.find(ask({ ...properties, Catalog: 'Other' }, id))).toBeUndefined();
  });

  test.each([
    ['one more', { ...OWN, Timeout: '3600' }],
    ['one less', { DbpropMsmdActivityID: GUID }],
    ['another', { DbpropMsmdActivityID: GUID, Timeout: '4711' }],
    ['one in another letter case', { DbpropMsmdActivityID: GUID, clientprocessid: '4711' }],
  ])('is not recognised with %s of the names whose values do not count', async (_name, own) => {
    const ask = (properties: Record<string, string>) =>
      execute({
        statement: 'SELECT FROM [Sales]',
        properties: { Catalog: 'FoodMart', ...properties },
      });
    const body = ask(OWN);
    const bodies = learntBodies(CIRCUMSTANCES);
    expect(await bodies.learn(body)).toBe(true);
    expect(bodies.find(ask({ ...OWN, ClientProcessID: '1234' }))).toBeDefined();
    expect(bodies.find(ask(own))).toBeUndefined();
    expect(asksTheSame(await read(body), await read(ask(own)))).toBe(false);
  });
});
