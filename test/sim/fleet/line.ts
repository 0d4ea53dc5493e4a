import type { Cache } from '../../../src/compose/cache.ts';
import type { BodyAccount } from '../../../src/common/body-account.ts';
import type { Clock } from '../../../src/common/clock.ts';
import type { Emit } from '../../../src/common/events.ts';
import type { Config } from '../../../src/config/config.ts';
import type { Authenticator } from '../../../src/auth/authenticator.ts';
import type { Outcome } from '../../../src/common/events.ts';
import type { Known, KnownHead } from '../../../src/line/memo.ts';
import type { Judge, Seen } from '../../../src/line/ports.ts';
import type { createClient, SimulatedRequest } from './client.ts';
import { type Asker, REPLICA, type SimulatedEngine } from './engine.ts';
import type { FleetProgram } from './gateway.ts';
import { CONTROLLER, questionIn, understood, whoseOf, wordOf } from './questions.ts';

type Client = ReturnType<typeof createClient>['client'];

/** No request has a session here: nothing is found, begun or changed. */
const NO_SESSIONS = {};
const NO_STEP = {
  ...{ reason: undefined, before: 'nothing', names: [], named: undefined, known: undefined },
  ...{ begins: false, replica: undefined },
} as const;

interface Options {
  readonly program: FleetProgram;
  readonly config: Config;
  readonly cache: Pick<Cache, 'queryCache' | 'memory'>;
  readonly account: BodyAccount;
  readonly clock: Clock;
  readonly emit: Emit;
  readonly authenticator: Authenticator;
  readonly judges: Iterable<Judge>;
  readonly engine: SimulatedEngine;
  readonly asker: Asker;
  readonly seen: Pick<Seen, 'ending'>;
  /** Told of a request that a user does not wait for; what is returned tells of its end. */
  readonly asksAhead: (word: string, user: string) => () => void;
}

/** What `src/engine/http-engine.ts` is to the line, before the simulated engine. */
function engineFor({ engine, asker, config, asksAhead }: Options) {
  const askFor = (user: string, body: Buffer, isAhead = false) => {
    const question = questionIn(body);
    const { places } = question;
    const word = wordOf(user, question);
    const timeoutMs = config.engine.timeout;
    const over = isAhead ? asksAhead(word, user) : undefined;
    const asked = engine.ask(asker, { whose: whoseOf(user, places), places, timeoutMs, word });
    return over === undefined ? asked : asked.finally(over);
  };
  return {
    id: 'engine',
    tellsProject: true,
    replicaFor: () => REPLICA,
    isAway: () => asker.away.isAway([REPLICA]),
    ask: (to: { user: string; admitted?: unknown }, _headers: unknown, body: Buffer) =>
      askFor(to.user, body, to.admitted !== undefined),
    async passThrough(to: { user: string }, client: Client, outcome: Outcome, body: Buffer) {
      try {
        const answer = await askFor(to.user, body);
        client.open(answer.head, outcome);
        for await (const piece of answer.body) client.write(piece);
        client.end(answer.length(), undefined);
      } catch (error) {
        client.fail('reason' in (error as object) ? error : asker.failure('engine-unreachable'));
      }
    },
  };
}

/** Recognises requests, as `src/line/memo.ts` does by their bytes. */
function memoOf({ program, authenticator }: Options) {
  type Handled = { request: SimulatedRequest; body: Buffer; destination: KnownHead };
  const heads = new Map<string, KnownHead>();
  const answers = new Map<KnownHead, Map<Buffer, Known['answer']>>();
  const nameOf = ({ url, headers }: SimulatedRequest) =>
    `${headers.authorization} ${url} ${headers['cache-control']}`;

  return {
    headOf: (request: SimulatedRequest) => heads.get(nameOf(request)),
    recognise(head: KnownHead | undefined, body: Buffer): Known | undefined {
      const answer = head && answers.get(head)?.get(body);
      if (head === undefined || answer === undefined) return undefined;
      const asked = understood(program, body);
      return { head, sessionId: undefined, asked, answer, recognised: undefined };
    },
    read: async ({ body }: { body: Buffer }) => ({ body, asked: understood(program, body) }),
    remember({ request, body, destination }: Handled, answer?: Known['answer']): void {
      if (answer === undefined) return;
      const login = authenticator.remembered(request.headers.authorization ?? '');
      if (login === undefined) return;
      const name = nameOf(request);
      const { endpoint, engine, settings, user, project } = destination;
      const made = { endpoint, engine, settings, user, project, wishes: { page: undefined } };
      const head = heads.get(name) ?? ({ ...made, login, places: {}, layouts: [] } as never);
      head.login = login;
      heads.set(name, head);
      const known = answers.get(head) ?? new Map<Buffer, Known['answer']>();
      answers.set(head, known.set(body, answer));
    },
  };
}

/** The steps of a request under one configuration, as `src/compose/line.ts` wires them. */
export function openLine(options: Options) {
  const { program, config, cache, account, clock, authenticator, judges } = options;
  const { limits, engine } = config;
  const chosen = {
    engine: engineFor(options),
    settings: { ...engine, login: 'none', headers: [] },
    volatile: new Set<string>(),
  };
  const permissions = {
    mayControlCache: ({ name }: { name: string }) => name === CONTROLLER,
    mayPurge: () => false,
  };
  const memo = memoOf(options);
  const common = {
    ...{ config, cache: cache.queryCache, account, clock, emit: options.emit, judges, permissions },
    ...{ authenticator, memo, sessions: NO_SESSIONS, engineOf: () => chosen },
    roleSets: { nameFor: async () => undefined, heldName: () => undefined },
    names: { answered() {} },
    policyOf: program.projects.projectPolicy(config),
    seen: [{ query() {}, beginning() {}, ...options.seen }],
    dropped: { note() {} },
    examine: async (asked: unknown) => ({ asked, purges: false, step: NO_STEP }),
    keepAlive: async () => undefined,
    work: { begin() {}, end() {} },
    pass: async (
      { client, principal, body }: { client: Client; principal: { name: string }; body: Buffer },
      detail: string,
    ) => chosen.engine.passThrough({ user: principal.name }, client, bypass(detail), body),
  };
  const queryOf = program.query.createQueryOf(common as never);
  const stands = program.replay.createStands(common as never);
  const ifError = program.replay.createIfError({ ...common, stands } as never);
  const steps = { ...common, queryOf, stands, ifError };
  const login = async ({ headers }: SimulatedRequest, id: string) =>
    authenticator.authenticate(headers.authorization, { id, address: 'simulated' });
  const handle = program.handler.createXmlaHandler({
    ...steps,
    login,
    clientOf: (_request: unknown, client: Client) => client,
    replay: program.replay.createReplay(steps as never),
    maxBodyBytes: limits.body,
    believedHit: program.believed.createBelievedHit(steps as never),
    answerBody: program.handler.createAnswerBody(steps as never),
    clearCache: async () => {},
  } as never);
  return {
    queryOf,
    /** The client is told all that comes of it. */
    handle: (request: SimulatedRequest, client: Client) =>
      handle(request as never, client as never),
    destinationFor: (project: string | undefined, user: string) =>
      program.understand.destinationOf(
        chosen as never,
        { project, search: '' },
        program.principal.principalOf(user),
      ),
  };
}

const bypass = (detail: string) => ({ kind: 'bypass', detail }) as Outcome;
