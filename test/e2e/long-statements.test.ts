import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, shortStatus } from '../support/http-client.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** UTF-16 units of the longest statement that is read, and bytes of the longest body. */
const LONGEST = 1_048_576;
const LONGEST_BODY = 4 * 1024 * 1024;

let engine: StubEngine;
let gateway: TestGateway;

/** Says something else of each body. */
const answerOf = (body: Buffer) =>
  mddatasetAnswer({ members: [createHash('sha256').update(body).digest('hex')] });

beforeAll(async () => {
  engine = await startStubEngine((response, seen) => sendXml(answerOf(seen.body))(response, seen));
  gateway = await startTestGateway({
    engine: { url: engine.url },
    cache: { share: 'everyone', engine_permissions_ignored: true },
  });
});
afterAll(async () => {
  await gateway.close();
  await engine.close();
});

const BEGIN = 'SELECT {[Measures].[Sales]} ON 0 FROM (SELECT {';
const END = '} ON 0 FROM [Sales])';
/** A filter of so many members, or as many as make so many UTF-16 units. */
function filterOf({ members = Infinity, units = Infinity, from = 0, letter = 'a' }): string {
  const parts: string[] = [];
  for (let length = BEGIN.length + END.length; parts.length < members;) {
    const part = `[Kunde].[${letter}].&[${from + parts.length}]`;
    if (length + part.length + 1 > units) break;
    length += part.length + 1;
    parts.push(part);
  }
  const text = `${BEGIN}${parts.join(',')}${END}`;
  return Number.isFinite(units)
    ? text.replace(END, `${' '.repeat(units - text.length)}${END}`)
    : text;
}

const bodyOf = (statement: string) => execute({ statement, properties: { Catalog: 'A' } });
async function ask(body: Buffer, user = 'alice') {
  const before = engine.seen.length;
  const answer = await askXmla(gateway.url, body, { user });
  expect(answer.text).toBe(answerOf(body));
  return `${shortStatus(answer)}, ${engine.seen.length - before} asked`;
}

describe('a statement is a hit at the second ask', () => {
  test.each([
    ['of 6,000 members', filterOf({ members: 6_000, from: 100_000 })],
    ['of 1,000,000 units', filterOf({ units: 1_000_000 })],
    ['of the greatest length', filterOf({ units: LONGEST })],
    ['of letters of three bytes', filterOf({ units: 1_000_000, letter: '\u4E2D\u6587'.repeat(9) })],
    ['of surrogates', filterOf({ units: 700_000, letter: '\u{1F600}'.repeat(9) })],
    ['with returns that are kept apart', filterOf({ units: 200_000 }).replaceAll(',', ',\r\n')],
    [
      'of a long formula',
      `WITH SET [s] AS '{${'[a].[b],'.repeat(60_000)}[c]}' SELECT [s] ON 0 FROM [Sales]`,
    ],
  ])('%s', async (_what, statement) => {
    const body = bodyOf(statement);
    expect(await ask(body)).toBe('miss stored, 1 asked');
    expect(await ask(body)).toBe('hit, 0 asked');
    expect(await ask(body, 'bob')).toBe('hit, 0 asked');
  });

  test('and no other that differs in one member, at any place', async () => {
    const statement = filterOf({ units: 500_000, from: 1_000_000 });
    await ask(bodyOf(statement));
    for (const at of [0, 250_000, 499_000]) {
      const place = statement.indexOf('&[1', at);
      const other = `${statement.slice(0, place)}&[2${statement.slice(place + 3)}`;
      expect(await ask(bodyOf(other))).toBe('miss stored, 1 asked');
    }
    expect(await ask(bodyOf(statement))).toBe('hit, 0 asked');
  });
});

describe('what is longer passes', () => {
  test('as a statement of one unit more', async () => {
    const body = bodyOf(filterOf({ units: LONGEST + 1 }));
    expect(await ask(body)).toBe('bypass long-request, 1 asked');
    expect(await ask(body)).toBe('bypass long-request, 1 asked');
  });

  test('as a body of one byte more', async () => {
    const padded = (bytes: number) => {
      const body = bodyOf('SELECT FROM [Sales]').toString();
      return Buffer.from(body.replace('<Command>', `${' '.repeat(bytes - body.length)}<Command>`));
    };
    expect(await ask(padded(LONGEST_BODY))).toBe('miss stored, 1 asked');
    expect(await ask(padded(LONGEST_BODY + 1))).toBe('bypass long-request, 1 asked');
  });
});

test.each([
  ['now', 'volatile', (text: string) => text.replace(END, `, Now()${END}`)],
  ['a second statement', 'several-statements', (text: string) => `${text}; COMMIT`],
  ['a loose return', 'unclear-statement', (text: string) => text.replace(END, `\r${END}`)],
  ['a word at its end', 'drillthrough', (text: string) => `${text} DRILLTHROUGH`],
])('a long statement with %s passes', async (_what, reason, changed) => {
  const body = bodyOf(changed(filterOf({ units: 900_000 })));
  expect(await ask(body)).toBe(`bypass ${reason}, 1 asked`);
  expect(await ask(body)).toBe(`bypass ${reason}, 1 asked`);
});
