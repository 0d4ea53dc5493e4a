import type { Habits, Mood } from '../links.ts';
import type { Hit } from './client.ts';
import { oneIn, pick, randomSources } from '../random.ts';
import { createTime } from '../time.ts';
import { overPrimary, overRedis } from './backing.ts';
import { AWAY, createEngine } from './engine.ts';
import {
  EVERY,
  FLEET_PARTS,
  type InForce,
  openGateway,
  REPEAT_AFTER,
  type SimulatedGateway,
  type Trust,
} from './gateway.ts';
import { createJudge, type Sent } from './judge.ts';
import { ANNOUNCED, CHANGED, openLedger, PROJECTS, WATCHED } from './ledger.ts';
import { CONTROLLER, type Login, loginOf, QUESTIONS, USERS } from './questions.ts';
import type { FleetProgram } from './gateway.ts';
import type { Run, Settings, Simulation } from '../simulation.ts';
import { ROUGH, SMOOTH, UNSTEADY } from './stores.ts';

/** How large a run is, and what happens in it. Shrinking makes it smaller. */
export interface FleetSettings extends Settings {
  readonly form: 'redis' | 'workers';
  readonly gateways: number;
  readonly clients: number;
  readonly loaders: number;
  /** What may happen, of {@link TROUBLES}. */
  readonly troubles: readonly string[];
  /** Of all gateways (ms); drawn for each of them unless given. */
  readonly lease?: number;
  readonly ttl?: number;
  readonly staleIfError?: number;
  readonly timeout?: number;
  /** For how long logins count; for longer than a run unless given. */
  readonly trust?: Trust;
  /** What the engine usually takes (ms). */
  readonly engineMs?: number;
  /** How the link of the first gateway behaves, beside smooth ones; drawn unless given. */
  readonly links?: Partial<Habits>;
}

/** Disturbances by their names; what happens to what gateways share stands with that. */
const TROUBLES = [
  'rough links',
  'announcements are lost',
  'a link is away',
  'a gateway dies',
  'a clock is set',
  'a reload',
  'the engine breaks off',
  'the engine is away',
  'the engine fails',
  'passwords change',
  'a connection is broken',
  'Redis saves',
  'Redis restarts',
  'Redis evicts',
  'Redis forgets all',
  'Redis hangs',
  'Redis is slow',
  'Redis does not write',
  'the clock of Redis is set',
] as const;

const LEASES = [100, 200, 400, 1_000];
/** Entries of many runs end within it, by their ttl (ms) … */
const TTLS = [1_000, 2_000, 5_000, 600_000, 600_000];
/** … and are kept for longer in most of them. */
const STALE_IF_ERROR = [0, 2_000, 10_000, 3_600_000];
/** Silence of the engine until a gateway gives up (ms). */
const TIMEOUTS = [1_500, 5_000, 60_000];
/** What the engine usually takes before and behind its look at the data, in runs where it is slow (ms). */
const SLOW_MS = 300;
const LASTING: Trust = { verifiedFor: 3_600_000, believedFor: 3_600_000 };
const SHORT: Trust = { verifiedFor: 1_500, believedFor: 5_000 };
/** A client pauses so long at most, and asks so often behind it. */
const THINKS = 60;
const CLICKS = 8;
/** A client learns of new passwords before one in so many series of clicks. */
const LEARNS = 10;
/** Between two loads of one loader, and two disturbances, at most (ms). */
const LOADS = 450;
const CALM = 3_000;
/** The engine is away for so long at most (ms). */
const LONG_AWAY = 15_000;
const BRIEFLY_AWAY = 2_000;
const MOODS: readonly Mood[] = ['cut', 'hung', 'mute'];
/** In good weather: until nobody has the task of a poller that was killed, and clearing calls were made again (ms). */
const SETTLES = 70_000;
/** No trouble lasts so long that none gets an answer (ms). */
const SILENCE = 300_000;
/** Until a watcher has found a load to its end (ms). */
const FOUND_WITHIN = 5 * EVERY + 12_000;

/** Answers of one run. Each run has another seed, and with it another form and other troubles. */
const ANSWERS = 5_000;

