import { createBodyAccount, type BodyAccount } from '../../../src/common/body-account.ts';
import { type KnownNames, entryScopes } from '../../../src/cache/projects.ts';
import { type Clock, systemClock } from '../../../src/common/clock.ts';
import type { ValueTier } from '../../../src/cache/shared-entries.ts';
import { ENGINE_KINDS } from '../../../src/common/engine-kinds.ts';
import { type AskedParts, askedOf, type KeyParts } from '../../../src/cache/key.ts';
import type { EngineAnswer, Query, QuerySession } from '../../../src/cache/query.ts';
import type { AnswerText, StoredAnswer } from '../../../src/cache/stored-answer.ts';
import type { DiscoverRequest } from '../../../src/xmla/request/read-request.ts';
import { rowsetAnswer } from '../../support/answers.ts';
import { gate } from '../../support/stub-engine.ts';
import { soapActionOf } from '../../../src/xmla/names.ts';

export interface HandClock extends Clock {
  /** Moves both clocks. */
  advance(milliseconds: number): void;
  /** Moves the wall clock alone, also back. */
  stepWall(milliseconds: number): void;
}

/** A clock that stands still until a test moves it; its timers run by the system's. */
export function handClock(): HandClock {
  let now = 1_000;
  let wall = 1_700_000_000_000;
  return {
    ...systemClock,
    now: () => now,
    wall: () => wall,
    advance(milliseconds) {
      now += milliseconds;
      wall += milliseconds;
    },
    stepWall(milliseconds) {
      wall += milliseconds;
    },
  };
}

/** A point in somebody's way at which a test can hold them. */
export interface Checkpoint {
  /** Called by whoever passes: tells that it is there, and waits. */
  arrive(): Promise<void>;
  /** Resolves when somebody arrived. */
  readonly arrived: Promise<void>;
  /** Lets all pass, also those who come later. */
  release(): void;
}

export function checkpoint(): Checkpoint {
  const here = gate();
  const onward = gate();
  return {
    arrive() {
      here.open();
      return onward.opened;
    },
    arrived: here.opened,
    release: onward.open,
  };
}

