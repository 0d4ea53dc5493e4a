import type { Clock } from '../../../src/clock.ts';
import type { Outcome } from '../../../src/events.ts';
import type { KeyParts } from '../../../src/query-cache/key.ts';
import type { Client, EngineAnswer, Query } from '../../../src/query-cache/query.ts';
import { entryScopes } from '../../../src/query-cache/scopes.ts';
import type { StoredAnswer } from '../../../src/query-cache/stored-answer.ts';
import type { ValueTier } from '../../../src/query-cache/value-tier.ts';
import type { DiscoverRequest } from '../../../src/xmla/xmla-request.ts';
import { rowsetAnswer } from '../../support/answers.ts';
import { gate } from '../../support/stub-engine.ts';

export interface HandClock extends Clock {
  /** Moves both clocks. */
  advance(milliseconds: number): void;
  /** Moves the wall clock alone, also back. */
  stepWall(milliseconds: number): void;
}

/** A clock that stands still until a test moves it. */
export function handClock(): HandClock {
  let now = 1_000;
  let wall = 1_700_000_000_000;
  return {
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
  security: false,
  unexpected: undefined,
};

/** The parts of a key; the whole set can be had by naming the ones that differ. */
export function keyParts(changed: Partial<KeyParts> = {}): KeyParts {
  return {
    engine: 'engine',
    project: 'a',
    query: [],
    identity: 'user:alice',
    userAgentClass: null,
    accept: 'text/xml',
    contentType: 'text/xml',
    request: REQUEST,
    ...changed,
  };
}

/** A query of a project whose engine answers as told. */
export function queryOf(
  ask: Query['ask'],
  { project = 'a', ttl = 60_000 }: { project?: string; ttl?: number } = {},
): Query {
  return { parts: keyParts({ project }), scopes: entryScopes([project], false), ttl, project, ask };
}

/** A rowset whose only row is this text. */
export function rowset(text: string): Buffer {
  return Buffer.from(rowsetAnswer({ names: [text] }));
}

/** An answer of the engine. `began` is now; `steps` are called at the points they name. */
export function engineAnswer(
  body: Buffer,
  clock: Clock,
  options: {
    status?: number;
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
      headers: { 'content-type': 'text/xml' },
    },
    body: chunks(),
    began: options.began ?? { now: clock.now(), wall: clock.wall() },
  };
}

export interface FakeClient extends Client {
  /** Set by the first that says it: the head of an engine's answer, or a replay. */
  readonly outcome: Outcome | undefined;
  readonly body: string;
  readonly ttl: number | undefined;
  readonly age: number | undefined;
  readonly failure: unknown;
  readonly ended: boolean;
  /** Goes away. */
  leave(): void;
}

export function fakeClient(): FakeClient {
  const gone = new AbortController();
  const chunks: Buffer[] = [];
  const said: { outcome?: Outcome; ttl?: number; age?: number; failure?: unknown } = {};
  let ended = false;
  return {
    signal: gone.signal,
    replay(answer, facts) {
      Object.assign(said, facts);
      chunks.push(answer.body);
      ended = true;
    },
    open(_head, outcome) {
      said.outcome = outcome;
    },
    write(chunk) {
      chunks.push(Buffer.from(chunk));
      return true;
    },
    async drained() {},
    end() {
      ended = true;
    },
    fail(error) {
      said.failure = error;
    },
    leave: () => gone.abort(new Error('gone')),
    get outcome() {
      return said.outcome;
    },
    get body() {
      return Buffer.concat(chunks).toString();
    },
    get ttl() {
      return said.ttl;
    },
    get age() {
      return said.age;
    },
    get failure() {
      return said.failure;
    },
    get ended() {
      return ended;
    },
  };
}

/** What a client was told, in short: `hit:memory`, `miss`, `miss:fault`, `bypass:epochs-unknown`. */
export function told(client: FakeClient): string {
  if (client.failure !== undefined) return 'failure';
  const { kind, detail } = client.outcome ?? { kind: 'nothing', detail: undefined };
  return detail === undefined ? kind : `${kind}:${detail}`;
}

export interface FakeTier extends ValueTier {
  readonly values: Map<string, Buffer>;
  /** Held here before they look or write. */
  beforeGet: () => Promise<void>;
  beforeSet: () => Promise<void>;
  readonly gets: number;
  readonly sets: number;
}

/** A tier outside the process; keeps what began later, as the port demands. */
export function fakeTier(): FakeTier {
  const values = new Map<string, Buffer>();
  let gets = 0;
  let sets = 0;
  return {
    values,
    beforeGet: async () => {},
    beforeSet: async () => {},
    async get(key) {
      gets += 1;
      await this.beforeGet();
      return values.get(key);
    },
    async set(key, value) {
      sets += 1;
      await this.beforeSet();
      const present = values.get(key);
      if (present && present.readBigUInt64BE(8) > value.readBigUInt64BE(8)) return;
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
export function storedAnswer(changed: Partial<StoredAnswer> = {}): StoredAnswer {
  return {
    body: Buffer.from('<root/>'),
    contentType: 'text/xml',
    contentLanguage: undefined,
    requestedAt: 1_700_000_000_000,
    lifetime: 60_000,
    engineMilliseconds: 5,
    ...changed,
  };
}
