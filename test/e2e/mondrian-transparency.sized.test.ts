import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { checkedFetch } from '../support/checked-requests.ts';
import { isChanging, KNOWN_FUNCTIONS } from '../../src/xmla/mdx/known-functions.ts';
import { generatedStatements } from '../engine/generated-statements.ts';
import { startMondrian, type RunningEngine } from '../engine/mondrian.ts';
import {
  BYPASSED_REQUESTS,
  CACHEABLE_REQUESTS,
  REFUSED_REQUESTS,
  type NamedRequest,
} from '../engine/requests.ts';
import { discover, execute } from '../support/envelopes.ts';
import { configFolder, listening, runMain } from '../support/gateway-process.ts';
import { askXmla, send, shortStatus, until } from '../support/http-client.ts';
import { sizes, strided } from '../support/sizes.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** Java starts, and computes crossjoins of megabytes. */
const SLOW = 120_000;
const SEED = 2_026;

let engine: RunningEngine;
let gateway: TestGateway;

beforeAll(async () => {
  engine = await startMondrian({ isBrief: true });
  gateway = await startTestGateway({ engine: { url: engine.url, kind: 'mondrian' } });
}, SLOW);

afterAll(async () => {
  await gateway?.close();
  await engine?.close();
}, SLOW);

const spread = <T>(all: readonly T[]) => strided(all, sizes.mondrianStride);

const ask = ({ headers, body }: NamedRequest) =>
  send(gateway.url, {
    method: 'POST',
    headers: { ...headers, authorization: basic('ADMIN') },
    body,
  });
const askEngine = ({ headers, body }: NamedRequest) =>
  send(engine.url, { method: 'POST', path: new URL(engine.url).pathname, headers, body });

const engineRequests = () => gateway.events.filter(({ type }) => type === 'engine-answered').length;

const refusals = () =>
  gateway.events.flatMap((event) => (event.type === 'not-stored' ? [event.reason] : []));

describe('a client sees what the engine would have sent', () => {
  test('there are at least 80 distinct requests', () => {
    const distinct = new Set(
      CACHEABLE_REQUESTS.map(({ body }) => Buffer.from(body).toString('base64')),
    );
    console.log(`${distinct.size} distinct cacheable requests`);
    expect(distinct.size).toBe(CACHEABLE_REQUESTS.length);
    expect(distinct.size).toBeGreaterThanOrEqual(80);
  });

  test.each(spread(CACHEABLE_REQUESTS).map((request) => [request.name, request] as const))(
    '%s: engine, first answer and hit are equal byte for byte',
    async (_name, request) => {
      const direct = await askEngine(request);
      const first = await ask(request);
      const second = await ask(request);

      expect(first.headers['cache-status']).toMatch(/^mdx-gateway; fwd=miss/);
      // A long one may still be inspected: then the second waits for that.
      expect(second.headers['cache-status']).toMatch(
        /^mdx-gateway; hit; ttl=\d+; detail=(memory|coalesced)$/,
      );
      expect(first.body.equals(direct.body)).toBe(true);
      expect(second.body.equals(direct.body)).toBe(true);
      expect([first.headers['content-type'], second.headers['content-type']]).toEqual([
        direct.headers['content-type'],
        direct.headers['content-type'],
      ]);
      expect([direct.status, first.status, second.status]).toEqual([200, 200, 200]);
      expect(direct.body.length).toBeGreaterThanOrEqual(request.atLeastBytes);
    },
    SLOW,
  );

  test('some answers are larger than 4 MB', () => {
    expect(CACHEABLE_REQUESTS.filter(({ atLeastBytes }) => atLeastBytes >= 4_000_000)).not.toEqual(
      [],
    );
  });
});

