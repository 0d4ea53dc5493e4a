import { ENGINE_KIND_NAMES, ENGINE_KINDS } from '../../../src/common/engine-kinds.ts';
import { circumstancesOf } from '../../../src/line/circumstances.ts';
import {
  openGateway,
  REQUEST_PARTS,
  settingsOf,
  type Answered,
  type OracleGateway,
  type RequestProgram,
} from './gateway.ts';
import type { Mood } from '../links.ts';
import { oneIn as drawOneIn, pick as pickFrom, randomSources } from '../random.ts';
import type { Run, Settings, Simulation } from '../simulation.ts';
import { createHistory } from '../history.ts';
import { asSent, makeShapes, type Shape } from './shapes.ts';
import type { OpenStore } from './stores.ts';
import { createTime } from '../time.ts';
import { createWorld, type Life, type Watched } from './world.ts';

/** Whole requests in sessions, before one kind of engine. */
export interface RequestSettings extends Settings {
  readonly gateways: number;
  readonly clients: number;
  /** What happens to gateways and store, again and again; a bit of all unless given. */
  readonly weather?: Weather;
}

/**
 * All gateways lose the store, and find the same one again; it restarts so quickly that few notice; or all is well, and many
 * sessions begin, in each of which many click at once.
 */
export type Weather = 'outages' | 'restarts' | 'beginnings';

/** Of every gateway (ms). */
const LEASE = 300;
const CLIENTS = 10;
/** Requests of one run; so many that outages lie on outages. */
const REQUESTS = 2_500;
const USERS = ['alice', 'bob', 'carol'];
/** Sessions at one time, at most. */
const MOST_SESSIONS = 14;
/** A click comes so long after the answer before, at most (ms). */
const THINKS = 400;
/** Between two outages of one gateway, and for how long one lasts, at most (ms). */
const CALM = 15_000;
const AWAY = 4_000;
/** So far apart gateways lose a store that goes away (ms). */
const APART = 400;
/** Behind the end of an outage all that was begun in it is noted (ms): probe, breaker, tries, and the wait of a lease. */
const NOTED_WITHIN = 3_000;
/** Who failed to reach the store so shortly before may not have heard of what happens now (ms). */
const LOST_LATELY = 1_000;
export const requestsOver = (openStore: OpenStore): Simulation<RequestSettings> => ({
  name: 'requests',
  parts: REQUEST_PARTS,
  settingsOf: (seed) => ({
    ...{ seed, steps: REQUESTS, clients: CLIENTS },
    gateways: 2 + (seed % 3 === 0 ? 1 : 0),
  }),
  simpler: (settings) => [
    ...(settings.gateways > 1 ? [{ ...settings, gateways: settings.gateways - 1 }] : []),
    ...(settings.clients > 1 ? [{ ...settings, clients: Math.ceil(settings.clients / 2) }] : []),
  ],
  run: (program, settings) => runRequests(program, settings, openStore),
});

/**
 * Clients with sessions before gateways that lose and find their store at moments of their own, until so many requests were
 * judged or a promise was broken. The same for the same seed.
 */
