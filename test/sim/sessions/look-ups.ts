import type { SessionName } from '../../../src/sessions/digests.ts';
import type { FoundSession } from '../../../src/sessions/sessions.ts';
import { createHistory } from '../history.ts';
import type { Mood } from '../links.ts';
import { oneIn, pick, randomSources } from '../random.ts';
import { createTime } from '../time.ts';
import type { Run, Settings, Simulation } from '../simulation.ts';
import {
  FORMS,
  LONGEST_LEASE,
  openHouse,
  SESSION_PARTS,
  type Form,
  type SessionProgram,
  type SimulatedGateway,
} from './house.ts';

/** What may go wrong. */
export const FAULTS = [
  ...['slow links', 'lost messages', 'doubled messages', 'reordered messages'],
  ...['outages', 'restarts', 'evictions', 'crashes', 'stalls', 'skewed clocks', 'set clocks'],
] as const;
export type Fault = (typeof FAULTS)[number];

export interface LookUpSettings extends Settings {
  readonly form: Form;
  readonly gateways: number;
  readonly actors: number;
  readonly faults: readonly string[];
}

/** One session, from its beginning to its end, with what was promised of it. */
interface Life {
  readonly name: SessionName;
  /** When the first one of its name began (ms), and whether that was another one: gateways may still know that. */
  readonly nameSince: number;
  readonly isAgain: boolean;
  /** Whether the store was told of it. */
  isNoted: boolean;
  /** A change was acknowledged: no gateway takes it for clean any more. */
  dirty: boolean;
  /** The same, for a gateway that works in another catalog. */
  readonly catalogs: Set<string | null>;
  /** Actions that are under way in it. */
  underWay: number;
  /** When its end was asked for (ms). */
  overAt: number | undefined;
}

const PLACE = 'engine';
/** Sessions at one time; the latest few are asked for most. */
const MOST_LIVES = 24;
const HOT = 4;
/** Between two actions of one actor, at most (ms). */
const THINKS = 40;
/** How long a query takes at the engine, at most (ms); now and then longer than a lease. */
const QUERY = 60;
const LONG_QUERY = 2_500;
/** A slow hop takes so long at most (ms): less than is waited for an answer. */
const SLOW = 90;
/** Between two disturbances, at most (ms). */
const CALM = 6_000;
/** How long an outage lasts, and a stall, at most (ms). */
const AWAY = 3_000;
const STALL = 1_500;
const MOODS: readonly Mood[] = ['cut', 'hung', 'mute'];

/** Look-ups of one run. Each has another seed, and with it another form and other faults. */
const MOST = 4_000;
/** So few faults at one time that they leave something to be lost. */
const MOST_FAULTS = 3;

export const LOOK_UPS: Simulation<LookUpSettings> = {
  name: 'look-ups',
  parts: SESSION_PARTS,
  settingsOf(seed) {
    const random = randomSources(seed)(9);
    const form = FORMS[random(FORMS.length)] ?? 'redis';
    const chance = random(MOST_FAULTS + 1);
    const faults = FAULTS.filter(() => random(FAULTS.length) < chance);
    const many = { gateways: 2 + random(3), actors: 6 + random(8) };
    return { seed, steps: MOST, form, ...many, faults };
  },
  simpler: (settings) => [
    ...settings.faults.map((gone) => ({
      ...settings,
      faults: settings.faults.filter((fault) => fault !== gone),
    })),
    ...(settings.gateways > 2 ? [{ ...settings, gateways: settings.gateways - 1 }] : []),
    ...(settings.actors > 2 ? [{ ...settings, actors: Math.ceil(settings.actors / 2) }] : []),
    ...(settings.form === 'workers and redis' ? [{ ...settings, form: 'redis' as const }] : []),
  ],
  run: runLookUps,
};

