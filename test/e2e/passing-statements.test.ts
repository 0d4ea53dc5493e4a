import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { redisHealth } from '../integration/cache/gateways.ts';
import { faultAnswer, mddatasetAnswer, response as answerOf } from '../support/answers.ts';
import { startBlackHole, type BlackHole } from '../support/black-hole.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, portOf, shortStatus, until, type Answer } from '../support/http-client.ts';
import '../support/patient-redis.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import {
  gate,
  sendXml,
  startStubEngine,
  type StubAnswer,
  type StubEngine,
} from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/**
 * A client that was told the end of a statement that changes data must never see data of before again, whoever
 * of the gateways it asks. Faults change nothing; whoever may not purge changes nothing for others.
 */

const LEASE = '100ms';

let redis: RedisServer;
let way: BlackHole;
let engine: StubEngine;
/** Reaches Redis by a way that can be cut. */
let changing: TestGateway;
let other: TestGateway;
let data = '';
let count = 0;
/** What the engine answers to all that is no query. */
let onChange: StubAnswer;
/** The changing gateway waits here before others have surely forgotten. */
let patience = Promise.resolve();
let waitsForOthers = 0;
let waitsBegun = 0;

const DONE = answerOf('Execute', 'empty', '');

beforeAll(async () => {
  redis = await startRedis();
  way = await startBlackHole(redis.port);
  engine = await startStubEngine((response, seen) => {
    const isQuery = seen.body.includes('>SELECT') && !seen.body.includes(';');
    const answer = isQuery ? sendXml(mddatasetAnswer({ members: [data] })) : onChange;
    return answer(response, seen);
  });
  const sleep = async (milliseconds: number) => {
    waitsForOthers += 1;
    waitsBegun += 1;
    await Promise.all([delay(milliseconds), patience]);
    waitsForOthers -= 1;
  };
  changing = await gatewayOf(`redis://127.0.0.1:${way.port}`, { sleep });
  other = await gatewayOf(redis.url, {});
});
afterAll(async () => {
  await changing?.close();
  await other?.close();
  await engine?.close();
  await way?.close();
  await redis?.close();
});
beforeEach(() => {
  onChange = sendXml(DONE);
});

function gatewayOf(url: string, parts: { sleep?: (milliseconds: number) => Promise<void> }) {
  return startTestGateway(
    {
      engine: { url: engine.url },
      cache: { lease: LEASE, redis: { url }, purge_on_refresh_cube: true },
    },
    parts,
  );
}

type Catalog = 'A' | 'B';
/** Each test has two catalogs of its own. */
const nameOf = (catalog: Catalog) => `${catalog} ${count}`;
const ask = ({ url }: TestGateway, catalog: Catalog) =>
  askXmla(
    url,
    execute({ statement: 'SELECT FROM [Sales]', properties: { Catalog: nameOf(catalog) } }),
  );
const dataIn = ({ text }: Answer) => /data \d+/.exec(text)?.[0];

/** Asks until the cache answers, and returns that answer's data. */
async function cached(gateway: TestGateway, catalog: Catalog): Promise<string | undefined> {
  for (;;) {
    const answer = await ask(gateway, catalog);
    if (shortStatus(answer) === 'hit') return dataIn(answer);
  }
}

/** All that both gateways hold, each answered from the cache. */
const allCached = async () => ({
  A: [await cached(changing, 'A'), await cached(other, 'A')],
  B: [await cached(changing, 'B'), await cached(other, 'B')],
});

/** Fills both gateways and changes the data behind them. */
async function filled(): Promise<{ old: string; now: string }> {
  count += 1;
  const [old, now] = [`data ${count}0`, `data ${count}1`];
  data = old;
  await allCached();
  data = now;
  return { old, now };
}

/** What each gateway answers to the first request. */
const firstAnswers = async (catalog: Catalog) => [
  dataIn(await ask(changing, catalog)),
  dataIn(await ask(other, catalog)),
];