async function runRequests(
  program: RequestProgram,
  settings: RequestSettings,
  openStore: OpenStore,
): Promise<Run> {
  const { seed } = settings;
  const drawer = randomSources(seed);
  const random = drawer(0);
  const weather = drawer(1);
  const kind = ENGINE_KIND_NAMES[seed % ENGINE_KIND_NAMES.length] ?? 'generic';
  const traits = ENGINE_KINDS[kind];
  const time = createTime();
  const now = () => time.clock.now();
  let tokens = 0;
  const newToken = () => `token-${seed}-${(tokens += 1)}`;
  const store = openStore({ program, time, newToken, lease: LEASE });
  await store.clear();
  const world = createWorld({ kind, random: drawer(2), now });
  const answers = new Map<string, string>();
  const { violations, note, accuse: accuseOf, digest } = createHistory(now);
  const counts: Record<string, number> = {};
  let requests = 0;
  let losses = 0;
  let lossAt = -Infinity;
  const outages: number[] = [];
  const foundAt: number[] = [];

  const count = (name: string) => void (counts[name] = (counts[name] ?? 0) + 1);
  const accuse = (promise: string, words: string) => accuseOf(`${promise}: ${words}`);

  const shapes = await makeShapes((headers, body) =>
    program.understand.understand(
      circumstancesOf(headers, {
        ...{ traits, settings: settingsOf(kind) as never, volatile: [] },
        ...{ engine: { id: 'engine' }, addressee: { project: undefined, query: [] } },
      }),
      body,
    ),
  );
  const gateways = Array.from({ length: settings.gateways }, (_, number) => {
    outages.push(0);
    foundAt.push(-Infinity);
    return openGateway({
      ...{ number, kind, program, store, answers, world, time, lease: LEASE, newToken },
      random: drawer(10 + number),
      onBegun(id, owner) {
        const isAway = gateways[number]?.link.mood() !== 'up';
        world.began({
          ...{ id, owner, home: number, isAgain: world.life(id) !== undefined },
          ...{ told: false, bornAway: isAway, over: false, outage: outages[number] ?? 0 },
          ...{ bornAt: now(), unsure: new Set<number>() },
          ...{ heardAt: new Set([number]), isBlurred: false },
        });
      },
    });
  });
  const pick = <T>(list: readonly T[], draw = random): T => pickFrom(draw, list);
  const oneIn = (many: number) => drawOneIn(random, many);
  const isOnly = (one: Weather) => settings.weather === one;

  /** In which many click now; and until when all do, and change it. */
  let busy: Life | undefined;
  let rushUntil = 0;

  /** Which request comes next, and where. */
  function draw() {
    const alive = world.alive();
    const catalog = oneIn(12) ? random(3) : random(2);
    const mayBegin = isOnly('beginnings') ? oneIn(8) : alive.length < MOST_SESSIONS && oneIn(10);
    if (alive.length < 3 || mayBegin) {
      const how = oneIn(5) ? shapes.beginAndLeave : oneIn(6) ? shapes.beginByQuery : shapes.begin;
      return { gateway: pick(gateways), user: pick(USERS), shape: pick(how), life: undefined };
    }
    if (oneIn(20)) {
      const shape = pick(shapes.alone)[catalog] as Shape;
      return { gateway: pick(gateways), user: pick(USERS), shape, life: undefined };
    }
    // Races are won where several clicks meet in one session.
    const isRush = now() < rushUntil;
    const isBusy = busy !== undefined && alive.includes(busy) && (isRush || oneIn(2));
    const life = isBusy && busy !== undefined ? busy : pick(alive);
    const gateway = oneIn(isBusy ? 2 : 3) ? pick(gateways) : (gateways[life.home] as OracleGateway);
    const user = oneIn(25) ? pick(USERS) : life.owner;
    const what = random(100);
    const shapesOf =
      what < (isRush ? 25 : 3) ? shapes.statement : what > 97 ? shapes.end : pick(shapes.queries);
    return { gateway, user, shape: shapesOf[catalog] as Shape, life };
  }

  /** Judges one request. */
  async function act(): Promise<void> {
    const { gateway, user, shape, life } = draw();
    const { link, number } = gateway;
    const since = now();
    const wasAlive = life !== undefined && world.isLive(life.id);
    const mayEnd = user === life?.owner || !traits.checksSessionOwner;
    if (life !== undefined && shape.what === 'end' && mayEnd) life.over = true;
    const id = life?.id;
    const watch = world.watch(asSent(shape, user, id));
    const words = `${user} at ${number}: ${shape.words}${id === undefined ? '' : ` [${id}]`}`;
    note(`${words} …`);
    const answered = await gateway.ask(user, shape, id, {
      isSure: () => [...watch.lives].every(isSure),
      arrives() {
        const of = id === undefined ? undefined : world.life(id);
        if (of?.isAgain && !of.heardAt.has(number) && link.failedSince(since)) of.isBlurred = true;
      },
    });
    world.unwatch(watch);
    if (!link.failedSince(since)) for (const one of watch.lives) one.heardAt.add(number);
    requests += 1;
    const { from, reason, began } = answered;
    const became =
      from === 'cache' ? 'hit' : `${from} ${reason ?? (answered.isKept ? 'kept' : 'not kept')}`;
    note(`… ${words}: ${became}${began === undefined ? '' : ` began ${began}`}`);
    count(became);
    if (began !== undefined) tellBegun(gateway, world.life(began));
    judgeData(words, watch, answered);
    if (reason === 'session-unavailable' && from === 'gateway') judgeRefusal();
    if (reason === 'unknown-session' && user === life?.owner) {
      judgeUnknown(life);
      // Its client begins another one, sooner or later.
      if (oneIn(3)) life.over = true;
    }

    function judgeRefusal(): void {
      const isChange =
        shape.what === 'statement' || (traits.keepsProperties && shape.catalog !== '');
      const isNew = life?.bornAway && life.home === number && life.outage === outages[number];
      if (!link.failedSince(since)) accuse('refused though Redis was there', words);
      else if (!isChange) accuse('refused though it changes nothing', words);
      else if (isNew && isTakenName(life))
        count('allowed: refused, of an id that was given out again');
      else if (isNew) accuse('refused in a session that began in the same outage', words);
      else
        count(
          life?.bornAway
            ? 'allowed: refused, begun at another gateway or outage'
            : 'allowed: refused',
        );
    }

    function judgeUnknown(of: Life): void {
      const isSame = world.life(of.id) === of && watch.lives.size === 1;
      const isOver = !wasAlive || of.over || !isSame || !world.isLive(of.id);
      const isLost = lossAt > of.bornAt;
      // Another gateway may still be noting the one that had its id before.
      const isLately = lossAt > of.bornAt - NOTED_WITHIN;
      const isUnheard = link.failedSince(since) && !of.heardAt.has(number);
      if (isTakenName(of) || (of.isAgain && (isLately || isUnheard))) {
        count('allowed: unknown, of an id that was given out again');
      } else if (isOver) count('allowed: unknown, at its end');
      else if (of.home === number) accuse('unknown at the gateway where it began', words);
      else if (isLost || !isNoted(of)) count('allowed: unknown at another gateway');
      else accuse('unknown at another gateway though it was to be noted', words);
    }
  }

  /** Whether its gateway had time to note it where others find it. */
  function isNoted({ home, bornAt }: Life): boolean {
    const since = now() - NOTED_WITHIN;
    return bornAt < since && gateways[home]?.link.failedSince(since) === false;
  }

  /** The client has its id now. */
  function tellBegun({ number, link }: OracleGateway, life: Life | undefined): void {
    if (life === undefined) return;
    life.told = true;
    if (isOnly('beginnings') || oneIn(3)) busy = life;
    if (link.mood() === 'up' || outages[number] !== life.outage) life.bornAway = false;
    if (!life.isAgain) return;
    const cutOff = gateways.filter((one) => one.link.failedSince(life.bornAt - LOST_LATELY));
    const counts = cutOff.some((one) => one.number === number) ? [gateways[number]] : cutOff;
    for (const one of counts) if (one !== undefined) life.unsure.add(one.number);
  }

  /** Whether its id was given out again while a gateway was cut off: what others know of that name is not known there. */
  const isTakenName = ({ isAgain, unsure }: Life) => isAgain && unsure.size > 0;
  /** Of an id that was given out again: whether all gateways can know of it, see {@link Life.unsure}. */
  const isSure = ({ told, isAgain, isBlurred, unsure }: Life) =>
    !isAgain ||
    (told &&
      !isBlurred &&
      [...unsure].every((number) => now() - (foundAt[number] ?? 0) > NOTED_WITHIN));

  function judgeData(words: string, watch: Watched, answered: Answered): void {
    const { stamp, from, isKept } = answered;
    if (stamp === undefined) return;
    const mayErr = ![...watch.lives].every(isSure);
    if (from === 'cache' && !watch.truths.has(stamp)) {
      if (mayErr) return count('allowed: wrong, of an id that was given out again');
      accuse(
        'wrong',
        `${words}\n  was answered ${stamp}\n  instead of   ${[...watch.truths].join(' or ')}`,
      );
    }
    const isBornAway =
      watch.lives.size === 1 && [...watch.lives].every((life) => life.bornAway && life.told);
    if ((from === 'cache' || isKept) && isBornAway && !mayErr) {
      accuse('taken for clean though it began while Redis was away', words);
    }
    if (
      isKept &&
      !mayErr &&
      (JSON.parse(stamp) as { created: readonly string[] }).created.length > 0
    ) {
      accuse('kept though its session holds what was made in it', words);
    }
  }

  async function click(): Promise<void> {
    for (;;) {
      await time.sleep(random(isOnly('beginnings') ? THINKS / 4 : THINKS));
      await act();
    }
  }

  function lose({ number, link }: OracleGateway, mood: Mood, away: number): void {
    if (link.mood() !== 'up') return;
    link.set(mood);
    outages[number] = (outages[number] ?? 0) + 1;
    foundAt[number] = Infinity;
    note(`gateway ${number} loses the store (${mood})`);
    time.after(away, () => {
      link.set('up');
      foundAt[number] = now();
      note(`gateway ${number} may find the store`);
    });
  }

  function restart(): void {
    const comesBack = pick(['empty', 'as it was saved'] as const, weather);
    losses += 1;
    lossAt = now();
    rushUntil = now() + 2 * LEASE;
    note(`the store restarts, ${comesBack}`);
    void time.during(store.restart(comesBack));
  }

  /** The engine restarts: its ids may come again. */
  function forgetSessions(): void {
    note('the engine restarts');
    for (const life of world.alive()) world.drop(life);
  }

  /** One gateway, or all of them, lose the store, and each finds it again when it does; or the store is another one at once. */
  function storm(): void {
    const draw = (list: readonly Mood[]) => pick(list, weather);
    const calm = (2 * CALM) / gateways.length;
    time.after(weather(isOnly('restarts') ? calm / 4 : calm), () => {
      storm();
      const what = settings.weather === undefined ? weather(4) : isOnly('restarts') ? 0 : 2;
      if (what === 0) {
        restart();
        const isSeen = weather(2) === 0;
        for (const gateway of gateways) if (isSeen) lose(gateway, 'cut', weather(200));
      } else if (what === 1) {
        lose(pick(gateways, weather), draw(['cut', 'hung', 'mute']), weather(AWAY));
      } else {
        for (const gateway of gateways) {
          const [mood, away] = [draw(['cut', 'cut', 'hung', 'mute']), weather(AWAY)];
          time.after(weather(APART), () => lose(gateway, mood, away));
        }
        if (weather(3) === 0) time.after(APART, forgetSessions);
        if (settings.weather === undefined && weather(2) === 0)
          time.after(APART + weather(AWAY), restart);
      }
    });
  }

  function others(): void {
    time.after(weather(2_000), () => {
      others();
      const alive = world.alive();
      busy = alive[weather(alive.length || 1)];
      // Also what is answered at once has to be asked again, now and then.
      const goes = isOnly('beginnings') ? 2 : 25;
      for (const key of answers.keys()) if (weather(goes) === 0) answers.delete(key);
      if (weather(2) === 0) void time.during(store.save());
      // Most of those that began lately are clean, and the engine tells nobody that they are over.
      const dropped = alive.at(-1 - weather(weather(4) === 0 ? 5 : 50));
      if (dropped === undefined) return;
      note(`the engine drops ${dropped.id}`);
      world.drop(dropped);
    });
  }

  if (!isOnly('beginnings')) storm();
  others();
  let failure: unknown;
  for (let client = 0; client < settings.clients; client += 1)
    void click().catch((error) => (failure = error));
  const isOver = () => failure !== undefined || requests >= settings.steps || violations.length > 0;
  await time.run(isOver);
  for (const { link } of gateways) link.close();
  await store.close();
  if (failure !== undefined) throw failure;
  const all = { ...counts, losses, outages: outages.reduce((sum, one) => sum + one, 0) };
  return { violations, steps: requests, counts: all, digest: digest() };
}
