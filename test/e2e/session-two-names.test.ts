import { describe, expect, test } from '@jest/globals';
import { envelope, mddatasetAnswer } from '../support/answers.ts';
import { execute, type SessionSpec } from '../support/envelopes.ts';
import { askXmla, shortStatus } from '../support/http-client.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { inSession } from '../support/stamped-client.ts';
import { startTestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const XMLA = 'urn:schemas-microsoft-com:xml-analysis';

const engine = shared(() => startStubEngine(sendXml(mddatasetAnswer())));
const gateway = shared(() => startTestGateway({ engine: { url: engine.url, kind: 'generic' } }));
let count = 0;

/** Asks something new, and tells what became of it. */
async function ask(session?: SessionSpec): Promise<string> {
  const statement = session?.kind === 'begin' ? '' : `SELECT FROM [Sales ${(count += 1)}]`;
  const query = execute({ statement, properties: {}, ...(session && { session }) });
  return shortStatus(await askXmla(gateway.url, query));
}

/** An answer whose two headers name sessions, and all answers after it none. */
function answerWithNames(http: string, soap: string): void {
  const header = `<Session xmlns="${XMLA}" SessionId="${soap}"/>`;
  const root = `<ExecuteResponse xmlns="${XMLA}"><return><root xmlns="${XMLA}:empty"/></return></ExecuteResponse>`;
  engine.answerWith((...exchange) => {
    engine.answerWith(sendXml(mddatasetAnswer()));
    return sendXml(envelope(root, { header }), { headers: { 'X-AS-SessionId': http } })(
      ...exchange,
    );
  });
}

describe.each([
  ['that begins a session', { kind: 'begin' }],
  ['to a query without one', undefined],
] as const)('an answer %s', (_what, session) => {
  const id = (name: string) => `${name}-${session === undefined}`;

  test('and names one session has begun a clean one', async () => {
    answerWithNames(id('only'), id('only'));
    await ask(session);
    expect(await ask(inSession(id('only')))).toBe('miss stored');
  });

  test('whose headers name two has begun both, and neither is taken for clean', async () => {
    answerWithNames(id('S1'), id('S2'));
    await ask(session);
    expect([await ask(inSession(id('S1'))), await ask(inSession(id('S2')))]).toEqual([
      'bypass dirty-session',
      'bypass dirty-session',
    ]);
  });

  test('whose headers differ in letter case leaves nobody with a clean one', async () => {
    answerWithNames(id('ABC'), id('abc'));
    await ask(session);
    for (const name of ['ABC', 'abc'])
      expect(await ask(inSession(id(name)))).not.toMatch(/hit|miss/);
  });
});
