import { Readable } from 'node:stream';
import type { ApiExchange } from '../../../src/api/api.ts';
import { StorageUnavailable } from '../../../src/common/errors.ts';
import type { RoleStore } from '../../../src/roles/role.ts';
import { createHistory } from '../history.ts';
import { createLink } from '../links.ts';
import type { Program } from '../program.ts';
import type { Run, Settings, Simulation } from '../simulation.ts';
import { oneIn, pick, type Random, randomSources } from '../random.ts';
import { createProcess, createTime, type SimulatedProcess } from '../time.ts';

/** What shares by roles, and what changes them. */
const ROLE_PARTS = ['operations', 'sets'] as const;
type RoleProgram = Pick<Program, (typeof ROLE_PARTS)[number]>;

export interface RoleSettings extends Settings {
  readonly gateways: number;
  /** Queries at one time. */
  readonly clients: number;
}

/** Of each gateway (ms). */
const LEASES = [100, 300, 1_000];
/** Queries of one run. */
const QUERIES = 5_000;

export const ROLES: Simulation<RoleSettings> = {
  name: 'roles',
  parts: ROLE_PARTS,
  settingsOf: (seed) => ({ seed, steps: QUERIES, gateways: LEASES.length, clients: 8 }),
  simpler: (settings) => [
    ...(settings.gateways > 1 ? [{ ...settings, gateways: settings.gateways - 1 }] : []),
    ...(settings.clients > 1 ? [{ ...settings, clients: settings.clients / 2 }] : []),
  ],
  run: runRoles,
};

const LONGEST_LEASE = 2_000;
const RATES = [1, 1.04, 0.96];
const USERS = ['alice', 'bob', 'carol', 'dave'];
const ROLE_IDS = [2, 3, 4];
/** Between two queries of one user, and two changes of one administrator, at most (ms). */
const THINKS = 60;
const PAUSE = 1_000;
/** How long an administrator waits for an answer, at most (ms); then the change is sent again. */
const PATIENCE = 10_000;
const IMPATIENCE = 100;
/** How long a gateway stands still at most (ms), and how long it does not between two of these. */
const STALL = 1_500;
const CALM = 8_000;

/** The roles of a user from one change to the next. */
interface State {
  readonly ids: readonly number[];
  /** When the change that ended it was acknowledged (ms); undefined: not yet, or never. */
  overAt: number | undefined;
}

/** Roles in a storage, of which each change renews one token. */
function createStorage(now: () => number) {
  const states = new Map(USERS.map((user) => [user, [{ ids: [], overAt: undefined }] as State[]]));
  const statesOf = (user: string) => states.get(user) ?? [];
  let token = 0;
  const leases = new Set<number>();

  function change(user: string, make: (ids: readonly number[]) => readonly number[]): void {
    const ids = make(statesOf(user).at(-1)?.ids ?? []);
    statesOf(user).push({ ids: [...ids].sort(), overAt: undefined });
    token += 1;
  }

  const has = (user: string, id: number) => statesOf(user).at(-1)?.ids.includes(id) === true;
  const roles: Pick<RoleStore, 'addMember' | 'removeMember' | 'roleSet' | 'token' | 'lease'> = {
    async addMember(id, _roleName, { name }) {
      if (has(name, id)) return 'already-member';
      change(name, (ids) => [...ids, id]);
      return 'done';
    },
    async removeMember(id, _roleName, { name }) {
      if (!has(name, id)) return 'not-a-member';
      change(name, (ids) => ids.filter((other) => other !== id));
      return 'done';
    },
    roleSet: async (user) => ({ token: `${token}`, ids: statesOf(user).at(-1)?.ids ?? [] }),
    async token(lease) {
      leases.add(lease);
      return `${token}`;
    },
    lease: async () => Math.max(0, ...leases),
  };
  return {
    roles,
    /** What may still be true of a user whose request came at that moment (ms). */
    truths: (user: string, moment: number) =>
      statesOf(user).filter(({ overAt }) => overAt === undefined || overAt >= moment),
    /** All but the latest state is over for who comes from now on. */
    acknowledge(user: string): void {
      for (const state of statesOf(user).slice(0, -1)) state.overAt ??= now();
    },
  };
}

/** One administrator's request. */
function exchangeOf(user: string, id: number): ApiExchange {
  const body = { name: `role ${id}`, contains: [{ type: 'user', name: user }] };
  const request = Object.assign(Readable.from([Buffer.from(JSON.stringify(body))]), {
    headers: { 'content-type': 'application/json' },
    rawHeaders: ['content-type', 'application/json'],
  });
  return { request, parameters: { roleId: `${id}` }, facts: { subject: '' } } as never;
}

/**
 * Users whose queries share by their roles, at gateways over one storage, while administrators change these: once a change
 * was acknowledged, no gateway gives a user a name for roles that the user had before. The same for the same seed.
 */
