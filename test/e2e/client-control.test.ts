import { beforeEach, describe, expect, test } from '@jest/globals';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, shortStatus, until, type Answer } from '../support/http-client.ts';
import { gate, sendXml, startStubEngine } from '../support/stub-engine.ts';
import { startTestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const engine = shared(() => startStubEngine(() => {}));
const gateway = shared(() => startTestGateway(settings('purgers')));
let count = 0;

const settings = (client_control: string) => ({
  engine: { url: engine.url },
  auth: { purgers: ['bob'] },
  cache: { client_control },
});
const newQuery = () => execute({ statement: `SELECT FROM [Sales ${(count += 1)}]` });
const ask = (query: Buffer, control?: string, user: 'ADMIN' | 'alice' | 'bob' = 'bob') =>
  askXmla(gateway.url, query, {
    user,
    headers: control === undefined ? {} : { 'cache-control': control },
  });

/** The number that the engine put into its answer: each of its answers has the next one. */
const numberIn = ({ text }: Answer) => /Answer (\d+)/.exec(text)?.[1];
const numbered = (number: number) => mddatasetAnswer({ members: [`Answer ${number}`] });
/** Status and number, as in `hit 1`. */
const told = async (asking: Promise<Answer>) => {
  const answer = await asking;
  return `${shortStatus(answer)} ${numberIn(answer)}`;
};

beforeEach(async () => {
  await gateway.reload(settings('purgers'));
  engine.seen.length = 0;
  engine.answerWith((...exchange) => sendXml(numbered(engine.seen.length))(...exchange));
});

describe('Cache-Control: no-cache', () => {
  test.each(['no-cache', 'No-Cache', 'max-age=0', 'max-age=0, no-transform'])(
    '(%s) fetches a fresh answer, which is the one that is stored',
    async (control) => {
      const query = newQuery();
      expect(await told(ask(query))).toBe('miss stored 1');
      expect(await told(ask(query))).toBe('hit 1');
      expect(await told(ask(query, control))).toBe('miss stored 2');
      expect(await told(ask(query))).toBe('hit 2');
    },
  );

  test('does not wait for an older question under way, whose answer does not take its place', async () => {
    const gates = [gate(), gate()];
    engine.answerWith(async (response, request) => {
      const number = engine.seen.length;
      await gates[number - 1]?.opened;
      await sendXml(numbered(number))(response, request);
    });
    const query = newQuery();
    const older = ask(query);
    await until(() => engine.seen.length === 1);
    const fresh = ask(query, 'no-cache');
    await until(() => engine.seen.length === 2);
    gates[1]?.open();
    expect(await told(fresh)).toBe('miss stored 2');
    gates[0]?.open();
    expect(numberIn(await older)).toBe('1');
    expect(await told(ask(query))).toBe('hit 2');
    expect(engine.seen).toHaveLength(2);
  });

  test('leaves the old answer where it is when the engine answers with an error', async () => {
    const query = newQuery();
    await ask(query);
    engine.answerWith(sendXml('broken', { status: 500 }));
    expect(await told(ask(query, 'no-cache'))).toBe('miss engine-status undefined');
    expect(await told(ask(query))).toBe('hit 1');
  });

  test('reaches the engine without the header, like any query', async () => {
    await ask(newQuery(), 'no-cache');
    expect(engine.seen[0]?.headers).not.toHaveProperty('cache-control');
  });
});

describe('Cache-Control: no-store', () => {
  test.each(['no-store', 'NO-STORE', 'no-cache, no-store'])(
    '(%s) passes the cache by and stores nothing',
    async (control) => {
      const query = newQuery();
      expect(await told(ask(query, control))).toBe('bypass no-store 1');
      expect(await told(ask(query))).toBe('miss stored 2');
      expect(await told(ask(query, control))).toBe('bypass no-store 3');
      expect(await told(ask(query))).toBe('hit 2');
    },
  );
});

describe('the header Cache-Control', () => {
  const CONTROLS = ['no-cache', 'no-store', 'max-age=0'];

  test.each([
    ['purgers', 'ADMIN', true],
    ['purgers', 'bob', true],
    ['purgers', 'alice', false],
    ['nobody', 'ADMIN', false],
    ['nobody', 'alice', false],
    ['everybody', 'alice', true],
  ] as const)('with client_control: %s counts for %s: %s', async (allowed, user, counts) => {
    await gateway.reload(settings(allowed));
    const query = newQuery();
    await ask(query, undefined, user);
    for (const control of CONTROLS) {
      const hit = shortStatus(await ask(query, control, user)) === 'hit';
      expect([control, hit]).toEqual([control, !counts]);
    }
    expect(engine.seen).toHaveLength(counts ? 1 + CONTROLS.length : 1);
  });

  test.each(['no-cache="x"', 'max-age=1', 'only-if-cached', 'x="no-store"', 'no-cache no-store'])(
    'that says %s asks for nothing',
    async (control) => {
      const query = newQuery();
      await ask(query);
      expect(await told(ask(query, control))).toBe('hit 1');
    },
  );

  test('is not what Pragma is, which Windows sends by itself', async () => {
    const query = newQuery();
    await ask(query);
    const again = askXmla(gateway.url, query, { user: 'bob', headers: { pragma: 'no-cache' } });
    expect(await told(again)).toBe('hit 1');
  });
});
