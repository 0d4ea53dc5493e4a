import type { EngineKind } from '../../../src/common/engine-kinds.ts';
import { principalOf } from '../../../src/common/principal.ts';
import type { SessionAnswer } from '../../support/session-model.ts';
import { createSessionLink, type SessionLink } from './session-link.ts';
import type { Program } from '../program.ts';
import { SESSION_PARTS } from './house.ts';
import { asSent, askedIn, type Shape } from './shapes.ts';
import type { SharedStore } from './stores.ts';
import type { SimulatedTime } from '../time.ts';
import type { World } from './world.ts';

/** Registries and stores of sessions, and the line from the understood request to its answer. */
export const REQUEST_PARTS = [
  ...SESSION_PARTS,
  ...(['errors', 'pass', 'query', 'step', 'understand', 'redis'] as const),
];
export type RequestProgram = Pick<Program, (typeof REQUEST_PARTS)[number]>;

/** What became of a request. */
export interface Answered {
  readonly from: 'cache' | 'engine' | 'gateway';
  /** Why it went past the cache, or was refused. */
  readonly reason: string | undefined;
  /** What the answer holds, as text; undefined where it holds no data. */
  readonly stamp: string | undefined;
  /** The id of the session that it began. */
  readonly began: string | undefined;
  /** Whether it is kept for others. */
  readonly isKept: boolean;
}

export interface OracleGateway {
  readonly number: number;
  readonly link: SessionLink;
  /**
   * @param told.arrives called when the engine takes it up
   * @param told.isSure whether something may be proven by it; what may not is kept for no other request
   */
  ask(
    user: string,
    shape: Shape,
    id: string | undefined,
    told: { readonly arrives: () => void; readonly isSure: () => boolean },
  ): Promise<Answered>;
}

/** What the engine takes at most before and behind what it does (ms). */
const ENGINE = 30;

/** The engine as the line addresses it. */
export const settingsOf = (kind: EngineKind) =>
  ({
    kind,
    login: 'forward',
    headers: [],
    delegation: 'forward',
    session_idle: undefined,
  }) as const;

/** The line of one gateway from the understood request to its answer, on its own way to the store. */
export function openGateway(options: {
  number: number;
  kind: EngineKind;
  program: RequestProgram;
  store: SharedStore;
  /** The answers that all gateways share, by their keys. They are never too old. */
  answers: Map<string, string>;
  world: World;
  time: SimulatedTime;
  lease: number;
  newToken: () => string;
  random: (below: number) => number;
  /** Told of each session that the engine has begun, before the gateway is. */
  onBegun: (id: string, user: string) => void;
}): OracleGateway {
  const { number, kind, program, answers, world, time, random } = options;
  const { createPass } = program.pass;
  const { createExamine, enterSession } = program.step;
  const link = createSessionLink({ ...options, store: options.store.of(`${number}`) });
  const { createUnnoted, noteIn } = program.unnoted;
  const common = { store: link.store, sleep: time.sleep, newToken: options.newToken };
  const sessions = program.sessions.createSessions({
    ...common,
    clock: time.clock,
    lease: () => options.lease,
    onError: () => {},
    unnoted: createUnnoted(noteIn(common, time.sleep), time.sleep),
  });
  const line = {
    sessions,
    config: { auth: { provider: 'file' }, cache: {} },
    permissions: { mayPurge: () => false },
    names: { admit: () => true, answered: () => {} },
    policyOf: () => ({ cache: 'on', ttl: 60_000, share: 'user', functions: new Set() }),
    judges: [],
    roleSets: {},
    seen: [],
    invalidate: async () => true,
  };
  const queryOf = program.query.createQueryOf(line as never);
  const examine = createExamine(line as never);
  const pass = createPass(line as never);

  /** One request at the engine. */
  function visit(user: string, shape: Shape, id: string | undefined, arrives: () => void) {
    let answer: SessionAnswer | undefined;
    let began: string | undefined;
    return {
      facts: { id: '', why: '' },
      request: { method: 'POST' },
      engineStep() {},
      async go(): Promise<SessionAnswer> {
        await time.sleep(1 + random(ENGINE));
        arrives();
        const reuse = link.mood() === 'up' ? 6 : 2;
        answer = world.answer(asSent(shape, user, id), shape.what === 'statement', reuse);
        if (shape.what === 'begin') {
          began = /SessionId="([^"]*)"/u.exec(answer.text)?.[1];
          if (began !== undefined) options.onBegun(began, user);
        }
        await time.sleep(1 + random(ENGINE));
        return answer;
      },
      /** What came of it. */
      seen: () => ({
        stamp: answer?.stamp && JSON.stringify(answer.stamp),
        began,
        isKept: false,
      }),
    };
  }
  type Visit = ReturnType<typeof visit>;

  const engine = {
    id: 'engine',
    tellsProject: false,
    replicaFor: () => 'replica',
    async ask(...[, , , , , client]: readonly unknown[]) {
      await (client as Visit).go();
      return { replica: 'replica' };
    },
    async passThrough(...[, client, , , watch]: readonly unknown[]) {
      const told = watch as ReturnType<typeof program.pass.watchFor>;
      const { text } = await (client as Visit).go();
      const headers = { 'content-type': 'text/xml' };
      told?.head({ status: 200, statusMessage: 'OK', headers });
      await told?.write(Buffer.from(text));
      await told?.end('whole');
    },
  };
  const chosen = { engine, settings: settingsOf(kind), volatile: [] };

  async function answerTo(
    ...[user, shape, id, { arrives, isSure }]: Parameters<OracleGateway['ask']>
  ): Promise<Answered> {
    const principal = principalOf(user);
    const destination = program.understand.destinationOf(
      chosen as never,
      { project: undefined, search: '' } as never,
      principal,
    );
    const read = askedIn(shape, id);
    const { asked, purges, step: planned } = await examine(read, destination, principal);
    const step = await enterSession(asked, planned, sessions);
    const client = visit(user, shape, id, arrives);
    const { body } = shape;
    const past = async (reason: NonNullable<typeof step.reason>): Promise<Answered> => {
      const passing = { client, principal, destination, asked, body, step, purges };
      await pass(passing as never, reason);
      return { from: 'engine', reason, ...client.seen() };
    };
    const bypass = step.reason ?? asked.bypass;
    if (bypass !== undefined) return past(bypass);
    const session = step.known;
    const query = await queryOf({
      ...{ asked, destination, principal, body, session, fresh: false },
      client: client as never,
    });
    if (typeof query === 'string') return past(query);
    const { parts } = query;
    const key = JSON.stringify([parts.asked.hash, parts.identity, parts.session]);
    const found = answers.get(key);
    const none = { reason: undefined, began: undefined, isKept: false };
    if (found !== undefined) return { ...none, from: 'cache', stamp: found };
    await query.ask(new AbortController().signal);
    const { stamp } = client.seen();
    const isKept =
      stamp !== undefined && (query.session === undefined || (await query.session.confirm()));
    if (isKept && isSure()) answers.set(key, stamp);
    return { ...none, from: 'engine', stamp, isKept };
  }

  return {
    number,
    link,
    async ask(...asked) {
      try {
        return await answerTo(...asked);
      } catch (error) {
        if (!(error instanceof program.errors.GatewayError)) throw error;
        const { reason } = error;
        return { from: 'gateway', reason, stamp: undefined, began: undefined, isKept: false };
      }
    },
  };
}