async function runRoles(program: RoleProgram, settings: RoleSettings): Promise<Run> {
  const sources = randomSources(settings.seed);
  const [random, weather] = [sources(0), sources(1)];
  const time = createTime();
  const { now } = time.clock;
  const storage = createStorage(now);
  const history = createHistory(now);
  let [queries, named, changes] = [0, 0, 0];

  /** The storage as one gateway reaches it. */
  function reach(home: SimulatedProcess, draw: Random): typeof storage.roles {
    const habits = { slowOneIn: 20, slowMs: 150, loseOneIn: 200 };
    const link = createLink({ time, home, random: draw, lanes: { storage: 1_000 }, habits });
    const ask = <T>(run: () => Promise<T>): Promise<T> =>
      link.ask('storage', run).catch((error) => {
        throw new StorageUnavailable('unknown', { cause: error });
      });
    return {
      addMember: (...asked) => ask(() => storage.roles.addMember(...asked)),
      removeMember: (...asked) => ask(() => storage.roles.removeMember(...asked)),
      roleSet: (user) => ask(() => storage.roles.roleSet(user)),
      token: (lease) => ask(() => storage.roles.token(lease)),
      lease: () => ask(() => storage.roles.lease()),
    };
  }

  const gateways = LEASES.slice(0, settings.gateways).map((lease, number) => {
    const home = createProcess(time, RATES[number]);
    const roles = reach(home, sources(10 + number));
    const operations = program.operations.createRoleOperations({
      ...{ roles: roles as RoleStore, sleep: home.sleep, longestLease: LONGEST_LEASE },
      limits: { body: 10_000, dataset: 10_000 },
    });
    const sets = program.sets.createRoleSets({
      ...{ storage: { id: async () => 'storage', roles }, lease, clock: home.clock },
      ...{ isLookAlike: () => false, onError() {} },
    });
    return { number, home, operations, sets };
  });

  async function query(
    user = pick(random, USERS),
    gateway = pick(random, gateways),
  ): Promise<void> {
    const { number, sets } = gateway;
    const since = now();
    const name = oneIn(random, 2) ? await sets.nameFor(user) : sets.heldName(user);
    queries += 1;
    if (name === undefined) return;
    named += 1;
    const ids = name.split(':').at(-1) ?? '';
    const truths = storage.truths(user, since).map((state) => state.ids.join(','));
    history.note(`${user} at ${number}: shares as ${name}`);
    if (truths.includes(ids)) return;
    history.accuse(`${user} at ${number}: ${ids} instead of ${truths.join(' or ')}`);
  }

  /** @returns whether a client takes the change for done, if it is told in time */
  async function send(user: string, id: number, how: 'addUser' | 'removeUser', patienceMs: number) {
    const { number, operations } = pick(random, gateways);
    const words = `${how} ${id}, ${user} at ${number}`;
    history.note(`${words} …`);
    const answered = operations[how](exchangeOf(user, id)).then(
      () => true,
      // What an attempt without an answer has made is taken for done when it is tried again.
      (error: Error) => /this user is/.test(error.message),
    );
    const isDone = await Promise.race([answered, time.sleep(patienceMs).then(() => false)]);
    history.note(`… ${words}: ${isDone ? 'acknowledged' : 'not acknowledged'}`);
    return isDone;
  }

  async function change(user: string): Promise<void> {
    const id = pick(random, ROLE_IDS);
    const how = pick(random, ['addUser', 'removeUser'] as const);
    const isImpatient = oneIn(random, 3);
    const atAll = () => Promise.all(gateways.map((gateway) => query(user, gateway)));
    // All use then what they have read shortly before.
    await atAll();
    const isDone =
      (await send(user, id, how, isImpatient ? random(IMPATIENCE) : PATIENCE)) ||
      (await send(user, id, how, PATIENCE));
    if (!isDone) return;
    changes += 1;
    storage.acknowledge(user);
    await atAll();
  }

  let failure: unknown;
  const repeat = async (pauseMs: number, act: () => Promise<void>) => {
    for (;;) {
      await time.sleep(random(pauseMs));
      await act();
    }
  };
  const start = (many: number, pauseMs: number, act: () => Promise<void>) => {
    for (let one = 0; one < many; one += 1) {
      void repeat(pauseMs, act).catch((error) => (failure = error));
    }
  };
  start(settings.clients, THINKS, () => query());
  // One administrator for each, so that each acknowledgement is of one change.
  for (const user of USERS) start(1, PAUSE, () => change(user));
  start(1, CALM, async () => pick(weather, gateways).home.stall(weather(STALL)));
  await time.run(
    () => failure !== undefined || history.violations.length > 0 || queries >= settings.steps,
  );
  if (failure !== undefined) throw failure;
  const { violations, digest } = history;
  return { violations, steps: queries, counts: { named, changes }, digest: digest() };
}