const AS = 'http://schemas.microsoft.com/analysisservices/2003/engine';
const statement = (text: string, catalog?: Catalog) =>
  execute({
    statement: text,
    properties: catalog === undefined ? {} : { Catalog: nameOf(catalog) },
  });
function command(name: string, catalog: Catalog): Buffer {
  const content = `<${name} xmlns="${AS}"><Object><DatabaseID>${nameOf(catalog)}</DatabaseID></Object></${name}>`;
  const text = statement('', catalog).toString();
  return Buffer.from(text.replace('<Statement></Statement>', content));
}

const OF_ONE_CATALOG = [
  ['REFRESH CUBE', () => statement('REFRESH CUBE [Sales]', 'A')],
  ['REFRESH CUBE behind a comment', () => statement('/* all */ Refresh\tCube [Sales]', 'A')],
  ['UPDATE CUBE', () => statement('UPDATE CUBE [Sales] SET ([a]) = 1', 'A')],
  ['ALTER CUBE', () => statement('ALTER CUBE [Sales] UPDATE DIMENSION [d]', 'A')],
  ['a second statement', () => statement('SELECT FROM [X]; UPDATE CUBE [Sales] SET x = 1', 'A')],
] as const;
const OF_EVERYTHING = [
  ['COMMIT', () => statement('COMMIT TRANSACTION', 'A')],
  ['ClearCache', () => command('ClearCache', 'A')],
  ['Process', () => command('Process', 'A')],
  ['Alter', () => command('Alter', 'A')],
  ['a Batch', () => command('Batch', 'A')],
  ['a script of a tabular model', () => statement('{ "refresh": {} }', 'A')],
  ['UPDATE CUBE that names no catalog', () => statement('UPDATE CUBE [Sales] SET ([a]) = 1')],
] as const;

const sendChange = (body: Buffer, user = 'ADMIN') => askXmla(changing.url, body, { user });

// First of all: what breaks off below is purged again some seconds later, in the middle of whatever is asked then.
test('a statement in passing of somebody who may not purge purges nothing', async () => {
  const { old } = await filled();
  for (const [, bodyOf] of [...OF_ONE_CATALOG, ...OF_EVERYTHING]) {
    expect((await sendChange(bodyOf(), 'alice')).text).toBe(DONE);
  }
  expect(await allCached()).toEqual({ A: [old, old], B: [old, old] });
});

