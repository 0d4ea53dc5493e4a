import { describe, expect, test } from '@jest/globals';
import { crc32 } from 'node:zlib';
import { envelope, faultAnswer } from '../support/answers.ts';
import { readEngineRequest } from '../support/engine-request.ts';
import { execute, type SessionSpec } from '../support/envelopes.ts';
import { createSessionModel } from '../support/session-model.ts';
import { basic } from '../support/test-gateway.ts';
import type { Received } from './client.ts';
import { judgeScene } from './history.ts';
import { asTheEngineReads, judge, type Expected } from './judge.ts';
import type { Outcome } from './outcome.ts';
import { brokenBars, tableOf, type SceneReport } from './report.ts';
import { OVERLOADED } from './weather.ts';

/** The engine, which answers, and what the person knows of it, which is held against that. */
const house = () => {
  const id = 'session-1';
  const engine = createSessionModel({ kind: 'generic', sessionIds: () => id });
  const mirror = createSessionModel({ kind: 'generic', sessionIds: () => id });
  const write = mirror.write;
  const ask = (user: string, statement: string, session?: SessionSpec, model = engine) => {
    const body = execute({
      statement,
      properties: { Catalog: 'Sales' },
      ...(session && { session }),
    });
    const headers = { authorization: basic(user), 'user-agent': 'Olap4j(1.2.0)' };
    return model.make(asTheEngineReads(readEngineRequest(body, headers), true), body);
  };
  return { engine, mirror, write, ask, id };
};

const received = (text: string, more: Partial<Received> = {}): Received => {
  const head = Buffer.from(text);
  const cacheStatus = 'mdx-gateway; hit; ttl=5; detail=memory';
  const whole = { status: 200, cacheStatus, broken: undefined };
  return { head, length: head.length, crc: crc32(head), ...whole, ...more };
};

const STATEMENT = 'SELECT FROM [Sales]';

function verdictOn(
  answer: Received,
  { user = 'alice', expected = {} }: { user?: string; expected?: Partial<Expected> } = {},
) {
  const { ask, write } = house();
  const made = ask(user, STATEMENT);
  return judge({ made, session: '', leastData: 1, isShared: false, ...expected }, answer, write);
}

const rightText = (user = 'alice', statement = STATEMENT) => {
  const { ask, write } = house();
  return write(ask(user, statement)).text;
};

