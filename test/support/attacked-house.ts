import { mddatasetAnswer, rowsetAnswer } from './answers.ts';
import { readEngineRequest } from './engine-request.ts';
import { execute, type ExecuteSpec } from './envelopes.ts';
import { sendXml, startStubEngine, type StubAnswer, type StubEngine } from './stub-engine.ts';
import { startTestGateway, type TestGateway } from './test-gateway.ts';

export const LOGINS = ['forward', 'service', 'none'] as const;
export type Login = (typeof LOGINS)[number];
const DELEGATIONS = ['forward', 'refuse', 'default'] as const;
type Delegation = (typeof DELEGATIONS)[number];

/** An engine, and a gateway before it for each way to log in there and each `engine.delegation`. */
export interface AttackedHouse {
  readonly engine: StubEngine;
  /** Of the gateway that forwards logins, and requests that ask for other rights, unless something else is named. */
  urlOf(login?: Login, delegation?: Delegation): string;
  close(): Promise<void>;
}

export async function startAttackedHouse(): Promise<AttackedHouse> {
  const engine = await startStubEngine(plainAnswer());
  const gateways = new Map<string, TestGateway>();
  for (const login of LOGINS) {
    for (const delegation of DELEGATIONS) {
      const settings = {
        url: `${engine.url}/{project}`,
        login,
        ...(login === 'service' && { service: { name: 'service', password: 'secret' } }),
        ...(delegation !== 'default' && { delegation }),
      };
      gateways.set(`${login} ${delegation}`, await startTestGateway({ engine: settings }));
    }
  }
  return {
    engine,
    urlOf: (login = 'forward', delegation = 'forward') =>
      gateways.get(`${login} ${delegation}`)?.url ?? '',
    async close() {
      for (const gateway of gateways.values()) await gateway.close();
      await engine.close();
    },
  };
}

const XMLA = 'urn:schemas-microsoft-com:xml-analysis';

/** Answers in the format of the method, begins sessions, and shows the caller's. */
function plainAnswer(): StubAnswer {
  let begun = 0;
  return (...exchange) => {
    const [, seen] = exchange;
    if (seen.body.length === 0) return sendXml('<a/>')(...exchange);
    const { method, session } = readEngineRequest(seen.body, seen.headers);
    if (session.kind === 'begin') begun += 1;
    const id = session.kind === 'begin' ? `session ${begun}` : session.id;
    const isShown = session.kind !== 'none' && !session.byHeader;
    const frame = isShown ? { header: `<Session xmlns="${XMLA}" SessionId="${id}"/>` } : {};
    const text = method === 'Discover' ? rowsetAnswer(frame) : mddatasetAnswer(frame);
    const headers: Record<string, string> = session.byHeader ? { 'x-as-sessionid': id } : {};
    return sendXml(text, { headers })(...exchange);
  };
}

let count = 0;
/** The name of a cube for which nobody asked before. */
export const newCube = () => `Sales ${(count += 1)}`;

/** A query that may be cached. */
export const question = (cube: string, spec: Partial<ExecuteSpec> = {}) =>
  execute({ statement: `SELECT FROM [${cube}]`, ...spec });

/** The same as it stands in an envelope with a header block. */
export function withHeader(body: Buffer, block: string): Buffer {
  const header = `<SOAP-ENV:Header>${block}</SOAP-ENV:Header>`;
  return Buffer.from(body.toString().replace('<SOAP-ENV:Body>', () => `${header}<SOAP-ENV:Body>`));
}

/** A login of another user within the envelope. */
export const SECURITY =
  '<wsse:Security xmlns:wsse="http://schemas.xmlsoap.org/ws/2002/04/secext"><wsse:UsernameToken>' +
  '<wsse:Username>bob</wsse:Username><wsse:Password>bob</wsse:Password></wsse:UsernameToken></wsse:Security>';

/** Properties that ask for the rights of somebody else. */
export const IDENTITIES: readonly string[] = [
  'EffectiveUserName',
  'Roles',
  'EffectiveRoles',
  'CustomData',
  'UserName',
  'Password',
  'effectiveusername',
  'ROLES',
];
