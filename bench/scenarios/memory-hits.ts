import { gunzipSync } from 'node:zlib';
import { datasetOf, wholeAnswer } from '../answers.ts';
import {
  askOnce,
  contest,
  expectBytes,
  expectHit,
  isHit,
  requestTo,
  type LoadShape,
} from '../contest.ts';
import { figureOf } from '../figures.ts';
import { startGateway } from '../gateway.ts';
import { startEngine, startServer, type Subject } from '../house.ts';
import { template } from '../questions.ts';
import type { Scenario } from './scenario.ts';

const MIB = 1024 * 1024;

interface SameBody {
  readonly name: string;
  readonly title: string;
  /** Bytes of the answer. */
  readonly size: number;
  readonly connections?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** One question again and again, answered from memory. */
function sameBody(spec: SameBody): Scenario {
  const { name, title, size, connections = 32, headers = {} } = spec;
  return {
    name,
    title,
    async run(house) {
      const engine = await startEngine(house);
      const bare = await startServer(house, 'bare', 'bare.ts', [size]);
      const gateway = await startGateway(house, engine.port);
      const subjects = [bare, gateway];
      const body = template({ size });
      const expected = wholeAnswer(datasetOf(size));
      for (const subject of subjects) await expectHit(subject, body, expected, { headers });
      const load = (subject: Subject): LoadShape => ({
        connections,
        requests: [requestTo(subject, body, headers)],
      });
      const results = await contest(house, subjects, load, { engine, reaches: 'none' });
      return {
        subjects: results.subjects,
        rows: [results.ratio('memory hit, same body', { of: gateway, to: bare })],
      };
    },
  };
}

/** To a client that takes gzip. */
const gzip: Scenario = {
  name: 'gzip-50k',
  title: 'memory hits as gzip, 50 KB',
  async run(house) {
    const size = 51_200;
    const headers = { 'Accept-Encoding': 'gzip' };
    const engine = await startEngine(house);
    const bare = await startServer(house, 'bare', 'bare.ts', [size, 'gzip']);
    const gateway = await startGateway(house, engine.port);
    const body = template({ size });
    const expected = wholeAnswer(datasetOf(size));
    // The compressed variant is made in the background of the first hit.
    let coded = false;
    for (let turn = 0; turn < 200 && !coded; turn++) {
      const answer = await askOnce(gateway, body, { headers });
      coded = answer.headers['content-encoding'] === 'gzip';
      expectBytes('gateway', coded ? gunzipSync(answer.body) : answer.body, expected);
      if (coded && !isHit(gateway, answer)) throw new Error('gzip, but no hit');
    }
    if (!coded) throw new Error('the gateway never answered as gzip');
    const load = (subject: Subject): LoadShape => ({
      connections: 32,
      requests: [requestTo(subject, body, headers)],
    });
    const options = { engine, reaches: 'none', rounds: 3 } as const;
    const results = await contest(house, [bare, gateway], load, options);
    return {
      subjects: results.subjects,
      rows: [results.ratio('memory hit as gzip', { of: gateway, to: bare })],
    };
  },
};

/** What a large answer of a real model has (bytes). */
const LARGE = 34_000_000;
/** How many of them may be sent at one time while others ask (connections). */
const AT_ONCE = 4;

/** To a client that takes gzip, as it lies in memory, and to one that does not. */
const large: Scenario = {
  name: 'memory-34m',
  title: 'memory hits, same body, 34 MB, with the defaults',
  async run(house) {
    const engine = await startEngine(house);
    const bare = await startServer(house, 'bare', 'bare.ts', [LARGE]);
    const gateway = await startGateway(house, engine.port, { probe: true });
    const body = template({ size: LARGE });
    const expected = wholeAnswer(datasetOf(LARGE));
    for (const subject of [bare, gateway]) await expectHit(subject, body, expected);
    const headers = { 'Accept-Encoding': 'gzip' };
    const packed = await askOnce(gateway, body, { headers });
    if (packed.headers['content-encoding'] !== 'gzip') throw new Error('it is not compressed');
    expectBytes('gateway, compressed', gunzipSync(packed.body), expected);
    const load =
      (connections: number, asked = {}) =>
      (subject: Subject): LoadShape => ({
        connections,
        requests: [requestTo(subject, body, asked)],
      });
    const rules = { engine, reaches: 'none', rounds: 5 } as const;
    const plain = await contest(house, [bare, gateway], load(1), rules);
    const coded = await contest(house, [gateway], load(1, headers), rules);
    await gateway.asked('delay');
    const crowded = await contest(house, [gateway], load(AT_ONCE), rules);
    const delay = await gateway.asked('delay');
    const [, one] = plain.subjects;
    const [zipped] = coded.subjects;
    const [several] = crowded.subjects;
    if (one === undefined || zipped === undefined || several === undefined) throw new Error('?');
    return {
      subjects: [
        ...plain.subjects,
        { ...zipped, name: 'gateway, gzip' },
        { ...several, name: `gateway, ${AT_ONCE} connections` },
      ],
      rows: [
        { title: 'last byte of a hit, 34 MB', unit: 'ms', figure: one.p50 },
        { title: 'the same as gzip', unit: 'ms', figure: zipped.p50 },
        plain.ratio('last byte of a hit, 34 MB', { of: gateway, to: bare, quantity: 'p50' }),
        {
          title: `event-loop delay, 99th percentile, ${AT_ONCE} at once`,
          unit: 'ms',
          figure: figureOf([delay.p99]),
        },
      ],
    };
  },
};

export const memoryHits: readonly Scenario[] = [
  sameBody({
    name: 'memory-2k',
    title: 'memory hits, same body, 2 KB, 32 connections',
    size: 2048,
  }),
  sameBody({
    name: 'memory-50k',
    title: 'memory hits, same body, 50 KB',
    size: 51_200,
  }),
  sameBody({
    name: 'memory-2m',
    title: 'memory hits, same body, 2 MB, which is decompressed for each client',
    size: 2 * MIB,
  }),
  sameBody({
    name: 'one-connection',
    title: 'memory hits, 2 KB, 1 connection',
    size: 2048,
    connections: 1,
  }),
  sameBody({
    name: 'many-connections',
    title: 'memory hits, 2 KB, 512 connections',
    size: 2048,
    connections: 512,
  }),
  sameBody({
    name: 'no-keep-alive',
    title: 'memory hits, 2 KB, a connection for each request',
    size: 2048,
    headers: { Connection: 'close' },
  }),
  gzip,
  large,
];
