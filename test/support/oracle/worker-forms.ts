import { setTimeout as delay } from 'node:timers/promises';
import { configFolder } from '../gateway-process.ts';
import {
  startCrew,
  type CrewWorker,
  type Direction,
  type OracleCrew,
  type Weather,
} from './crew.ts';
import { gatewayDisturbances } from './disturbances.ts';
import type { OracleForm } from './forms.ts';
import { ENGINE_TIMEOUT, livesOf, type GatewaySettings, type OracleGateway } from './gateways.ts';
import { killProcess, processStopped, signalProcess } from './process-states.ts';
import { ASKERS } from './questions.ts';
import type { Disturbance } from './weather.ts';

/** For how long workers use what they read (ms): a reload may reach one before the others. */
const LEASES: readonly number[] = [100, 300, 200];

interface OracleWorker extends OracleGateway {
  /** Between it and its primary process. */
  weather(way: Direction, weather: Weather): void;
}

/** Workers of one primary process without Redis, each on a port of its own, so that it is known who answers. */
export async function workersOfOne(): Promise<OracleForm> {
  const crew = startCrew({ longestLease: Math.max(...LEASES) });
  const workers: OracleWorker[] = [];
  return {
    async startGateway(name, settings) {
      const lease = LEASES[workers.length % LEASES.length] ?? 0;
      const worker = await startOracleWorker(name, settings, { crew, lease });
      workers.push(worker);
      return worker;
    },
    disturbances: (gateways, random) => [
      gatewayDisturbances(gateways, random),
      ...linkDisturbances(workers, random),
      primaryDisturbances(crew, workers, random),
    ],
    close: crew.close,
  };
}

async function startOracleWorker(
  name: string,
  { ledger, engineUrl, deaf }: GatewaySettings,
  { crew, lease }: { readonly crew: OracleCrew; readonly lease: number },
): Promise<OracleWorker> {
  const folder = await configFolder();
  await folder.writeUsers(['ADMIN', ...ASKERS]);
  const file = folder.write({
    engine: { url: engineUrl, login: 'forward', timeout: ENGINE_TIMEOUT },
    cache: { lease: `${lease}ms`, ...livesOf(name), client_control: 'everybody' },
    storage: { path: './gateway.sqlite' },
  });
  let running: CrewWorker | undefined;
  let last = Promise.resolve();

  async function kill(): Promise<void> {
    const killed = running;
    running = undefined;
    if (killed !== undefined) await killProcess(killed.pid);
  }

  async function restart(): Promise<void> {
    await kill();
    const isDeaf = deaf();
    const started = await crew.start(file, isDeaf);
    running = started;
    ledger.note(`${name} started${isDeaf ? ', deaf' : ''}`);
    void started.ended.then((exit) => {
      // Nobody but this test ends it.
      if (exit !== 'SIGKILL') ledger.accuse(`${name} ended by itself: ${exit} ${crew.stderr}`);
    });
  }

  /** One at a time: two disturbances may start the same worker anew. */
  function start(): Promise<void> {
    const started = last.then(restart);
    last = started.catch(() => {});
    return started;
  }

  async function close(): Promise<void> {
    await last;
    await kill();
    folder.remove();
  }

  try {
    await start();
  } catch (error) {
    await close();
    throw error;
  }
  return {
    name,
    get port() {
      return running?.port ?? 0;
    },
    blackHole: undefined,
    kill,
    start,
    async pause() {
      const { pid } = running ?? {};
      if (pid === undefined) return;
      signalProcess(pid, 'SIGSTOP');
      await processStopped(pid);
    },
    resume() {
      if (running !== undefined) signalProcess(running.pid, 'SIGCONT');
    },
    weather: (way, weather) => running?.weather(way, weather),
    close,
  };
}

/** What happens on the way between a worker and its primary process. */
function linkDisturbances(
  workers: readonly OracleWorker[],
  random: (below: number) => number,
): Disturbance[][] {
  const during = (
    name: string,
    ways: readonly Direction[],
    weather: Weather,
    longest: number,
  ): Disturbance => ({
    name,
    async strike() {
      const worker = workers[random(workers.length)];
      for (const way of ways) worker?.weather(way, weather);
      await delay(random(longest));
      // What was held back comes late, or is lost.
      const lost = weather === 'held' && random(3) === 0;
      for (const way of ways) {
        if (lost) worker?.weather(way, 'lost');
        worker?.weather(way, 'fair');
      }
    },
  });
  const both: readonly Direction[] = ['toPrimary', 'toWorker'];
  return [
    [
      during('a worker and its primary process do not hear each other', both, 'held', 1_500),
      during('a worker is heard and hears nothing', ['toWorker'], 'held', 1_500),
      during('a worker hears and is not heard', ['toPrimary'], 'held', 1_500),
      during('what a worker says is lost', ['toPrimary'], 'lost', 1_000),
    ],
    [
      during('what a worker is told comes late', ['toWorker'], 'slow', 2_000),
      during('what a worker says comes late', ['toPrimary'], 'slow', 2_000),
      during('nobody tells a worker of purges', ['toWorker'], 'untold', 2_000),
    ],
  ];
}

/** What happens to the primary process. */
function primaryDisturbances(
  crew: OracleCrew,
  workers: readonly OracleWorker[],
  random: (below: number) => number,
): Disturbance[] {
  return [
    {
      name: 'the primary process stands still and goes on',
      async strike() {
        await crew.pause();
        // Shorter than a lease, or much longer.
        await delay(random(2) === 0 ? random(150) : 150 + random(2_000));
        crew.resume();
      },
    },
    {
      name: 'the primary process is killed, and its workers end one after the other when there is another one',
      async strike() {
        await crew.kill();
        if (random(2) === 0) await delay(random(500));
        crew.renew();
        for (const worker of [...workers].sort(() => random(3) - 1)) {
          await worker.start();
          await delay(random(300));
        }
      },
    },
  ];
}
