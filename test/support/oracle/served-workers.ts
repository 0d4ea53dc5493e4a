import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../free-port.ts';
import { configFolder, type GatewayProcess } from '../gateway-process.ts';
import { onAnyPort } from '../taken-port.ts';
import { gatewayDisturbances } from './disturbances.ts';
import type { OracleForm } from './forms.ts';
import {
  ENGINE_TIMEOUT,
  LIVES,
  serveOn,
  takesConnections,
  type GatewaySettings,
} from './gateways.ts';
import {
  childrenOf,
  killProcess,
  processEnded,
  processStopped,
  signalProcess,
} from './process-states.ts';
import { ASKERS } from './questions.ts';
import type { Disturbance } from './weather.ts';

const WORKERS = 3;

/** A primary process with workers as an operator starts them. They share one port: nobody knows who answers. */
export async function servedWorkers(): Promise<OracleForm> {
  const folder = await configFolder();
  await folder.writeUsers(['ADMIN', ...ASKERS]);
  let running: GatewayProcess | undefined;
  let port = 0;
  let paused: number | undefined;
  const pidOf = (number: number) => {
    const pids = childrenOf(running?.pid);
    return pids[number % pids.length];
  };

  async function start(given: GatewaySettings): Promise<void> {
    const { engineUrl, ledger } = given;
    const found = await onAnyPort(freePort, (tried) => {
      const file = folder.write({
        workers: WORKERS,
        listen: { port: tried },
        engine: { url: engineUrl, login: 'forward', timeout: ENGINE_TIMEOUT },
        cache: { lease: '100ms', ...LIVES[0], client_control: 'everybody' },
        storage: { path: './gateway.sqlite' },
        log: { level: 'error' },
      });
      return serveOn('the primary process', file, tried, given);
    });
    ({ port, running } = found);
    ledger.note('the primary process started');
    void found.running.ended.then(({ exit, stderr }) => {
      // Nobody but this test ends it.
      if (exit !== 'SIGKILL') ledger.accuse(`the primary process ended: ${exit} ${stderr}`);
    });
  }

  /** Kills the primary process, and sees its workers end. */
  async function end(): Promise<void> {
    const workers = childrenOf(running?.pid);
    running?.kill('SIGKILL');
    await running?.ended;
    running = undefined;
    for (const pid of workers) await processEnded(pid);
  }

  let settings: GatewaySettings | undefined;
  return {
    async startGateway(name, given) {
      const number = Number(name.replace(/\D/g, ''));
      settings = given;
      if (running === undefined) await start(given);
      return {
        name,
        get port() {
          return port;
        },
        // What a worker was given that was killed before it took it is answered by nobody.
        patience: 60_000,
        blackHole: undefined,
        async kill() {
          const pid = pidOf(number);
          if (pid !== undefined) await killProcess(pid);
        },
        // Its primary process starts another one; until then the others answer.
        async start() {
          while (!(await takesConnections(port))) await delay(20);
        },
        async pause() {
          paused = pidOf(number);
          if (paused === undefined) return;
          signalProcess(paused, 'SIGSTOP');
          await processStopped(paused);
        },
        resume() {
          if (paused !== undefined) signalProcess(paused, 'SIGCONT');
        },
        close: end,
      };
    },
    disturbances(gateways, random) {
      const primary: Disturbance[] = [
        {
          name: 'the primary process stands still and goes on',
          async strike() {
            const pid = running?.pid;
            if (pid === undefined) return;
            signalProcess(pid, 'SIGSTOP');
            await processStopped(pid);
            await delay(random(2) === 0 ? random(150) : 150 + random(2_000));
            signalProcess(pid, 'SIGCONT');
          },
        },
        {
          name: 'the primary process is killed, its workers end, and all is started anew',
          async strike() {
            await end();
            if (settings !== undefined) await start(settings);
          },
        },
      ];
      return [[...gatewayDisturbances(gateways, random), ...primary]];
    },
    async close() {
      await end();
      folder.remove();
    },
  };
}