/**
 * Actors that change sessions and look them up, at any gateway, until so many look-ups were judged or a promise was broken:
 * what was made dirty, or given a catalog, is taken for clean by no gateway once that was acknowledged, and nothing is
 * confirmed behind it. The same for the same settings.
 */
async function runLookUps(program: SessionProgram, settings: LookUpSettings): Promise<Run> {
  const { faults } = settings;
  const sources = randomSources(settings.seed);
  const [random, weather] = [sources(0), sources(1)];
  const does = (fault: Fault) => faults.includes(fault);
  const time = createTime();
  const { now } = time.clock;
  const history = createHistory(now);
  const house = openHouse({
    ...settings,
    ...{ program, time, random: sources(2), isSkewed: does('skewed clocks') },
    habits: {
      slowOneIn: does('slow links') ? 10 : 0,
      slowMs: SLOW,
      loseOneIn: does('lost messages') ? 500 : 0,
      doubleOneIn: does('doubled messages') ? 30 : 0,
      reorderOneIn: does('reordered messages') ? 10 : 0,
    },
  });
  const { gateways } = house;
  const { violations } = history;
  const counts: Record<string, number> = {};
  const lives: Life[] = [];
  const ended: Life[] = [];
  let lookUps = 0;
  let ids = 0;
  let lossAt = -Infinity;

  const count = (what: string) => void (counts[what] = (counts[what] ?? 0) + 1);
  /** An action of another session says nothing about it. */
  function accuse({ name: { id } }: Life, { number }: SimulatedGateway, words: string): void {
    history.accuse(`${id} at ${number}: ${words}`, [id]);
  }
  const anyGateway = () => pick(random, gateways);
  /** An id is given out again when no gateway uses what it read of it, or is about to note it. */
  const isFree = ({ overAt = now(), isNoted, underWay }: Life) =>
    isNoted && underWay === 0 && now() - overAt > 2 * LONGEST_LEASE;
  /** Races are won where many meet in one session, and in one that is clean. */
  function anyLife(): Life {
    if (oneIn(random, 6)) return pick(random, lives);
    const clean = lives.filter(({ dirty, overAt }) => !dirty && overAt === undefined);
    const among = clean.length > 0 && !oneIn(random, 4) ? clean : lives;
    return among[among.length - 1 - random(Math.min(HOT, among.length))] as Life;
  }

  /** One action at a gateway, with its outcome in the history. */
  async function act(
    life: Life,
    gateway: SimulatedGateway,
    what: string,
    run: () => Promise<string>,
  ): Promise<void> {
    const words = `${life.name.id} at ${gateway.number}: ${what}`;
    // What makes all dirty is about all.
    const about = what === 'dirtyAll' ? undefined : [life.name.id];
    history.note(`${words} …`, about);
    life.underWay += 1;
    const outcome = await run();
    life.underWay -= 1;
    count(`${what.split(' ')[0]}: ${outcome}`);
    history.note(`… ${words}: ${outcome}`, about);
  }

  async function begin(): Promise<void> {
    const before = oneIn(random, 3) ? ended.find(isFree) : undefined;
    if (before !== undefined) ended.splice(ended.indexOf(before), 1);
    const name = before?.name ?? { endpoint: PLACE, id: `session-${(ids += 1)}` };
    const catalog = oneIn(random, 4) ? 'Sales' : null;
    const dirty = oneIn(random, 8);
    const life: Life = {
      ...{ name, isAgain: before !== undefined, nameSince: before?.nameSince ?? now() },
      ...{ isNoted: true, overAt: undefined, underWay: 0 },
      dirty: dirty && before === undefined,
      catalogs: new Set(catalog !== null && before === undefined ? [catalog] : []),
    };
    const gateway = anyGateway();
    const given = { principal: 'alice', profile: `in ${catalog}`, catalog, replica: '', dirty };
    await act(life, gateway, `begin in ${catalog}${dirty ? ', dirty' : ''}`, async () => {
      life.isNoted = await gateway.sessions.begin(name, given);
      lives.push(life);
      const gone =
        lives.length > MOST_LIVES ? lives.findIndex(({ underWay }) => underWay === 0) : -1;
      if (gone >= 0) lives.splice(gone, 1);
      return life.isNoted ? 'noted' : 'known here alone';
    });
    if (oneIn(random, 3)) await firstClicks(life);
  }

  const makeDirty = (life: Life, gateway: SimulatedGateway) =>
    act(life, gateway, 'dirty', async () => {
      const isDone = await gateway.sessions.dirty([life.name]);
      life.dirty ||= isDone;
      return isDone ? 'acknowledged' : 'refused';
    });

  const makeAllDirty = (life: Life, gateway: SimulatedGateway) =>
    act(life, gateway, 'dirtyAll', async () => {
      const all = [...lives];
      if (!(await gateway.sessions.dirtyAll())) return 'refused';
      for (const each of all) each.dirty = true;
      return 'acknowledged';
    });

  /** The engine is told of a change of catalog once no gateway works without it. */
  const takeCatalog = (life: Life, gateway: SimulatedGateway) =>
    act(life, gateway, 'catalog', async () => {
      const found = await gateway.sessions.find(life.name);
      const record = cleanRecord(found);
      if (record === undefined) return 'not clean';
      if (record.catalog !== null) {
        await gateway.sessions.settled(record);
        life.catalogs.add(record.catalog);
        return 'settled';
      }
      const catalog = pick(random, ['Sales', 'HR']);
      const next = { catalog, profile: `in ${catalog}` };
      if (!(await gateway.sessions.takeCatalog(life.name, record, next))) return 'refused';
      life.catalogs.add(catalog);
      return `${catalog} acknowledged`;
    });

  const end = (life: Life, gateway: SimulatedGateway) =>
    act(life, gateway, 'end', async () => {
      life.overAt ??= now();
      await gateway.sessions.end(life.name);
      const at = lives.indexOf(life);
      if (at >= 0) ended.push(...lives.splice(at, 1));
      return 'ended';
    });

  /** What may not be, of a record that a gateway takes for clean. */
  function judge(
    life: Life,
    gateway: SimulatedGateway,
    promised: Pick<Life, 'dirty' | 'catalogs'>,
    record: { readonly catalog: string | null; readonly profile: string },
    what: string,
  ): void {
    if (life.overAt !== undefined || !isSure(life)) return;
    const { catalog, profile } = record;
    if (promised.dirty) accuse(life, gateway, `${what} though it was made dirty`);
    if (profile !== `in ${catalog}`) accuse(life, gateway, `${what} in ${catalog} as '${profile}'`);
    const others = [...promised.catalogs].filter((other) => other !== catalog);
    if (others.length > 0) {
      accuse(life, gateway, `${what} in ${catalog} though it works in ${others.join()}`);
    }
  }
  /** What a gateway knows of another one of its name, and the store does not, counts there until that was noted. */
  const isSure = ({ isAgain, isNoted, nameSince }: Life) =>
    !isAgain ||
    (isNoted && nameSince > lossAt && !gateways.some(({ failedSince }) => failedSince(nameSince)));
  const promisedNow = ({ dirty, catalogs }: Life) => ({ dirty, catalogs: new Set(catalogs) });

  const lookUp = (life: Life, gateway: SimulatedGateway) =>
    act(life, gateway, 'find', async () => {
      const { sessions } = gateway;
      const before = promisedNow(life);
      const record = cleanRecord(await sessions.find(life.name));
      lookUps += 1;
      if (record === undefined) return 'not clean';
      judge(life, gateway, before, record, 'found clean');
      if (oneIn(random, 4)) sessions.forwarded(life.name, record);
      if (!oneIn(random, 3)) return 'clean';
      await time.sleep(random(oneIn(random, 6) ? LONG_QUERY : QUERY));
      const meanwhile = promisedNow(life);
      if (!(await sessions.confirm(life.name, record))) return 'not confirmed';
      judge(life, gateway, meanwhile, record, 'confirmed');
      return 'confirmed';
    });

  const atAll = (life: Life) =>
    Promise.all(gateways.map((gateway) => lookUp(life, gateway))).then(() => undefined);

  /** A client that has just begun clicks several times at once. */
  const firstClicks = (life: Life) =>
    Promise.all(
      gateways.map(async (gateway) => {
        await time.sleep(random(THINKS));
        await takeCatalog(life, gateway);
        await atAll(life);
      }),
    );

  /** Who holds it as clean has read it shortly before, and is asked for it as soon as the change was acknowledged. */
  async function change(make: (life: Life, gateway: SimulatedGateway) => Promise<void>) {
    const life = anyLife();
    const isSeen = oneIn(random, 2);
    if (isSeen) await Promise.all(gateways.map(({ sessions }) => sessions.find(life.name)));
    const one = async () => {
      await make(life, anyGateway());
      if (isSeen) await atAll(life);
    };
    // Two clicks of one client, at two gateways.
    await Promise.all(oneIn(random, 3) ? [one(), one()] : [one()]);
  }

  async function actOn(): Promise<void> {
    for (;;) {
      await time.sleep(random(THINKS));
      const what = random(200);
      if (lives.length < 3 || what < 8) await begin();
      else if (what < 16) await change(makeDirty);
      else if (what < 17) await change(makeAllDirty);
      else if (what < 28) await change(takeCatalog);
      else if (what < 31) await end(anyLife(), anyGateway());
      else await lookUp(anyLife(), anyGateway());
    }
  }

  const DISTURBANCES: Partial<Record<Fault, () => void>> = {
    outages() {
      const mood = pick(weather, MOODS);
      const lost = gateways.filter(() => oneIn(weather, 2));
      for (const { number, set } of lost) {
        history.note(`gateway ${number} loses the store (${mood})`);
        set(mood);
        time.after(weather(AWAY), () => {
          history.note(`gateway ${number} may find the store`);
          set('up');
        });
      }
    },
    restarts() {
      const comesBack = pick(weather, ['empty', 'as it was saved'] as const);
      history.note(`the store restarts, ${comesBack}`);
      lossAt = now();
      house.redis.restart(comesBack);
    },
    evictions() {
      lossAt = now();
      for (let keys = weather(4); keys >= 0; keys -= 1) house.redis.evict(weather);
    },
    crashes() {
      const number = weather(gateways.length);
      history.note(`gateway ${number} dies`);
      house.replace(number);
    },
    stalls() {
      const { number, home } = pick(weather, gateways);
      history.note(`gateway ${number} stands still`);
      home.stall(weather(STALL));
    },
    'set clocks'() {
      const { number, home } = pick(weather, gateways);
      history.note(`the wall clock of gateway ${number} is set`);
      home.setWall(weather(10_000) - 5_000);
    },
  };

  function disturb(): void {
    const happening = faults.flatMap((fault) => DISTURBANCES[fault as Fault] ?? []);
    if (happening.length === 0) return;
    time.after(weather(CALM), () => {
      if (oneIn(weather, 3)) house.redis.save();
      pick(weather, happening)();
      disturb();
    });
  }

  disturb();
  let failure: unknown;
  for (let actor = 0; actor < settings.actors; actor += 1) {
    void actOn().catch((error) => (failure = error));
  }
  const isOver = () => failure !== undefined || violations.length > 0 || lookUps >= settings.steps;
  await time.run(isOver);
  house.close();
  if (failure !== undefined) throw failure;
  return { violations, steps: lookUps, counts, digest: history.digest() };
}

function cleanRecord(found: FoundSession) {
  return found.kind === 'known' && !found.record.dirty ? found.record : undefined;
}
