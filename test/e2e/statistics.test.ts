import { describe, expect, test } from '@jest/globals';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send } from '../support/http-client.ts';
import { withoutRequestId } from '../support/request-id.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const QUERY = execute({ statement: 'SELECT FROM [Sales]' });
const VIEWERS = { auth: { viewers: ['bob'] } };

type Row = Record<string, unknown>;
interface Told {
  readonly total: number;
  readonly requests: readonly Row[];
  readonly digests: readonly Row[];
  readonly entries: readonly Row[];
}

const engine = shared(() => startStubEngine(sendXml(mddatasetAnswer())));
const gateway = shared(() => startTestGateway({ engine: { url: engine.url }, ...VIEWERS }));

async function read(path: string, user = 'bob') {
  const { status, text } = await send(gateway.url, {
    path,
    headers: { authorization: basic(user) },
  });
  return { status, body: JSON.parse(text) as Told };
}

describe('what was asked', () => {
  test('is found by the id of the request, as soon as it was answered', async () => {
    for (let times = 0; times < 3; times += 1) {
      const { headers } = await askXmla(gateway.url, QUERY);
      const id = String(headers['x-request-id']);
      const { body } = await read(`/admin/requests?id=${id}`);
      expect(body).toEqual({
        total: 1,
        complete: true,
        requests: [expect.objectContaining({ id, status: 200 })],
      });
    }
    const { body } = await read('/admin/requests');
    const [hit, , miss] = body.requests;
    expect(hit).toMatchObject({ outcome: 'hit', reason: 'memory', waited_ms: 0, engine_ms: 0 });
    expect(miss).toMatchObject({ outcome: 'miss', reason: '', stored: true, user: 'alice' });
    expect(miss?.['engine_ms']).toBeGreaterThan(0);
    expect(hit?.['digest']).toBe(miss?.['digest']);
  });

  test('has its figures among the statistics, and its entry in memory, under one digest', async () => {
    const { body } = await read('/admin/statistics?sort=saved');
    expect(body).toMatchObject({ gateways: 1, complete: true, total: 1 });
    const [row = {}] = body.digests;
    expect(row).toMatchObject({ subject: 'Execute', asks: 3, hits: 2, users: 1, cubes: 'Sales' });
    expect(row['engine_ms']).toBeGreaterThan(0);
    expect((await read('/admin/entries')).body).toEqual({
      total: 1,
      complete: true,
      entries: [
        {
          digest: row['digest'],
          bytes: expect.any(Number),
          hits: 2,
          age: expect.any(Number),
          rest: expect.any(Number),
          project: row['project'],
          catalogs: row['catalogs'],
          cubes: 'Sales',
        },
      ],
    });
  });

  test('is filtered by outcomes that there are, and by no other word', async () => {
    expect((await read('/admin/requests?outcome=miss')).body.total).toBe(1);
    const answer = await send(gateway.url, {
      path: '/admin/requests?outcome=missed',
      headers: { authorization: basic('bob') },
    });
    expect(answer.status).toBe(400);
    expect(withoutRequestId(answer.text, answer.headers)).toContain(
      'The query is refused: outcome must be one of hit, miss, bypass, gateway.',
    );
  });

  test('is told to viewers, until a reload says otherwise, and no more than that', async () => {
    const paths = ['statistics', 'requests', 'entries', 'purges'].map((name) => `/admin/${name}`);
    for (const path of paths) {
      expect([path, (await read(path)).status]).toEqual([path, 200]);
      expect([path, (await read(path, 'alice')).status]).toEqual([path, 403]);
    }
    const explain = await send(gateway.url, {
      method: 'POST',
      path: '/admin/explain',
      body: QUERY,
      headers: { authorization: basic('bob'), 'content-type': 'text/xml' },
    });
    const clear = await send(gateway.url, {
      path: '/mdx/xmla/clearCache',
      headers: { authorization: basic('bob') },
    });
    expect([explain.status, clear.status]).toEqual([403, 403]);
    await gateway.reload({ engine: { url: engine.url }, auth: { viewers: ['alice'] } });
    expect((await read('/admin/requests')).status).toBe(403);
    // What was remembered outlives the reload.
    expect((await read('/admin/requests', 'alice')).body.total).toBe(3);
  });

  test('has its statement with statistics.text: on, for administrators', async () => {
    const textsOf = async (user: string) => {
      const { body } = await read('/admin/statistics', user);
      return body.digests.map(({ text }) => text);
    };
    expect(await textsOf('ADMIN')).toEqual([undefined]);
    const settings = { engine: { url: engine.url }, ...VIEWERS };
    await gateway.reload({ ...settings, statistics: { text: 'on' } });
    await askXmla(gateway.url, QUERY);
    expect(await textsOf('ADMIN')).toEqual(['SELECT FROM [Sales]']);
    expect(await textsOf('bob')).toEqual([undefined]);
    await gateway.reload(settings);
    expect(await textsOf('ADMIN')).toEqual([undefined]);
  });
});
