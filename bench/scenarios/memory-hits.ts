import { gunzipSync } from 'node:zlib';
import { datasetOf, wholeAnswer } from '../answers.ts';
import {
  askOnce,
  atLeast,
  atMost,
  contest,
  expectBytes,
  expectHit,
  isHit,
  requestTo,
  type LoadShape,
} from '../contest.ts';
import { startGateway } from '../gateway.ts';
import { startEngine, startServer, type House, type Subject } from '../house.ts';
import { startNginx } from '../peers/nginx.ts';
import { startVarnish } from '../peers/varnish.ts';
import { template } from '../questions.ts';
import { withPeers, type Scenario } from './scenario.ts';

const MIB = 1024 * 1024;

interface SameBody {
  readonly name: string;
  readonly title: string;
  /** Bytes of the answer. */
  readonly size: number;
  /** What of bare is promised. */
  readonly target?: number;
  readonly connections?: number;
  readonly peers?: 'cache' | 'cache and login';
  /** Whether the slowest answers are compared as well. */
  readonly tail?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  /** Settings of the gateway that are not its defaults. */
  readonly settings?: Readonly<Record<string, unknown>>;
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
      const gateway = await startGateway(
        house,
        engine.port,
        spec.settings === undefined ? {} : { settings: spec.settings },
      );
      const peers = await startPeers(house, engine.port, spec.peers);
      const subjects = [bare, gateway, ...peers.all];
      const body = template({ size });
      const expected = wholeAnswer(datasetOf(size));
      for (const subject of subjects) await expectHit(subject, body, expected, { headers });
      const load = (subject: Subject): LoadShape => ({
        connections,
        requests: [requestTo(subject, body, headers)],
      });
      const results = await contest(house, subjects, load, {
        engine,
        reaches: 'none',
        fewer: peers.slow,
        ...(spec.target === undefined && { rounds: 3 }),
      });
      const { cached, plain, varnish } = peers;
      return {
        subjects: results.subjects,
        rows: [
          results.ratio('memory hit, same body', {
            of: gateway,
            to: bare,
            ...(spec.target !== undefined && { target: atLeast(spec.target) }),
          }),
          ...(spec.tail === true
            ? [
                results.ratio('99th percentile of memory hits', {
                  of: gateway,
                  to: bare,
                  quantity: 'p99',
                  target: atMost(2),
                }),
              ]
            : []),
          ...(spec.tail === true
            ? withPeers(house, () => [
                results.ratio('memory hit', { of: gateway, to: cached, target: atLeast(1.15) }),
                results.ratio('memory hit', { of: gateway, to: plain, target: atLeast(1.5) }),
                results.ratio('memory hit', { of: gateway, to: varnish, target: atLeast(1.2) }),
              ])
            : []),
          ...peers.all.map((peer) => results.ratio(peer.name, { of: peer, to: bare })),
        ],
      };
    },
  };
}

interface Peers {
  readonly all: readonly Subject[];
  /** Those that are so slow that one round tells enough. */
  readonly slow: readonly Subject[];
  readonly cached?: Subject;
  readonly plain?: Subject;
  readonly varnish?: Subject;
}

async function startPeers(
  house: House,
  enginePort: number,
  wanted: SameBody['peers'],
): Promise<Peers> {
  if (wanted === undefined || !house.settings.peers) return { all: [], slow: [] };
  const nginx = await startNginx(house, enginePort);
  const varnish = await startVarnish(house, enginePort);
  const cached = nginx.OPEN_FILES;
  const some = [nginx.PLAIN, cached, varnish];
  if (wanted === 'cache') return { all: some, slow: [], cached, varnish };
  const plain = nginx.LOGIN_PLAIN;
  const slow = [nginx.LOGIN_APR1, nginx.LOGIN_BCRYPT];
  return { all: [...some, plain, ...slow], slow, cached, plain, varnish };
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

export const memoryHits: readonly Scenario[] = [
  sameBody({
    name: 'memory-2k',
    title: 'memory hits, same body, 2 KB, 32 connections',
    size: 2048,
    target: 0.85,
    peers: 'cache and login',
    tail: true,
  }),
  sameBody({
    name: 'memory-50k',
    title: 'memory hits, same body, 50 KB',
    size: 51_200,
    target: 0.9,
    peers: 'cache',
  }),
  sameBody({
    name: 'memory-2m',
    title: 'memory hits, same body, 2 MB',
    size: 2 * MIB,
    target: 0.97,
  }),
  sameBody({
    name: 'memory-20m',
    title: 'memory hits, same body, 20 MB, 4 connections, max_entry raised',
    size: 20 * MIB,
    connections: 4,
    settings: { cache: { max_entry: '32MiB' }, limits: { in_flight: '1GiB' } },
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
];
