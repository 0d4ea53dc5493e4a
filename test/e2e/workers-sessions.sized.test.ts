import { afterEach, describe, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { systemClock } from '../../src/common/clock.ts';
import { execute, type SessionSpec } from '../support/envelopes.ts';
import { linkPair, type LinkPair } from '../support/link-pair.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import {
  askStamped,
  beginSession,
  inSession,
  type StampedAnswer,
} from '../support/stamped-client.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { checkpoint, type Checkpoint } from '../unit/cache/fakes.ts';
import { sampled } from '../support/sizes.ts';
import { testPrimary } from '../support/primary.ts';

const MEMBER = "CREATE SESSION MEMBER [Sales].[Measures].[Mine] AS '1'";
const KINDS = ['emondrian', 'mondrian'] as const;
/** For longer than any machine stands still (ms). */
const PATIENCE = 60_000;

/** A worker, its link to the primary process, and where its waits for leases can be held. */
interface Worker extends TestGateway {
  readonly pair: LinkPair;
  /** Passed before each wait, if there is one. */
  holdWaitsAt: Checkpoint | undefined;
}

let engine: SessionEngine;
const workers: Worker[] = [];
afterEach(async () => {
  for (const worker of workers.splice(0)) await worker.close();
  await engine?.close();
});

function newPrimary() {
  return testPrimary(systemClock);
}

async function join(
  attach: ReturnType<typeof newPrimary>,
  kind: (typeof KINDS)[number],
): Promise<Worker> {
  const pair = linkPair(PATIENCE);
  attach(pair.primary);
  let worker: Worker | undefined;
  const gateway = await startTestGateway(
    { engine: { url: engine.url, kind }, cache: { lease: '100ms' } },
    {
      primary: pair.worker,
      async sleep(milliseconds) {
        await worker?.holdWaitsAt?.arrive();
        await delay(milliseconds);
      },
    },
  );
  worker = { ...gateway, pair, holdWaitsAt: undefined };
  workers.push(worker);
  return worker;
}

/** Two workers of one primary process, before an engine whose answers tell what was made in their session. */
async function crew(kind: (typeof KINDS)[number]) {
  engine = await startSessionEngine({ kind });
  const attach = newPrimary();
  const [one, other] = [await join(attach, kind), await join(attach, kind)];
  return { attach, one, other };
}

let count = 0;
const execution = (statement: string, session?: SessionSpec) =>
  execute({ statement, properties: { Catalog: 'Sales' }, ...(session && { session }) });
const query = () => `SELECT FROM [Sales ${(count += 1)}]`;
const ask = ({ url }: TestGateway, id: string, statement: string) =>
  askStamped(url, execution(statement, inSession(id)));
const begin = ({ url }: TestGateway) => beginSession(url, { properties: { Catalog: 'Sales' } });

/** Asks until an answer fits: a busy machine misses deadlines, and goes on uncached. */
async function askUntil(
  fits: (answer: StampedAnswer) => boolean,
  next: () => Promise<StampedAnswer>,
): Promise<StampedAnswer> {
  for (;;) {
    const answer = await next();
    if (fits(answer)) return answer;
  }
}
const isHit = ({ status }: StampedAnswer) => status === 'hit';
const isSure = ({ status }: StampedAnswer) => !/session-unavailable|epochs-unknown/.test(status);
const isSent = () => engine.asked.some(({ statement }) => statement === MEMBER);

/** A session that was begun at one worker, and from whose query both answer by their own memory. */
async function sharedSession(one: Worker, other: Worker) {
  const [id, statement] = [await begin(one), query()];
  for (const worker of [one, other]) await askUntil(isHit, () => ask(worker, id, statement));
  return { id, statement };
}

