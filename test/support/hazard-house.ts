import type { Clock } from '../../src/common/clock.ts';
import { checkedFetch } from './checked-requests.ts';
import { execute } from './envelopes.ts';
import { askRedis, startRedis, type RedisServer } from './redis-server.ts';
import { startSessionEngine, type SessionEngine } from './session-engine.ts';
import { askStamped, beginSession, inSession, type StampedAnswer } from './stamped-client.ts';
import { gate } from './stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from './test-gateway.ts';

/**
 * Two gateways on one Redis that promise something to each other under the worst conditions: the purges of one are
 * never announced to the other, whose lease is the longest that may be. Their waits take no time but put the clock of
 * both forward, so that right after a purge the other still uses whatever the purge did not wait out.
 */
export interface HazardHouse {
  readonly redis: RedisServer;
  readonly engine: SessionEngine;
  /** Purges. */
  readonly purger: TestGateway;
  /** Hears of no purge. */
  readonly deaf: TestGateway;
  /** The data that the engine answers with from now on. */
  readonly data: number;
  /** Changes the data at the engine; neither gateway hears of it. */
  load(): Promise<void>;
  /**
   * Purges everything, or what belongs to a project, until Redis has confirmed it.
   * @param meanwhile runs when the epochs are new and the purge is not yet acknowledged
   */
  purge(project: string | undefined, meanwhile: () => Promise<void>): Promise<void>;
  /** Asks a question, in a session or without one. */
  ask(from: TestGateway, cube: string, session?: string): Promise<StampedAnswer>;
  /** Asks until the cache answers; resolves with all answers on the way. */
  untilHit(from: TestGateway, cube: string, session?: string): Promise<readonly StampedAnswer[]>;
  begin(from: TestGateway): Promise<string>;
  /** Every key that stands in Redis. */
  keys(): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** The catalog of all questions. */
export const CATALOG = 'Sales';

/** For how long a request that finds no epochs puts the clock forward, so that Redis is tried again (ms). */
const PATIENCE = 1_100;
/** What a purge waits for at least (ms); shorter pauses of a gateway are no such wait. */
const PURGE_WAIT = 110;

export async function startHazardHouse(): Promise<HazardHouse> {
  const closers: (() => Promise<void>)[] = [];
  const close = async () => {
    for (const closer of closers.splice(0).toReversed()) await closer();
  };
  try {
    return await build(closers, close);
  } catch (error) {
    await close();
    throw error;
  }
}

async function build(
  closers: (() => Promise<void>)[],
  close: () => Promise<void>,
): Promise<HazardHouse> {
  // The user deaf has no right to any channel.
  const redis = await startRedis({
    args: ['--user', 'deaf', 'on', '>deaf', '~*', '+@all', 'resetchannels'],
  });
  closers.push(redis.close);
  const engine = await startSessionEngine({ kind: 'mondrian' });
  closers.push(engine.close);
  // Never behind that of Redis, which notes for how long leases count.
  let ahead = 0;
  const clock: Pick<Clock, 'now' | 'wall'> = {
    now: () => performance.now() + ahead,
    wall: () => Date.now() + ahead,
  };
  let wait: (() => Promise<void>) | undefined;
  const sleep = async (milliseconds: number) => {
    if (milliseconds >= PURGE_WAIT) await wait?.();
    ahead += milliseconds;
  };
  const gateway = async (url: string, lease: string) => {
    const started = await startTestGateway(
      { engine: { url: engine.url, kind: 'mondrian' }, cache: { lease, redis: { url } } },
      { clock, sleep },
    );
    closers.push(started.close);
    return started;
  };
  const purger = await gateway(redis.url, '100ms');
  const deaf = await gateway(`redis://deaf:deaf@127.0.0.1:${redis.port}`, '2s');
  let data = 1;

  async function ask(from: TestGateway, cube: string, session?: string): Promise<StampedAnswer> {
    const answer = await askStamped(
      from.url,
      execute({
        statement: `SELECT FROM [${cube}]`,
        properties: { Catalog: CATALOG },
        ...(session !== undefined && { session: inSession(session) }),
      }),
    );
    if (/epochs-unknown|session-unavailable/u.test(answer.status)) ahead += PATIENCE;
    return answer;
  }

  return {
    redis,
    engine,
    purger,
    deaf,
    get data() {
      return data;
    },
    async load() {
      const body = execute({ statement: 'x' })
        .toString()
        .replace(/<Statement>.*<\/Statement>/u, '<Process/>');
      await fetch(engine.url, { method: 'POST', body });
      data += 1;
    },
    async purge(project, meanwhile) {
      const waiting = gate();
      const onward = gate();
      wait = () => {
        waiting.open();
        return onward.opened;
      };
      const path = project === undefined ? '' : `/${project}`;
      const acknowledged = (async () => {
        for (;;) {
          const response = await checkedFetch(`${purger.url}/mdx/xmla${path}/clearCache`, {
            headers: { authorization: basic('ADMIN') },
          });
          await response.text();
          if (response.status === 200) return;
        }
      })();
      await Promise.race([waiting.opened, acknowledged]);
      await meanwhile();
      onward.open();
      await acknowledged;
      wait = undefined;
    },
    ask,
    async untilHit(from, cube, session) {
      const answers: StampedAnswer[] = [];
      for (;;) {
        const answer = await ask(from, cube, session);
        answers.push(answer);
        if (answer.status === 'hit') return answers;
      }
    },
    begin: ({ url }) => beginSession(url, { properties: { Catalog: CATALOG } }),
    async keys() {
      const found = await askRedis(
        redis.port,
        `EVAL "return table.concat(redis.call('KEYS', '*'), ' ')" 0`,
      );
      return (found.split('\r\n')[1] ?? '').split(' ').filter((name) => name !== '');
    },
    close,
  };
}