describe('a statement in passing of somebody who may purge', () => {
  test.each(OF_ONE_CATALOG)(
    '%s purges its catalog at both gateways and leaves others',
    async (_name, bodyOf) => {
      const { old, now } = await filled();
      const answer = await sendChange(bodyOf());
      expect([answer.status, answer.text]).toEqual([200, DONE]);
      expect(await firstAnswers('A')).toEqual([now, now]);
      expect(await cached(changing, 'B')).toBe(old);
      expect(await cached(other, 'B')).toBe(old);
    },
  );

  test.each(OF_EVERYTHING)('%s purges everything at both gateways', async (_name, bodyOf) => {
    const { now } = await filled();
    const answer = await sendChange(bodyOf());
    expect([answer.status, answer.text]).toEqual([200, DONE]);
    expect(await firstAnswers('A')).toEqual([now, now]);
    expect(await firstAnswers('B')).toEqual([now, now]);
  });

  test.each([
    ['in one piece', [DONE]],
    ['in pieces', [DONE.slice(0, 40), DONE.slice(40, 90), DONE.slice(90)]],
  ])('is told its end %s only when the purge holds everywhere', async (_how, pieces) => {
    const { now } = await filled();
    onChange = (response) => {
      response.writeHead(200, { 'content-type': 'text/xml; charset=utf-8' });
      for (const piece of pieces) response.write(piece);
      response.end();
    };
    const door = gate();
    patience = door.opened;
    let ended = false;
    // Not those that are under way: a purge of before may still be dropping entries.
    const waitsBefore = waitsBegun;
    const told = sendChange(statement('COMMIT', 'A')).then((answer) => {
      ended = true;
      return answer;
    });
    try {
      await until(() => ended || waitsBegun > waitsBefore);
      // Others are asked meanwhile: time enough for an end that comes too early.
      for (let turn = 0; turn < 20; turn += 1) await ask(other, 'B');
      expect(ended).toBe(false);
    } finally {
      door.open();
      patience = Promise.resolve();
    }
    expect((await told).text).toBe(DONE);
    expect(await firstAnswers('A')).toEqual([now, now]);
  });

  test('that the engine refuses with a Fault purges nothing', async () => {
    const { old } = await filled();
    for (const status of [200, 500]) {
      onChange = sendXml(faultAnswer(), { status });
      const answer = await sendChange(command('Process', 'A'));
      expect([answer.status, answer.text]).toEqual([status, faultAnswer()]);
    }
    expect(await allCached()).toEqual({ A: [old, old], B: [old, old] });
  });

  const BROKEN: readonly (readonly [how: string, answer: StubAnswer])[] = [
    [
      'breaks off',
      (response) => {
        response.writeHead(200, { 'content-type': 'text/xml', 'content-length': '5000' });
        response.write(DONE, () => response.destroy());
      },
    ],
    [
      'breaks off in a Fault',
      (response) => {
        response.writeHead(200, { 'content-type': 'text/xml', 'content-length': '5000' });
        response.write(faultAnswer().slice(0, -30), () => response.destroy());
      },
    ],
    ['never begins', (response) => void response.destroy()],
    ['is no XML', sendXml('done')],
    ['is a Fault and more', sendXml(`${faultAnswer()}<more/>`)],
    ['is an error of a proxy', sendXml('<html/>', { status: 502 })],
  ];
  test.each(BROKEN)('whose answer %s purges', async (_how, answer) => {
    const { now } = await filled();
    onChange = answer;
    await sendChange(statement('COMMIT', 'A')).catch(() => {});
    expect(await firstAnswers('A')).toEqual([now, now]);
  });

  test('purges also when its client has gone before the answer', async () => {
    const { now } = await filled();
    const [asked, release] = [gate(), gate()];
    onChange = async (response, seen) => {
      asked.open();
      await release.opened;
      await sendXml(DONE)(response, seen);
    };
    changing.events.length = 0;
    const body = statement('COMMIT', 'A');
    const socket = connect(portOf(changing.url), '127.0.0.1', () => {
      socket.write(
        `POST /mdx/xmla HTTP/1.1\r\nhost: x\r\nauthorization: ${basic('ADMIN')}\r\n` +
          `content-type: text/xml\r\ncontent-length: ${body.length}\r\n\r\n${body.toString()}`,
      );
    });
    socket.on('error', () => {});
    await asked.opened;
    socket.destroy();
    release.open();
    await until(() => changing.events.some(({ type }) => type === 'purged'));
    expect(await firstAnswers('A')).toEqual([now, now]);
  });

  test('while Redis is away is told that the purge failed, which stays owed', async () => {
    const { now } = await filled();
    try {
      await way.set('refuse');
      way.cut();
      const refused = await sendChange(statement('COMMIT', 'A'));
      expect([refused.status, shortStatus(refused)]).toEqual([503, 'gateway purge-failed']);
      expect(refused.text).toContain('Fault>');
      expect(refused.headers['retry-after']).toBeDefined();
      expect((await redisHealth(changing)).purges_owed).toBeGreaterThan(0);
      expect(dataIn(await ask(changing, 'A'))).toBe(now);
    } finally {
      await way.set('forward');
    }
    while ((await redisHealth(changing)).purges_owed > 0) await ask(changing, 'A');
    await until(() => waitsForOthers === 0);
    expect(await cached(changing, 'A')).toBe(now);
    // The other gateway forgets within its lease what was purged late.
    while ((await cached(other, 'A')) !== now);
  });
});