export const FLEET: Simulation<FleetSettings> = {
  name: 'fleet',
  parts: FLEET_PARTS,
  settingsOf(seed) {
    const random = randomSources(seed)(99);
    const form = seed % 4 === 0 ? 'workers' : 'redis';
    const troubles = TROUBLES.filter(() => !oneIn(random, 4));
    const many = { gateways: 2 + random(3), clients: 8, loaders: 6 };
    const trust = oneIn(random, 2) ? SHORT : LASTING;
    const slow = oneIn(random, 3) ? { engineMs: SLOW_MS, loaders: 1 } : {};
    return { seed, steps: ANSWERS, form, troubles, trust, ...many, ...slow };
  },
  simpler: (settings) => [
    ...settings.troubles.map((gone) => ({
      ...settings,
      troubles: settings.troubles.filter((one) => one !== gone),
    })),
    ...(settings.gateways > 1 ? [{ ...settings, gateways: settings.gateways - 1 }] : []),
    ...(settings.clients > 1 ? [{ ...settings, clients: Math.floor(settings.clients / 2) }] : []),
    ...(settings.loaders > 1 ? [{ ...settings, loaders: Math.floor(settings.loaders / 2) }] : []),
  ],
  run: runFleet,
};

/**
 * A fleet of whole gateways before one engine, with clients, loads and bad weather, in simulated time: until so many answers
 * were judged or a promise was broken. In good weather behind that each gateway has to acknowledge a purge, and the watcher to
 * find a load.
 */
