import type { EngineKind } from '../../src/common/engine-kinds.ts';
import { mddatasetAnswer, response } from './answers.ts';
import { execute, type SessionSpec } from './envelopes.ts';
import { askXmla, shortStatus } from './http-client.ts';
import { sendXml, startStubEngine, type StubEngine } from './stub-engine.ts';
import type { TestGateway } from './test-gateway.ts';

/** An engine that knows its sessions by many names, and clients that use them. */

const XMLA = 'urn:schemas-microsoft-com:xml-analysis';

/** Of all such engines, so that no id is given twice. */
let begun = 0;

/** The session of a request as the most lenient engine reads it: GUIDs without case and braces, headers as CGI does. */
function sessionOf({ body, headers }: StubEngine['seen'][number]): string | undefined {
  const byHeader = Object.entries(headers).find(([name]) => /^x.as.sessionid$/.test(name))?.[1];
  const id = /SessionId="([^"]*)"/.exec(body.toString('latin1'))?.[1] ?? byHeader;
  return [id].flat()[0]?.split(',')[0]?.trim().toLowerCase().replaceAll(/[{}]/g, '');
}

/** It shows what was made in the session in which it is asked, and in which catalog that is. */
export async function startLenientEngine(): Promise<StubEngine> {
  const sessions = new Map<string, { made: boolean; catalog: string }>();
  return await startStubEngine(async (to, seen) => {
    const text = seen.body.toString('latin1');
    const begins = text.includes('BeginSession');
    const id = begins ? `5e55-${(begun += 1)}` : sessionOf(seen);
    const state = (id === undefined ? undefined : sessions.get(id)) ?? { made: false, catalog: '' };
    if (id !== undefined) sessions.set(id, state);
    const catalog = /<Catalog>([^<]*)</.exec(text)?.[1];
    if (catalog !== undefined) state.catalog = catalog;
    if (text.includes('CREATE SESSION')) state.made = true;
    const header = id === undefined ? '' : `<Session xmlns="${XMLA}" SessionId="${id}"/>`;
    const shown = `${state.made ? 'made' : 'plain'} in ${state.catalog}`;
    const answer = text.includes('SELECT')
      ? mddatasetAnswer({ header, members: [shown] })
      : response('Execute', 'empty', '', { header });
    await sendXml(answer)(to, seen);
  });
}

/** A gateway before it, where users share what they ask outside of dirty sessions. */
export const sharedBy = (url: unknown, kind: EngineKind, more: Record<string, unknown> = {}) => ({
  engine: { url, kind, login: 'forward' },
  cache: { share: 'everyone', engine_permissions_ignored: true },
  ...more,
});

export interface Ask {
  readonly user?: string;
  readonly session?: SessionSpec;
  readonly catalog?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  /** Makes another body of the usual one. */
  readonly odd?: (text: string) => string;
}

export async function ask({ url }: TestGateway, statement: string, how: Ask = {}) {
  const { session, catalog, odd = (text: string) => text, ...message } = how;
  const body = execute({
    statement,
    ...(session && { session }),
    ...(catalog !== undefined && { properties: { Catalog: catalog } }),
  });
  const answer = await askXmla(url, Buffer.from(odd(body.toString())), message);
  const shown = /<Caption>((?:made|plain) in [^<]*)</.exec(answer.text)?.[1];
  return { status: shortStatus(answer), shown, answer };
}

export async function begin(gateway: TestGateway, how: Ask = {}): Promise<string> {
  const { answer } = await ask(gateway, '', { catalog: 'A', session: { kind: 'begin' }, ...how });
  const id = /SessionId="([^"]*)"/.exec(answer.text)?.[1];
  if (id === undefined) throw new Error(answer.text);
  return id;
}