/** Lets everything run that waits for nothing but its turn, however many turns it needs. */
export async function quiet(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

const REQUEST: DiscoverRequest = {
  method: 'Discover',
  requestType: 'MDSCHEMA_CUBES',
  restrictions: [],
  properties: [],
  session: { kind: 'none' },
  sessionIds: [],
  sessionToken: false,
  headers: [],
  forms: [],
  security: false,
  unexpected: undefined,
};

/** The parts of a key; the whole set can be had by naming the ones that differ. */
export function flatParts(changed: Partial<FlatParts> = {}): FlatParts {
  return {
    engine: 'engine',
    project: 'a',
    query: [],
    identity: 'user:alice',
    userAgentClass: null,
    accept: 'text/xml',
    contentType: 'text/xml',
    soapAction: soapActionOf('Discover'),
    namedHeaders: undefined,
    session: null,
    request: REQUEST,
    ...changed,
  };
}
export type FlatParts = AskedParts & Omit<KeyParts, 'asked'>;

/** As the key takes them. */
export const nested = ({ identity, session, ...asked }: FlatParts): KeyParts => ({
  asked: askedOf(asked),
  identity,
  session,
});
export const keyParts = (changed?: Partial<FlatParts>): KeyParts => nested(flatParts(changed));

/** A query of a project whose engine answers as told; with a session, all of which have one profile. */
export function queryOf(
  ask: Query['ask'],
  options: {
    project?: string;
    ttl?: number;
    timeoutMs?: number;
    session?: QuerySession;
    fresh?: boolean;
    began?: Query['began'];
    /** How long past its ttl an entry may answer it behind a failure of the engine (ms). */
    ifError?: () => number;
    isAway?: () => boolean;
  } = {},
): Query {
  const { project = 'a', ttl = 60_000, session, ifError, isAway } = options;
  return {
    parts: keyParts({ project, session: session === undefined ? null : 'profile' }),
    scopes: entryScopes([project], false),
    ttl,
    timeoutMs: options.timeoutMs ?? 300_000,
    project,
    engineTraits: ENGINE_KINDS.generic,
    session,
    fresh: options.fresh ?? false,
    began: options.began ?? (async () => {}),
    ...(ifError && { ifError: async () => ifError }),
    ...(isAway && { isAway }),
    ask,
  };
}

/** A session that stays the same and clean, unless told otherwise. */
export function sessionOf(id: string, confirm: QuerySession['confirm'] = () => true): QuerySession {
  return { id, confirm };
}

/** A rowset whose only row is this text; `header` stands in its SOAP header. */
export function rowset(text: string, header = ''): Buffer {
  return Buffer.from(rowsetAnswer({ names: [text], header }));
}

/** The element by which an engine names a session in the SOAP header. */
export function sessionElement(id: string, more = ''): string {
  return `<Session xmlns="urn:schemas-microsoft-com:xml-analysis" SessionId="${id}"${more}/>`;
}

/** An answer of the engine. `began` is now; `steps` are called at the points they name. */
export function engineAnswer(
  body: Buffer,
  clock: Clock,
  options: {
    status?: number;
    headers?: EngineAnswer['head']['headers'];
    began?: EngineAnswer['began'];
    half?: () => Promise<void>;
    lastByte?: () => Promise<void>;
  } = {},
): EngineAnswer {
  const middle = Math.floor(body.length / 2);
  async function* chunks() {
    yield body.subarray(0, middle);
    await options.half?.();
    yield body.subarray(middle);
    await options.lastByte?.();
  }
  return {
    head: {
      status: options.status ?? 200,
      statusMessage: 'OK',
      headers: { 'content-type': 'text/xml', ...options.headers },
    },
    body: chunks(),
    length: () => body.length,
    began: options.began ?? { now: clock.now(), wall: clock.wall() },
    replica: 'http://engine',
  };
}

export interface FakeTier extends ValueTier {
  readonly values: Map<string, Buffer>;
  /** Held here before they look or write. */
  beforeGet: () => Promise<void>;
  beforeSet: () => Promise<void>;
  readonly gets: number;
  readonly sets: number;
}

/** A tier outside the process; keeps what began later or is to replace the rest, as the port demands. */
export function fakeTier(): FakeTier {
  const values = new Map<string, Buffer>();
  let gets = 0;
  let sets = 0;
  return {
    values,
    beforeGet: async () => {},
    beforeSet: async () => {},
    async get(key, from, count) {
      gets += 1;
      await this.beforeGet();
      return values.get(key)?.subarray(from, from + count) ?? Buffer.of();
    },
    async set(key, value, _lifetime, replace) {
      sets += 1;
      await this.beforeSet();
      const present = values.get(key);
      if (replace !== true && present && present.readBigUInt64BE(8) > value.readBigUInt64BE(8))
        return;
      values.set(key, value);
    },
    get gets() {
      return gets;
    },
    get sets() {
      return sets;
    },
  };
}

/** An answer as it is kept. */
export function storedAnswer<Body extends AnswerText = Buffer>(
  changed: Partial<StoredAnswer> & { readonly body?: Body } = {},
): StoredAnswer & { readonly body: Body } {
  return {
    body: Buffer.from('<root/>') as AnswerText as Body,
    session: undefined,
    sessionHeader: false,
    contentType: 'text/xml',
    contentLanguage: undefined,
    requestedAt: 1_700_000_000_000,
    lifetime: 60_000,
    engineMilliseconds: 5,
    ...changed,
  };
}

/** An account of bodies; by default with more room than any test needs. */
export function bodyAccount(in_flight = 2 ** 30, queue = 10): BodyAccount {
  return createBodyAccount(() => ({ in_flight, queue }));
}

/** Names of which each is known to the engine. */
export const anyName: Pick<KnownNames, 'find'> = {
  find: (name) => ({ spelling: name, configured: false }),
};