async function runFleet(program: FleetProgram, settings: FleetSettings): Promise<Run> {
  const drawer = randomSources(settings.seed);
  const time = createTime();
  const now = time.clock.now;
  const ledger = openLedger(now);
  let made = 0;
  const newToken = () => `token-${(made += 1)}`;
  const may = (trouble: (typeof TROUBLES)[number]) => settings.troubles.includes(trouble);
  let phase: 'disturbed' | 'calm' | 'over' = 'disturbed';
  const engine = createEngine({ time, ledger, random: drawer(1), usually: settings.engineMs });
  const open = settings.form === 'redis' ? overRedis : overPrimary;
  const isDisturbed = () => phase === 'disturbed';
  const isEnded = () => phase === 'over';
  const isDeaf = () => isDisturbed() && may('announcements are lost');
  const shared = open({ program, time, newToken, isDeaf });
  const gateways: SimulatedGateway[] = [];
  const mends = new Set<() => void>();
  let answers = 0;
  const counts = { acknowledged: 0, refused: 0, warmed: 0 };
  const trust = settings.trust ?? LASTING;
  let shortestTtl = Infinity;
  let calmSince = Infinity;
  let apart = 0;
  const judge = createJudge({
    ...{ ledger, now, trust, shortestTtl: () => shortestTtl, apart: () => apart },
    isCalm: () => phase === 'calm' && now() - calmSince > SETTLES / 2,
    isShared: settings.form === 'redis',
  });
  let isRough = may('rough links');
  let starts = 0;
  let failure: unknown;
  const configured = drawer(6);

  /** What a start or a reload of a gateway brings into force. */
  function draw(lease = pick(configured, LEASES)): InForce {
    const ttl = settings.ttl ?? pick(configured, TTLS);
    shortestTtl = Math.min(shortestTtl, ttl);
    return {
      ttl,
      lease: settings.lease ?? lease,
      staleIfError: settings.staleIfError ?? pick(configured, STALE_IF_ERROR),
      timeout: settings.timeout ?? pick(configured, TIMEOUTS),
      whenBlind: pick(configured, ['keep', 'bypass']),
      refreshAhead: !oneIn(configured, 4),
    };
  }

  async function start(number: number): Promise<void> {
    const name = `gateway ${number}.${(starts += 1)}`;
    const usual = starts % 4 === 0 ? ROUGH : UNSTEADY;
    const given = settings.links && (number === 0 ? { ...usual, ...settings.links } : SMOOTH);
    const habits = isRough ? (given ?? usual) : SMOOTH;
    const backing = shared.of(`g${number}.${starts}`, drawer(1_000 + starts), habits);
    const random = drawer(2_000 + starts);
    const inForce = draw(LEASES[(settings.seed + number) % LEASES.length]);
    gateways[number] = await openGateway({
      ...{ name, program, backing, inForce, trust, engine, ledger, time, random },
      asksAhead: judge.asksAhead,
    });
  }

  const guarded = (work: Promise<unknown>) => void work.catch((error) => (failure ??= error));

  /** One request, held against what was promised when it was sent. */
  async function click(random: ReturnType<typeof drawer>, logins: readonly Login[]): Promise<void> {
    const gateway = pick(random, gateways);
    if (!gateway.isAlive()) return;
    const question = pick(random, QUESTIONS);
    const login = pick(random, logins);
    const control = oneIn(random, 20) ? pick(random, ['no-cache', 'no-store'] as const) : undefined;
    const isFresh = control !== undefined && login.user === CONTROLLER;
    const least = isFresh ? engine.visible() : [...ledger.floors];
    const sent: Sent = { gateway, question, login, control, at: now(), least };
    const leaves = oneIn(random, 50);
    const heard = (hit: Hit) => judge.hit(sent, hit);
    const got = await gateway.ask(question, login, { control, leaves, heard });
    if (judge.answer(sent, got)) answers += 1;
  }

  /** A program with the logins of all users, which learns of a new password a while later. */
  async function client(number: number): Promise<void> {
    const random = drawer(100 + number);
    let logins: readonly Login[] = [];
    const learn = () => void (logins = USERS.map((user) => loginOf(user, engine.passwordOf(user))));
    learn();
    while (!isEnded()) {
      await time.sleep(1 + random(phase === 'calm' ? 40 * THINKS : THINKS));
      for (let left = 1 + random(CLICKS); left > 0; left -= 1) await click(random, logins);
      if (oneIn(random, LEARNS)) learn();
    }
  }

  /** New data, and a purge behind it. */
  async function announce(random: ReturnType<typeof drawer>): Promise<void> {
    const gateway = pick(random, gateways);
    const isAll = oneIn(random, 5);
    const places = isAll ? ANNOUNCED : [pick(random, ANNOUNCED)];
    ledger.load(places);
    if (!gateway.isAlive()) return;
    const stale = isAll ? 'everything' : { project: PROJECTS[places[0] ?? 0] ?? '' };
    const ok = await gateway.purge(stale, oneIn(random, 3) ? 'hook' : 'clear-cache');
    if (ok && gateway.isAlive()) counts.acknowledged += 1;
    else counts.refused += 1;
  }

  /** Data that is changed through the gateway: dropped before and behind it. */
  async function change(random: ReturnType<typeof drawer>): Promise<void> {
    const gateway = pick(random, gateways);
    const stale = { project: PROJECTS[CHANGED] ?? '' };
    if (!gateway.isAlive()) return;
    if (oneIn(random, 2)) await gateway.invalidate(stale, 'alice', 'before');
    await time.sleep(random(100));
    ledger.load([CHANGED], 'change');
    const promised = ledger.promise([CHANGED], `${gateway.name} by a change`);
    const isUnknown = oneIn(random, 8);
    const ok = await gateway.invalidate(stale, 'alice', isUnknown ? 'unknown' : 'after');
    if (ok && gateway.isAlive()) {
      counts.acknowledged += 1;
      promised.acknowledged();
    } else promised.failed('it is owed');
  }

  async function loader(number: number): Promise<void> {
    const random = drawer(300 + number);
    while (isDisturbed()) {
      await time.sleep(1 + random(LOADS));
      const what = random(8);
      if (what === 0) await engine.loadWatched(random(3 * EVERY));
      else if (what === 1) await change(random);
      else await announce(random);
    }
  }

  /** Something happens, again and again. */
  async function storm(): Promise<void> {
    const random = drawer(5);
    const happens: Record<string, () => Promise<string>> = {
      ...disturbances(random),
      ...sharedTroubles(random),
    };
    const names = Object.keys(happens).filter((name) => settings.troubles.includes(name));
    while (isDisturbed() && names.length > 0) {
      await time.sleep(1 + random(CALM));
      const name = pick(random, names);
      if (isDisturbed()) ledger.note(`${name} ${(await happens[name]?.()) ?? ''}`);
    }
  }

  function sharedTroubles(random: ReturnType<typeof drawer>) {
    const all: Record<string, () => Promise<string>> = {};
    for (const [name, happen] of Object.entries(shared.troubles)) {
      all[name] = async () => {
        const { told, lasts = 0, mend } = happen(random);
        if (mend !== undefined) mends.add(mend);
        time.after(lasts, () => mend?.());
        // Connections end with a server, but for a moment.
        const isSeen = name === 'Redis restarts' && !oneIn(random, 4);
        for (const { link } of gateways) if (isSeen) away(link, 'cut', random(300));
        return told;
      };
    }
    return all;
  }

  function away(link: SimulatedGateway['link'], mood: Mood, ms: number): void {
    if (link.mood() !== 'up') return;
    link.set(mood);
    time.after(ms, () => link.set('up'));
  }

  function disturbances(random: ReturnType<typeof drawer>) {
    const some = () => pick(random, gateways);
    return {
      'a link is away': async () => {
        const { name, link } = some();
        const mood = pick(random, MOODS);
        away(link, mood, random(3_000));
        return `${name}: ${mood}`;
      },
      'a connection is broken': async () => {
        const { name, breakOne } = some();
        const told = breakOne?.(random);
        time.after(random(3_000), () => breakOne?.());
        return `${name}: ${told}`;
      },
      'Redis hangs': async () => {
        const ms = random(3_000);
        for (const { link } of gateways) away(link, 'hung', ms);
        return `for ${ms} ms`;
      },
      'Redis is slow': async () => {
        const by = random(oneIn(random, 3) ? 1_000 : 100);
        for (const { link } of gateways) link.slowDown(by);
        await time.sleep(random(2_000));
        for (const { link } of gateways) link.slowDown(0);
        return `by ${by} ms`;
      },
      'a gateway dies': async () => {
        const number = random(gateways.length);
        gateways[number]?.kill();
        await time.sleep(random(500));
        await start(number);
        return `${number}, and starts anew`;
      },
      'a clock is set': async () => {
        const ms = random(6_000) - 3_000;
        const { name, stepClock } = some();
        apart += Math.abs(ms);
        stepClock(ms);
        return `${name}: by ${ms} ms`;
      },
      'a reload': async () => {
        const { name, reload } = some();
        const next = draw();
        reload(next);
        return `${name}: ${JSON.stringify(next)}`;
      },
      'the engine breaks off': async () => {
        engine.breakOneIn(6);
        await time.sleep(random(500));
        engine.breakOneIn(0);
        return '';
      },
      'the engine fails': async () => {
        engine.failOneIn(4);
        await time.sleep(random(1_000));
        engine.failOneIn(0);
        return '';
      },
      'the engine is away': async () => {
        const how = pick(random, AWAY);
        const ms = 1 + random(oneIn(random, 3) ? LONG_AWAY : BRIEFLY_AWAY);
        engine.leave(how, ms);
        await time.sleep(random(ms));
        return `(${how}) for ${ms} ms`;
      },
      'passwords change': async () => {
        const user = pick(random, USERS);
        engine.renewPassword(user);
        return user;
      },
    } satisfies Record<string, () => Promise<string>>;
  }

  /** In good weather each gateway acknowledges a purge, sooner or later, and a watcher finds a load to its end. */
  async function calm(): Promise<void> {
    isRough = false;
    phase = 'calm';
    calmSince = now();
    engine.breakOneIn(0);
    engine.failOneIn(0);
    engine.comeBack();
    for (const mend of mends) mend();
    for (const [number, gateway] of gateways.entries()) {
      counts.warmed += gateway.counts.warmed;
      gateway.kill();
      await start(number);
    }
    ledger.note('good weather');
    await time.sleep(SETTLES);
    for (const gateway of gateways) {
      let isDone = false;
      for (let tries = 0; tries < 5 && !isDone; tries += 1) {
        isDone = await gateway.purge('everything', 'clear-cache');
        if (isDone) counts.acknowledged += 1;
        else await time.sleep(1_000);
      }
      if (!isDone) ledger.accuse(`${gateway.name} acknowledges no purge in good weather`);
    }
    // Their repetitions would make up for a watcher that finds nothing.
    await time.sleep(2 * REPEAT_AFTER);
    for (const failsFor of [0, 4 * EVERY]) await findLoad(failsFor);
    phase = 'over';
  }

  /** A load that goes on behind its first sign, whose purges fail for a while (ms). */
  async function findLoad(failsFor: number): Promise<void> {
    engine.failClears(failsFor);
    await engine.loadWatched(1.5 * EVERY);
    const loaded = ledger.versions[WATCHED] ?? 0;
    await time.sleep(FOUND_WITHIN);
    ledger.floors[WATCHED] = Math.max(ledger.floors[WATCHED] ?? 0, loaded);
    ledger.note('a watcher has had the time to find the load', [WATCHED]);
    await time.sleep(2_000);
  }

  for (let number = 0; number < settings.gateways; number += 1) await start(number);
  for (let number = 0; number < settings.clients; number += 1) guarded(client(number));
  for (let number = 0; number < settings.loaders; number += 1) guarded(loader(number));
  guarded(storm());
  let answered = 0;
  time.clock.every(SILENCE, () => {
    if (answers === answered)
      ledger.accuse(`no request was answered for ${SILENCE} ms though all are retried`);
    answered = answers;
  });
  const isBroken = () => failure !== undefined || ledger.violations.length > 0;
  await time.run(() => isBroken() || answers >= settings.steps);
  if (!isBroken()) {
    guarded(calm());
    await time.run(() => isBroken() || isEnded());
  }
  phase = 'over';
  for (const gateway of gateways) gateway.kill();
  if (failure !== undefined) throw failure;
  return {
    ...{ violations: ledger.violations, steps: answers, digest: ledger.digest() },
    counts: {
      ...counts,
      ...judge.counts,
      engineRequests: engine.requests(),
      virtualSeconds: Math.round(now() / 1_000),
    },
  };
}
