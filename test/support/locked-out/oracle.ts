/**
 * Oracle for people who were locked out: random sequences of questions, waits, changed passwords, failures of the engine and
 * reloads, by a clock that is moved by hand. It says of each question whether a login may be, and must be, good for it.
 */
import { hash, randomBytes } from 'node:crypto';
import * as fc from 'fast-check';
import type { createEngineAuthenticator } from '../../../src/auth/engine-login.ts';
import type { createFileAuthenticator } from '../../../src/auth/users-file.ts';

/** What is tried: of this program, or of one with a fault. */
export interface Tried {
  readonly createEngineAuthenticator: typeof createEngineAuthenticator;
  readonly createFileAuthenticator: typeof createFileAuthenticator;
}

const MINUTE = 60_000;
const TIMES = [1, 500, 1_000, 29_000, MINUTE, 5 * MINUTE, 10 * MINUTE, 60 * MINUTE] as const;
const NAMES = ['alice', 'bob'] as const;
const SEASONS = ['spring', 'autumn'] as const;
type Season = (typeof SEASONS)[number];
const passwordOf = (name: string, season: Season) => `${season} of ${name}`;
/** In the place of bcrypt. */
const hashOf = (password: string) =>
  `$2b$04$${hash('sha256', password, 'hex').slice(0, 21)}.${'a'.repeat(30)}.`;
const headerOf = (name: string, season: Season) =>
  `Basic ${Buffer.from(`${name}:${passwordOf(name, season)}`).toString('base64')}`;

