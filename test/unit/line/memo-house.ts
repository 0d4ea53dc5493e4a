import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { RememberedLogin } from '../../../src/auth/verified-credentials.ts';
import type { KnownKey } from '../../../src/cache/query.ts';
import { ENGINE_KINDS } from '../../../src/common/engine-kinds.ts';
import { principalOf } from '../../../src/common/principal.ts';
import type { CacheScope, SessionRecord } from '../../../src/freshness/freshness-store.ts';
import { type Arrived, createMemo, type Handled } from '../../../src/line/memo.ts';
import { createKeyOf, createStands } from '../../../src/line/replay.ts';
import type { OwnTurn } from '../../../src/line/understand.ts';
import type { FoundSession } from '../../../src/sessions/sessions.ts';
import { execute } from '../../support/envelopes.ts';
import { handClock } from '../cache/fakes.ts';

const LOGIN = 'Basic YWxpY2U6YWxpY2U=';
export const DESTINATION = {
  engine: { id: 'engine', isAway: () => false },
  addressee: { project: undefined, query: [] },
  traits: ENGINE_KINDS.mondrian,
  volatile: [],
  settings: { headers: [], delegation: 'forward', session_idle: 1_000 } as never,
  endpoint: 'engine',
  user: 'alice',
};
export const SESSION = 'qy3p8o1v5zk2';
export const GUID = '0f8fad5b-d9cb-469f-a165-70867728950e';
const FOUND: KnownKey = {
  key: 'k',
  captured: { scopes: ['everything', 'project:foodmart'], tokens: [], keySecret: '', leases: [] },
  ttl: 1_000,
  digests: '',
};

/** A query in a session, with an id of its own. */
export const asked = (id = SESSION, activity = GUID): Buffer =>
  execute({
    statement: 'SELECT FROM [Sales]',
    properties: { Catalog: 'FoodMart', DbpropMsmdActivityID: activity },
    session: { kind: 'in', id },
  });

export const changed = (from: string, to: string) => Buffer.from(`${asked()}`.replace(from, to));

export type Headers = Readonly<Record<string, string>>;

export function requestOf(headers: Headers = {}, socket = new Socket()): IncomingMessage {
  const all: Headers = { authorization: LOGIN, 'content-type': 'text/xml', ...headers };
  return Object.assign(new IncomingMessage(socket), {
    method: 'POST',
    url: '/mdx/xmla',
    httpVersion: '1.1',
    rawHeaders: Object.entries(all).flat(),
    headers: all,
  });
}

export const loggedIn = (name: string): RememberedLogin & { valid: boolean } => {
  const counts = () => login.valid;
  const login = { principal: principalOf(name), valid: true, counts, countsForHits: counts };
  return login;
};

export interface Taught {
  readonly body?: Buffer;
  readonly headers?: Headers;
  readonly share?: 'user' | 'roles';
  readonly roles?: string;
  readonly key?: string;
  readonly change?: Partial<Handled>;
}

/** A memo, and what it asks others, which a test may change. */
export function createMemoHouse() {
  const clock = handClock();
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
  const blind = new Set<CacheScope>();
  /** Whether each question to the judge was for an old entry. */
  const judged: boolean[] = [];
  const state = {
    login: loggedIn('alice'),
    record,
    /** What is known of {@link SESSION}; undefined where it must be asked for. */
    session: { kind: 'known', record } as FoundSession | undefined,
    roles: undefined as string | undefined,
    ownTurn: (() => undefined) as OwnTurn,
    /** Bytes of a body under way. */
    taken: [] as number[],
  };
  const parts = {
    authenticator: { remembered: (header: string) => (header === LOGIN ? state.login : undefined) },
    sessions: {
      held: ({ id }: { id: string }) => (id === SESSION ? state.session : { kind: 'unknown' }),
    },
    roleSets: { heldName: () => state.roles },
    judges: [
      (scopes: readonly CacheScope[], isOld = false) => {
        judged.push(isOld);
        return scopes.some((scope) => blind.has(scope)) ? 'watch-blind' : undefined;
      },
    ],
    clock,
    secret: 's',
  } as unknown as Parameters<typeof createMemo>[0] & Parameters<typeof createStands>[0];
  const memo = createMemo(parts, (...given) => state.ownTurn(...given));
  const unchangedKeyOf = createKeyOf(createStands(parts));

  /** Understands a request as the handler does. */
  async function handled(body: Buffer, headers: Headers = {}): Promise<Handled> {
    const request = requestOf(headers);
    const principal = principalOf('alice');
    const address = { project: undefined, search: '' };
    const client = { request, signal: new AbortController().signal };
    const known = memo.recognise(memo.headOf(request), body);
    const room = {
      grow: (more: number) => void state.taken.push(more),
      shrinkTo: (left: number) => void state.taken.push(-left),
    };
    const arrived = { client, address, principal, body, room, known, ofPage: false } as unknown;
    const read = await memo.read(arrived as Arrived, DESTINATION as never);
    return { ...read, request, address, principal, destination: DESTINATION };
  }

  async function teach(taught: Taught = {}): Promise<void> {
    const { body = asked(), headers, share = 'user', roles, key = 'k' } = taught;
    const whole = { ...(await handled(body, headers)), ...taught.change };
    const { session: own } = whole.asked;
    const session = own.kind === 'in' ? record : undefined;
    memo.remember(whole, { key: { ...FOUND, key }, share, roles, staleIfError: 0, session });
  }

  /** The key under which the answer of a request is looked for, where it is known. */
  function keyOf(body = asked(), headers: Headers = {}): string | undefined {
    const head = memo.headOf(requestOf(headers));
    const recognised = head && memo.recognise(head, body);
    return recognised && unchangedKeyOf(recognised)?.key;
  }

  return { state, blind, judged, parts, memo, handled, teach, keyOf };
}