describe.each(sampled(KINDS))('a session of %s that was begun at one worker', (kind) => {
  test('is clean at the other, which answers for it from its own memory', async () => {
    const { one, other } = await crew(kind);
    const [id, statement] = [await begin(one), query()];
    const there = await askUntil(isHit, () => ask(other, id, statement));
    expect([there.session, there.stamp?.created]).toEqual([id, []]);
  });

  test('is never served from memory at the other once it was made dirty at the first', async () => {
    const { one, other } = await crew(kind);
    const { id, statement } = await sharedSession(one, other);
    const made = await askUntil(isSure, () => ask(one, id, MEMBER));
    expect(made.status).toBe('bypass not-a-query');
    // Not one lease later: now, and many at once.
    const after = await Promise.all(Array.from({ length: 20 }, () => ask(other, id, statement)));
    for (const { status, stamp } of after) {
      expect(status).toMatch(/^bypass (dirty-session|session-unavailable|epochs-unknown)$/);
      expect(stamp?.created).toEqual([MEMBER]);
    }
  });

  test('is made dirty at the engine only when the lease of the other has passed', async () => {
    const { one, other } = await crew(kind);
    const { id, statement } = await sharedSession(one, other);
    const waiting = checkpoint();
    one.holdWaitsAt = waiting;
    const made = ask(one, id, MEMBER);
    await Promise.race([waiting.arrived, made]);
    expect(isSent()).toBe(false);
    // It learns of it at the end of its lease, and not a moment before anything has changed.
    const learnt = await askUntil(
      (answer) => isSure(answer) && !isHit(answer),
      () => ask(other, id, statement),
    );
    expect([learnt.status, learnt.stamp?.created]).toEqual(['bypass dirty-session', []]);
    expect(isSent()).toBe(false);
    waiting.release();
    await made;
    expect((await ask(other, id, statement)).stamp?.created).toEqual([MEMBER]);
  });

  test('is never served from memory by a worker that is cut off, once it was made dirty', async () => {
    const { one, other } = await crew(kind);
    const { id, statement } = await sharedSession(one, other);
    other.pair.within = undefined;
    other.pair.toPrimary.hold();
    other.pair.toWorker.hold();
    await askUntil(
      ({ status }) => status === 'bypass not-a-query',
      () => ask(one, id, MEMBER),
    );
    const cutOff = await ask(other, id, statement);
    expect(cutOff.status).toMatch(/^bypass (session-unavailable|epochs-unknown)$/);
    expect(cutOff.stamp?.created).toEqual([MEMBER]);
    // What was said before it was made dirty arrives late, and counts for nothing.
    other.pair.toPrimary.release();
    other.pair.toWorker.release();
    other.pair.within = PATIENCE;
    const back = await askUntil(isSure, () => ask(other, id, statement));
    expect([back.status, back.stamp?.created]).toEqual(['bypass dirty-session', [MEMBER]]);
  });

  test('is made dirty by nothing that a worker says that is cut off: it refuses', async () => {
    const { one, other } = await crew(kind);
    const { id, statement } = await sharedSession(one, other);
    one.pair.within = undefined;
    one.pair.toPrimary.lose();
    const refused = await ask(one, id, MEMBER);
    expect([refused.status, refused.answer.status]).toEqual(['gateway session-unavailable', 503]);
    expect(isSent()).toBe(false);
    expect((await ask(other, id, statement)).stamp?.created).toEqual([]);
    one.pair.toPrimary.release();
    one.pair.within = PATIENCE;
    const done = await askUntil(isSure, () => ask(one, id, MEMBER));
    expect(done.status).toBe('bypass not-a-query');
    expect((await ask(other, id, statement)).stamp?.created).toEqual([MEMBER]);
  });

  test('outlives that worker, dirty or clean', async () => {
    const { one, other, attach } = await crew(kind);
    const clean = await sharedSession(one, other);
    const dirty = await sharedSession(one, other);
    await askUntil(isSure, () => ask(one, dirty.id, MEMBER));
    one.pair.worker.close();
    await one.close();
    workers.splice(workers.indexOf(one), 1);
    const anew = await join(attach, kind);
    for (const worker of [other, anew]) {
      await askUntil(isHit, () => ask(worker, clean.id, clean.statement));
      const known = await askUntil(isSure, () => ask(worker, dirty.id, dirty.statement));
      expect([known.status, known.stamp?.created]).toEqual(['bypass dirty-session', [MEMBER]]);
    }
  });

  test('is known to nobody when the primary process was another one then', async () => {
    const { one, other } = await crew(kind);
    const { id, statement } = await sharedSession(one, other);
    const later = await join(newPrimary(), kind);
    const asked = await askUntil(isSure, () => ask(later, id, statement));
    expect(asked.status).toMatch(/unknown-session$/);
  });
});