const settings = fc.record({
  verifiedFor: fc.constantFrom(undefined, 0, MINUTE, 5 * MINUTE, 60 * MINUTE),
  believedFor: fc.constantFrom(0, 2 * MINUTE, 10 * MINUTE, 60 * MINUTE),
});
const name = fc.constantFrom(...NAMES);
const season = fc.constantFrom(...SEASONS);
const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constantFrom('hit' as const, 'other' as const),
      name,
      season,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('wait' as const), for: fc.constantFrom(...TIMES) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('change' as const), name, to: fc.option(season) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('read' as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('engine' as const),
      is: fc.constantFrom<'up' | 'away' | 'held'>('up', 'up', 'away', 'held', 'held'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reload' as const), settings }) },
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;
type Settings = typeof settings extends fc.Arbitrary<infer S> ? S : never;

/** Lets all run that can run now. */
const settle = () => new Promise((resolve) => void setImmediate(resolve));

/** A login that was right: when its last right check was sent, and when it was used last. */
interface Right {
  readonly sent: number;
  used: number;
}

/** Plays the steps. @throws Error at the first answer that is not as it has to be */
async function play(
  tried: Tried,
  provider: 'file' | 'engine',
  first: Settings,
  steps: readonly Step[],
): Promise<void> {
  let now = 1_000;
  let inForce = first;
  const actual = new Map<string, Season>(NAMES.map((one) => [one, 'spring']));
  /** What the gateway has read of the file. */
  let read = new Map(actual);
  const right = new Map<string, Right>();
  /** How many checks found a header right. */
  const found = new Map<string, number>();
  const underWay = new Set<string>();
  let engine: 'up' | 'away' | 'held' = 'up';
  const isHeld = () => engine === 'held';
  let release = Promise.withResolvers<void>();

  const isRight = (header: string) =>
    actual.entries().some(([one, of]) => headerOf(one, of) === header);

  function judged(header: string, verdict: boolean, sent: number): void {
    if (!verdict) return void right.delete(header);
    found.set(header, (found.get(header) ?? 0) + 1);
    if (inForce.verifiedFor !== 0) right.set(header, { sent, used: now });
  }

  function begins(header: string): void {
    if (underWay.has(header)) throw new Error('two checks of one login at one time');
    underWay.add(header);
  }

  const fileOf = () =>
    Buffer.from(
      [...actual, ['other', 'spring'] as const]
        .map(([one, of]) => `${one}:${hashOf(passwordOf(one, of))}`)
        .join('\n'),
    );
  let poll: (() => void) | undefined;
  const common = () => ({
    ...inForce,
    clock: { now: () => now },
    random: randomBytes,
    emit() {},
    // Guessing is throttled elsewhere.
    askLeave: async () => async () => 0,
  });
  const make = {
    file: (kept: object) =>
      tried.createFileAuthenticator({
        ...common(),
        ...kept,
        file: 'users',
        read: async () => fileOf(),
        pause: (signal) =>
          new Promise((resolve, reject) => {
            signal.addEventListener('abort', () => reject(new Error('closed')));
            poll = resolve;
          }),
        async compare(password, given) {
          const isSame = hashOf(password) === given;
          for (const [one, of] of read) {
            if (isSame && passwordOf(one, of) === password) judged(headerOf(one, of), true, now);
          }
          return isSame;
        },
      }),
    engine: async (kept: object) =>
      tried.createEngineAuthenticator({
        ...common(),
        ...kept,
        async tryLogin(header) {
          const text = Buffer.from(header.slice(6), 'base64').toString();
          if (text.startsWith('mdx-gateway-test-'))
            return engine === 'away' ? 'unavailable' : 'rejected';
          const sent = now;
          begins(header);
          while (isHeld()) await release.promise;
          underWay.delete(header);
          if (engine === 'away') return 'unavailable';
          const verdict = isRight(header);
          judged(header, verdict, sent);
          return verdict ? 'accepted' : 'rejected';
        },
      }),
  };
  let authenticator = await make[provider]({});

  /** How long it counts for everything, and for hits. */
  function ends(header: string): { all: number; hits: number } {
    const known = right.get(header);
    if (known === undefined || inForce.verifiedFor === 0) return { all: 0, hits: 0 };
    if (provider === 'file') {
      const end = known.used + (inForce.verifiedFor ?? Infinity);
      return { all: end, hits: end };
    }
    const all = known.sent + (inForce.verifiedFor ?? MINUTE);
    return { all, hits: Math.max(all, known.sent + inForce.believedFor) };
  }

  function reading(): void {
    for (const one of NAMES) {
      if (read.get(one) === actual.get(one)) continue;
      for (const of of SEASONS) right.delete(headerOf(one, of));
    }
    read = new Map(actual);
  }

  const expectThat = (holds: boolean, message: string) => {
    if (!holds) throw new Error(message);
  };
  const used = (header: string) => {
    const known = right.get(header);
    if (known !== undefined) known.used = now;
  };
  const pending: Promise<unknown>[] = [];

  function ask(header: string): void {
    const { all } = ends(header);
    const before = found.get(header) ?? 0;
    const answer = (() => {
      try {
        return authenticator.authenticate(header, { id: 'id', address: '192.0.2.1' });
      } catch {
        return undefined;
      }
    })();
    const isAtOnce = answer !== undefined && !(answer instanceof Promise);
    // Nothing waits for it when the next line throws.
    if (answer instanceof Promise) answer.catch(() => {});
    expectThat(
      isAtOnce === now < all,
      `all but a hit: at once ${isAtOnce}, though now is ${now} and it counts until ${all}`,
    );
    if (isAtOnce) return used(header);
    const outcome = Promise.resolve(answer).then(
      (principal) => {
        const isFound = principal === undefined || (found.get(header) ?? 0) > before;
        expectThat(isFound, 'answered without a check that found it right');
      },
      (error: unknown) => {
        if (!(error instanceof Error) || error.constructor.name !== 'GatewayError') throw error;
      },
    );
    pending.push(outcome);
    // Told when it is awaited.
    outcome.catch(() => {});
  }

  function hit(header: string): boolean {
    const { hits } = ends(header);
    const login = authenticator.remembered(header);
    const isServed = login?.countsForHits() === true;
    expectThat(
      isServed === now < hits,
      `a hit: ${isServed}, though now is ${now} and it counts until ${hits}`,
    );
    if (!isServed) return false;
    if (login.counts()) used(header);
    else authenticator.checkBehind(header);
    return true;
  }

  const idle = async () => {
    for (let turns = 0; turns < 4; turns += 1) await settle();
  };
  const letGo = async (next: typeof engine) => {
    engine = next;
    release.resolve();
    release = Promise.withResolvers();
    await idle();
  };

  for (const one of steps) {
    if (one.do === 'hit' || one.do === 'other') {
      const header = headerOf(one.name, one.season);
      if (one.do === 'other' || !hit(header)) ask(header);
    }
    if (one.do === 'wait') now += one.for;
    if (one.do === 'change') {
      if (one.to === null) actual.delete(one.name);
      else actual.set(one.name, one.to);
    }
    if (one.do === 'engine') await letGo(one.is);
    if (one.do === 'read' && provider === 'file') {
      for (let readings = 0; readings < 2; readings += 1) {
        poll?.();
        await idle();
      }
      reading();
    }
    if (one.do === 'reload') {
      await letGo('up');
      inForce = one.settings;
      const old = authenticator;
      authenticator = await make[provider](old.kept());
      await old.close();
      if (provider === 'file') reading();
    }
    await idle();
  }
  await letGo('up');
  await Promise.all(pending);
  await authenticator.close();
}

/** @throws Error with the seed and the shortest sequence that was found */
export async function checkLockedOut(tried: Tried, numRuns: number, seed?: number): Promise<void> {
  const provider = fc.constantFrom('file' as const, 'engine' as const);
  const steps = fc.array(step, { minLength: 10, maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(provider, settings, steps, (...world) => play(tried, ...world)),
    { numRuns, ...(seed !== undefined && { seed }) },
  );
}
