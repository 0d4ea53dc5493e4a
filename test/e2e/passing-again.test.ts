import { expect, test } from '@jest/globals';
import { execute } from '../support/envelopes.ts';
import { askXmla, shortStatus } from '../support/http-client.ts';
import { startSessionEngine } from '../support/session-engine.ts';
import { startTestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const engine = shared(() => startSessionEngine({ kind: 'mondrian' }));
const gateway = shared(() => startTestGateway({ engine: { url: engine.url, kind: 'mondrian' } }));

async function begin(user = 'alice'): Promise<string> {
  const body = execute({ statement: '', session: { kind: 'begin' } });
  const { text } = await askXmla(gateway.url, body, { user });
  return /SessionId="([^"]+)"/.exec(text)?.[1] ?? '';
}
const ask = async (id: string, statement: string, user = 'alice') =>
  shortStatus(
    await askXmla(gateway.url, execute({ statement, session: { kind: 'in', id } }), { user }),
  );
const SET = 'CREATE SESSION SET [Sales].[S] AS {[Time].[1997]}';
const QUERY = 'SELECT FROM [Sales]';

test('a statement that comes again changes the session in which it comes, and no other', async () => {
  const [one, other, third] = [await begin(), await begin(), await begin()];
  expect(await ask(one, QUERY)).toBe('miss stored');
  for (const id of [one, other, third]) expect(await ask(id, QUERY)).toBe('hit');
  // Often enough that it is recognised.
  for (let times = 0; times < 4; times += 1) await ask(one, SET);
  for (const id of [other, third]) expect(await ask(id, QUERY)).toBe('hit');
  await ask(other, SET);
  expect(await ask(other, QUERY)).toBe('bypass dirty-session');
  expect(await ask(one, QUERY)).toBe('bypass dirty-session');
  expect(await ask(third, QUERY)).toBe('hit');
});

test('a statement that comes again reaches the engine each time, byte for byte', async () => {
  const id = await begin();
  engine.seen.length = 0;
  for (let times = 1; times <= 5; times += 1) {
    await ask(id, 'DRILLTHROUGH SELECT FROM [Sales]');
    expect(engine.seen).toHaveLength(times);
  }
  expect(new Set(engine.seen.map(({ body }) => body.toString())).size).toBe(1);
});

test('what one user sent again does not make it another user’s', async () => {
  const [own, strange] = [await begin('alice'), await begin('bob')];
  for (let times = 0; times < 4; times += 1) {
    await ask(own, 'DRILLTHROUGH SELECT FROM [Sales]', 'alice');
  }
  expect(await ask(strange, 'DRILLTHROUGH SELECT FROM [Sales]', 'alice')).toBe(
    'bypass unknown-session',
  );
});
