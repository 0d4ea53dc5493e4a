import { expect } from '@jest/globals';
import { once } from 'node:events';
import {
  Agent,
  createServer,
  request as send,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { RememberedLogin } from '../../../src/auth/authenticator.ts';
import { engineTraits } from '../../../src/engine-kinds.ts';
import type { GatewayEvent } from '../../../src/events.ts';
import { createHotPath, type HotPath } from '../../../src/hot-path/hot-path.ts';
import type { Lesson } from '../../../src/hot-path/learning.ts';
import type { GzipVariant } from '../../../src/query-cache/gzip.ts';
import type { GzipSource, KnownKey } from '../../../src/query-cache/query.ts';
import type { StoredAnswer } from '../../../src/query-cache/stored-answer.ts';
import type { SessionRecord } from '../../../src/sessions/session-store.ts';
import type { FoundSession } from '../../../src/sessions/sessions.ts';
import { readAsked } from '../../../src/xmla-line/asked.ts';
import { execute } from '../../support/envelopes.ts';
import {
  checkpoint,
  handClock,
  type Checkpoint,
  type HandClock,
  knownAnswers,
} from '../query-cache/fakes.ts';
import { answerWith } from '../query-cache/entries/session-documents.ts';

const LOGIN = 'Basic YWxpY2U6YWxpY2U=';
const TRAITS = engineTraits('mondrian');
export const SESSION = 'qy3p8o1v5zk2';
export const GUID = '0f8fad5b-d9cb-469f-a165-70867728950e';
export const FOUND: KnownKey = {
  key: 'k',
  captured: { scopes: [], tokens: [], keySecret: '' },
  ttl: 1_000,
  digests: '',
};
export const ANSWER = answerWith({
  body: Buffer.from('<Session SessionId=""/>stored'),
  session: { at: 20, encoding: 'utf-8' },
  engineMilliseconds: 7,
});

/** A query in a session, with an id of its own. */
export const asked = (id = SESSION, activity = GUID): Buffer =>
  execute({
    statement: 'SELECT FROM [Sales]',
    properties: { Catalog: 'FoodMart', DbpropMsmdActivityID: activity },
    session: { kind: 'in', id },
  });
/** What the line tells of a query without session. */
export const NO_SESSION = { session: undefined } as const;

interface Login extends RememberedLogin {
  /** Whether it counts. */
  valid: boolean;
}

export function loggedIn(name = 'alice'): Login {
  const login = { principal: { name }, valid: true, counts: () => login.valid };
  return login;
}

interface Way {
  readonly method?: string;
  /** Behind the base URL. */
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A server whose requests the hot path takes, and a line behind it that answers what that leaves. */
export interface House {
  /** What may have changed since a query was learnt. */
  login: Login;
  /** What memory holds under the key of all queries here, and what tier 2 does. */
  stored: StoredAnswer | undefined;
  inTier2: StoredAnswer | undefined;
  /** Whether the epochs are in force. */
  current: boolean;
  session: FoundSession | undefined;
  roles: string | undefined;
  gzip: GzipSource | undefined;
  /** Where whoever asks tier 2 can be held. */
  asking: Checkpoint;
  /** Called in the turn in which a request was taken, and with every event. */
  onTaken: (request: IncomingMessage, response: ServerResponse) => void;
  onEvent: (event: GatewayEvent) => void;

  readonly hotPath: HotPath;
  readonly clock: HandClock;
  /** What each who asked tier 2 kept meanwhile (bytes). */
  readonly besides: (number | undefined)[];
  /** What memory was told to keep. */
  readonly kept: StoredAnswer[];
  /** How many are told to be under way. */
  readonly working: () => number;
  readonly url: string;
  readonly port: number;
  /** Of its session. */
  readonly record: SessionRecord;
  readonly events: GatewayEvent[];
  /** What went the whole line, and may be learnt of. */
  readonly line: { readonly body: Buffer; readonly request: IncomingMessage }[];
  /** Bodies that are being sent. */
  readonly sending: Buffer[];
  /** What compressed variants are wanted of, and by whom. */
  readonly gzips: {
    readonly answer: StoredAnswer;
    readonly keep: (made: GzipVariant) => void;
  }[];
  /** Resolves to the body of the answer, on the one connection of its client. */
  ask(body: Buffer, way?: Way): Promise<Buffer>;
  /** What the line tells of the request that it answered last. */
  learn(changed?: Partial<Lesson>): Promise<void>;
  /** Nothing is learnt of a head that comes for the first time: so all goes the line twice. */
  taught(changed?: Partial<Lesson>, body?: Buffer, way?: Way): Promise<void>;
  /** The client goes on with another connection. */
  reconnect(): void;
  close(): void;
}

export async function openHouse(): Promise<House> {
  const clock = handClock();
  let working = 0;
  const record: SessionRecord = {
    principal: 'alice',
    profile: 'p',
    catalog: 'FoodMart',
    replica: '',
    dirty: false,
    spelling: '',
    version: '',
    forwardedAt: clock.wall(),
  };
  const hotPath = createHotPath({
    authenticator: { remembered: (header) => (header === LOGIN ? house.login : undefined) },
    cache: knownAnswers({
      epochs: {
        areCurrent: () => house.current,
        obtain: () => Promise.reject(new Error('the hot path reads no epochs')),
      },
      memory: {
        get: (key) => (key === FOUND.key ? house.stored : undefined),
        set(_key, answer) {
          house.kept.push(answer);
          house.stored = answer;
        },
        gzipOf: (key, answer) =>
          key === FOUND.key && answer === house.stored ? house.gzip : undefined,
      },
      entries: {
        async find(key, beside) {
          house.besides.push(beside);
          const found = key === FOUND.key ? house.inTier2 : undefined;
          await house.asking.arrive();
          return found;
        },
      },
      clock,
    }),
    sessions: { handle: () => ({ find: () => house.session }) },
    roleSets: { heldName: () => house.roles },
    gzip: { prepare: (answer, keep) => void house.gzips.push({ answer, keep }) },
    inUse: {
      hold(body) {
        house.sending.push(body);
        return () => void house.sending.splice(house.sending.indexOf(body), 1);
      },
    },
    work: {
      begin: () => void (working += 1),
      end: () => void (working -= 1),
    },
    clock,
    secret: 's',
    newId: () => 'id',
    emit(event) {
      house.events.push(event);
      house.onEvent(event);
    },
  });
  const server = createServer((request, response) => {
    hotPath.take(request, response, () => {
      const answer = (body: Buffer) => {
        house.line.push({ body, request });
        response.end('the line');
      };
      buffer(request).then(answer, () => {});
    });
    house.onTaken(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}/mdx/xmla`;
  const newAgent = () => new Agent({ keepAlive: true, maxSockets: 1 });
  let agent = newAgent();

  const house: House = {
    login: loggedIn(),
    stored: ANSWER,
    inTier2: undefined,
    current: true,
    asking: checkpoint(),
    session: { kind: 'known', record },
    roles: undefined,
    gzip: undefined,
    onTaken() {},
    onEvent() {},
    hotPath,
    clock,
    besides: [],
    kept: [],
    working: () => working,
    url,
    port,
    record,
    events: [],
    line: [],
    sending: [],
    gzips: [],
    async ask(body, { method = 'POST', path = '', headers = {} } = {}) {
      const sent = send(`${url}${path}`, {
        method,
        agent,
        headers: { authorization: LOGIN, 'content-length': body.length, ...headers },
      });
      sent.end(body);
      const [response] = (await once(sent, 'response')) as [IncomingMessage];
      return buffer(response);
    },
    async learn(changed = {}) {
      const last = house.line.at(-1);
      if (last === undefined) throw new Error('the line saw no request');
      const { request, body } = last;
      const understood = await readAsked(request.headers, body, TRAITS);
      await hotPath.learn({
        request,
        body,
        asked: understood,
        destination: { traits: TRAITS, settings: { session_idle: 1_000 } },
        principal: { name: 'alice' },
        project: '',
        session:
          understood.session.kind === 'in'
            ? { name: { place: '', id: understood.session.id }, record }
            : undefined,
        share: 'user',
        identity: 'user:alice',
        found: FOUND,
        ...changed,
      });
    },
    async taught(changed, body = asked(), way = {}) {
      for (let time = 0; time < 2; time += 1) {
        expect(`${await house.ask(body, way)}`).toBe('the line');
        await house.learn(changed);
      }
    },
    reconnect() {
      agent.destroy();
      agent = newAgent();
    },
    close() {
      agent.destroy();
      server.closeAllConnections();
      server.close();
    },
  };
  house.asking.release();
  return house;
}