describe('the judge of the drill finds', () => {
  test('an answer right that is the engine’s, to the byte', () => {
    expect(verdictOn(received(rightText()))).toEqual({ verdict: 'right', words: '200 hit memory' });
  });

  test('one refused that has another status, no connection, or a Fault of the gateway’s own', () => {
    const gateway = { status: 503, cacheStatus: 'mdx-gateway; fwd=bypass; detail=overloaded' };
    expect(verdictOn(received('busy', gateway))).toEqual({
      verdict: 'refused',
      words: '503 bypass overloaded',
    });
    const proxy = received('<center>nginx</center>', { status: 502, cacheStatus: '' });
    expect(verdictOn(proxy)).toEqual({ verdict: 'refused', words: '502 nginx' });
    expect(verdictOn(received('', { status: 0, broken: 'ECONNRESET' }))).toEqual({
      verdict: 'refused',
      words: 'no answer: ECONNRESET',
    });
    expect(verdictOn(received(faultAnswer())).verdict).toBe('refused');
  });

  test('what an overloaded engine says to be its own', () => {
    const engine = { status: 503, cacheStatus: 'mdx-gateway; fwd=miss; detail=engine-status' };
    expect(verdictOn(received(OVERLOADED, engine)).verdict).toBe('right');
    expect(verdictOn(received(envelope(`<Fault>${OVERLOADED}</Fault>`))).verdict).toBe('right');
  });

  test('one cut that ends early, breaks, or differs by a byte', () => {
    const text = rightText();
    const verdicts = [
      received(text.slice(0, -1)),
      received(text, { broken: 'aborted' }),
      received(text.replace('xsd:double', 'xsd:Double').replace('</root>', '</root> ')),
      received(text.slice(0, text.indexOf('</STAMP>') - 5)),
      received(''),
    ].map((answer) => verdictOn(answer).verdict);
    expect(verdicts).toEqual(['cut', 'cut', 'cut', 'cut', 'cut']);
  });

  test('one wrong that is past its ttl and does not say why, or says so and is not', () => {
    const told = (cacheStatus: string) =>
      verdictOn(received(rightText(), { cacheStatus: `mdx-gateway; hit; ${cacheStatus}` }));
    expect(told('ttl=-7; detail=engine-away')).toEqual({
      verdict: 'right',
      words: '200 hit engine-away',
    });
    expect(told('ttl=7; detail=engine-away').verdict).toBe('wrong');
    expect(told('detail=engine-away').verdict).toBe('wrong');
    expect(told('ttl=-7; detail=memory').verdict).toBe('wrong');
  });

  test('one wrong that was computed for another user or another question', () => {
    expect(verdictOn(received(rightText('bob')))).toEqual({
      verdict: 'wrong',
      words: 'user is "bob", not "alice"',
    });
    expect(verdictOn(received(rightText('alice', 'SELECT FROM [Other]'))).verdict).toBe('wrong');
    const shared = { expected: { isShared: true } };
    expect(verdictOn(received(rightText('bob')), shared).verdict).toBe('right');
  });

  test('one wrong that belongs to another session', () => {
    const { engine, mirror, write, ask, id } = house();
    const inSession = { kind: 'in', id } as const;
    for (const model of [engine, mirror]) ask('alice', '', { kind: 'begin' }, model);
    const judged = (text: string) => {
      const made = ask('alice', STATEMENT, inSession, mirror);
      const expected = { made, session: id, leastData: 1, isShared: false };
      return judge(expected, received(text), write);
    };
    const made = ask('alice', STATEMENT, inSession);
    expect(judged(write(made).text).verdict).toBe('right');
    expect(judged(write({ ...made, shown: 'session-2' }).text)).toEqual({
      verdict: 'wrong',
      words: 'shows the session session-2 of another',
    });
    // Clean sessions share what is computed in them; one in which a member was made does not.
    expect(judged(write({ ...made, computedIn: 'session-2' }).text).verdict).toBe('right');
    for (const model of [engine, mirror]) {
      ask('alice', 'CREATE SESSION MEMBER [a].[b] AS 1', inSession, model);
    }
    expect(judged(write(made).text).words).toMatch(/^created is \[\], not \["CREATE/);
    const changed = ask('alice', STATEMENT, inSession);
    expect(judged(write(changed).text).verdict).toBe('right');
    expect(judged(write({ ...changed, computedIn: 'session-2' }).text).verdict).toBe('wrong');
  });

  test('one old that shows data from before a purge that was acknowledged', () => {
    const { ask, write } = house();
    const made = ask('alice', STATEMENT);
    const of = (data: number) =>
      received(write({ ...made, stamp: made.stamp && { ...made.stamp, data } }).text);
    const after = { expected: { leastData: 3 } };
    expect([2, 3, 4].map((data) => verdictOn(of(data), after).verdict)).toEqual([
      ...['old', 'right', 'right'],
    ]);
  });
});

const outcome = (verdict: Outcome['verdict'], words: string): Outcome => ({
  ...{ verdict, words, person: 'a', kind: 'generic', deed: 'ask', asked: STATEMENT },
  ...{ due: 0, sent: 1, answered: 11, sessionBegan: undefined },
});

const scene = (outcomes: readonly Outcome[], more: Partial<SceneReport> = {}): SceneReport => ({
  ...{ name: 'restart', title: 'one', notBarred: undefined, people: 2, outcomes, notes: [] },
  ...{ allowed: new Set(), missing: [], engineRequests: 7, cpu: 30, ...more },
});

describe('a scene', () => {
  const STALE = outcome('right', '200 hit engine-away');
  const HIT = outcome('right', '200 hit memory');
  /** Sent later than those before it. */
  const later = (one: Outcome, at: number, more: Partial<Outcome> = {}): Outcome => ({
    ...{ ...one, sent: at, answered: at + 5 },
    ...more,
  });
  const judged = (outcomes: readonly Outcome[], play: Parameters<typeof judgeScene>[1] = {}) =>
    judgeScene(outcomes, play, new Map());

  test('has an answer past its ttl be wrong, unless it says that the engine was away then', () => {
    expect(judged([HIT, STALE]).outcomes.map(({ verdict }) => verdict)).toEqual(['right', 'wrong']);
    const { outcomes } = judged([STALE], { mayBeStale: () => true });
    expect(outcomes).toEqual([STALE]);
  });

  test('knows what the cache holds when something is refused', () => {
    const refused = later(outcome('refused', '502 miss engine-unreachable'), 100);
    const allowedBehind = (...before: readonly Outcome[]) =>
      judged([...before, refused], { allows: (one, _moments, wasAnswered) => !wasAnswered(one) })
        .allowed.size;
    expect(allowedBehind(HIT)).toBe(0);
    expect(allowedBehind(later(HIT, 98))).toBe(1);
    expect(allowedBehind({ ...HIT, asked: 'SELECT FROM [Other]' })).toBe(1);
    expect(allowedBehind({ ...HIT, sessionBegan: 0 })).toBe(1);
    expect(allowedBehind(outcome('right', '200 bypass uncacheable'))).toBe(1);
    const purge = outcome('right', 'purged');
    expect(allowedBehind(HIT, later(purge, 20, { deed: 'purge' }))).toBe(1);
    expect(allowedBehind(later(purge, 20, { deed: 'purge' }), later(HIT, 30))).toBe(0);
    expect(allowedBehind(HIT, later(HIT, 20, { deed: 'change' }))).toBe(1);
  });

  test('breaks a bar by what it does not show', () => {
    const { missing } = judged([HIT], { misses: () => ['nothing was refused'] });
    expect(brokenBars([scene([HIT], { missing })])).toEqual(['restart: nothing was refused']);
  });
});

describe('the report of the drill', () => {
  const RIGHT = outcome('right', '200 hit memory');
  const REFUSED = outcome('refused', '503 gateway overloaded');

  test('has a row for each scene, and tells below it what people were told', () => {
    const [head = '', row = '', told = ''] = tableOf([scene([RIGHT, REFUSED, REFUSED])]).split(
      '\n',
    );
    const cells = (line: string) => line.trim().split(/ {2,}/);
    expect(Object.fromEntries(cells(head).map((name, at) => [name, cells(row)[at]]))).toMatchObject(
      {
        ...{ scene: 'restart', people: '2', requests: '3', refused: '2', cut: '0', wrong: '0' },
        ...{ old: '0', 'p50 ms': '11', engine: '7', 'CPU ms/request': '10.0' },
      },
    );
    expect(told.trim()).toBe('2 × refused (ask): 503 gateway overloaded');
  });

  test.each(['refused', 'cut', 'wrong', 'old'] as const)(
    'breaks a bar by one that is %s',
    (verdict) => {
      const bad = outcome(verdict, 'x');
      expect(brokenBars([scene([RIGHT, bad])])).toEqual([
        `restart: 1 ${verdict}, and 0 are allowed`,
      ]);
      expect(brokenBars([scene([RIGHT, bad], { allowed: new Set([bad]) })])).toEqual([]);
      expect(brokenBars([scene([RIGHT, bad], { notBarred: 'later' })])).toEqual([]);
    },
  );

  test('breaks a bar where nothing was answered, and where the scene could not be played', () => {
    expect(brokenBars([scene([])])).toEqual(['restart: no right answer']);
    const failed = scene([], { failed: 'nginx does not listen', notBarred: 'later' });
    expect(brokenBars([failed])).toEqual(['restart: nginx does not listen']);
  });
});
