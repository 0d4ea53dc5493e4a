import { expect } from '@jest/globals';
import { execute } from '../support/envelopes.ts';
import { askXmla, shortStatus } from '../support/http-client.ts';
import { scenario } from './vocabulary.ts';

scenario('a client gets the bytes of the engine, stored or not', {}, async (scene) => {
  const { engine, gateway } = scene;
  const query = execute({ statement: 'SELECT FROM [Sales]' });
  const refresh = execute({ statement: 'REFRESH CUBE [Sales]' });
  for (const [request, status] of [
    [query, 'miss stored'],
    [query, 'hit'],
    [refresh, 'bypass not-a-query'],
  ] as const) {
    const direct = await askXmla(engine.url, request, {
      path: '/xmla',
      headers: { authorization: [] },
    });
    const answer = await askXmla(gateway.url, request);
    expect([answer.status, shortStatus(answer)]).toEqual([direct.status, status]);
    expect(answer.body.equals(direct.body)).toBe(true);
    expect(answer.headers['content-type']).toBe(direct.headers['content-type']);
  }
});