describe('what the engine knows', () => {
  test('of functions is known here too, or was taken out', async () => {
    const body = discover({ requestType: 'MDSCHEMA_FUNCTIONS' });
    const { text } = await send(engine.url, {
      method: 'POST',
      path: new URL(engine.url).pathname,
      headers: { 'content-type': 'text/xml; charset=utf-8' },
      body,
    });
    const all = [...text.matchAll(/<FUNCTION_NAME>([^<]+)</g)].map(([, name = '']) => name);
    const names = new Set(all.filter((name) => /^[a-z]\w*$/i.test(name)));
    expect(names.size).toBeGreaterThan(220);
    const isKnown = (name: string) => KNOWN_FUNCTIONS.has(name.toLowerCase()) || isChanging(name);
    expect([...names].filter((name) => !isKnown(name))).toEqual([]);
  });

  test('is nothing that check --connect would have to tell of', async () => {
    const folder = await configFolder();
    const settings = { engine: { url: engine.url, kind: 'mondrian' } };
    const check = runMain(['check', '--connect', '--config', folder.write(settings)]);
    const { exit, stdout } = await check.ended;
    folder.remove();
    expect(exit).toBe(0);
    expect(stdout).toMatch(/\nengine \S+: up: it answers as XMLA\nRedis: off/);
  });

  test(
    'makes a hit of every statement of a grammar',
    async () => {
      const statements = spread(generatedStatements(SEED, 300));
      const found = [];
      for (const statement of statements) {
        found.push([
          statement.name,
          shortStatus(await ask(statement)),
          shortStatus(await ask(statement)),
        ]);
      }
      console.log(`${statements.length} generated statements, seed ${SEED}`);
      expect(found).toEqual(statements.map(({ name }) => [name, 'miss stored', 'hit']));
    },
    SLOW,
  );
});

test(
  'the shipped example for Mondrian fits this engine, and keeps answers of queries without a catalog',
  async () => {
    const example = readFileSync(
      new URL('../../config/example-mondrian.yaml', import.meta.url),
      'utf8',
    );
    const ports = {
      'http://127.0.0.1:8080/': `${new URL(engine.url).origin}/`,
      'port: 7080': 'port: 0',
    };
    const folder = await configFolder();
    const text = Object.entries(ports).reduce((written, [port, other]) => {
      expect(written).toContain(port);
      return written.replace(port, other);
    }, example);
    const running = runMain(['serve', '--config', folder.writeText(text)]);
    try {
      const url = await listening(running);
      for (const body of [
        execute({ statement: 'SELECT FROM [Sales]' }),
        discover({ requestType: 'DBSCHEMA_CATALOGS' }),
      ]) {
        const statuses = [await askXmla(url, body), await askXmla(url, body)].map(shortStatus);
        expect(statuses).toEqual(['miss stored', 'hit']);
      }
    } finally {
      running.kill('SIGTERM');
      await running.ended;
      folder.remove();
    }
  },
  SLOW,
);

describe('what must not be cached reaches the engine every time', () => {
  test.each(
    spread(BYPASSED_REQUESTS).map((request) => [request.reason, request.name, request] as const),
  )(
    '%s: %s',
    async (reason, _name, request) => {
      for (let asks = 0; asks < 2; asks += 1) {
        const before = engineRequests();
        const answer = await ask(request);
        expect(answer.headers['cache-status']).toBe(`mdx-gateway; fwd=bypass; detail=${reason}`);
        expect(engineRequests()).toBe(before + 1);
      }
    },
    SLOW,
  );

  test.each(
    spread(REFUSED_REQUESTS).map((request) => [request.reason, request.name, request] as const),
  )(
    'its answer is not stored (%s): %s',
    async (reason, _name, request) => {
      for (let asks = 0; asks < 2; asks += 1) {
        const [before, refused] = [engineRequests(), refusals().length];
        const answer = await ask(request);
        // A long answer is under way before anybody knows whether it will be stored.
        expect([`mdx-gateway; fwd=miss; detail=${reason}`, 'mdx-gateway; fwd=miss']).toContain(
          answer.headers['cache-status'],
        );
        // Its client does not wait until it is inspected.
        await until(() => refusals().length > refused);
        expect(refusals().slice(refused)).toEqual([reason]);
        expect(engineRequests()).toBe(before + 1);
      }
    },
    SLOW,
  );
});

function queryOf(catalog: string): NamedRequest {
  const found = CACHEABLE_REQUESTS.find(
    (request) => request.catalog === catalog && request.soapAction.includes('Execute'),
  );
  if (found === undefined) throw new Error(`no query of ${catalog}`);
  return found;
}

describe('a purge', () => {
  test('of one catalog leaves the hits of the other', async () => {
    const [bazaar, other] = [queryOf('Bazaar'), queryOf('BazaarTest')];
    await ask(bazaar);
    await ask(other);
    const purged = await checkedFetch(`${gateway.url}/mdx/xmla/Bazaar/clearCache`, {
      headers: { authorization: basic('ADMIN') },
    });
    expect(await purged.text()).toBe('Bazaar Cache has been cleared.');
    expect((await ask(bazaar)).headers['cache-status']).toMatch(/fwd=miss/);
    expect((await ask(other)).headers['cache-status']).toMatch(/; hit;/);
  });
});
