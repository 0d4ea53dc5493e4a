/**
 * A primary process whose workers are reached through bad weather. `crew.ts` runs it and gives it orders; its arguments
 * are the folder of the source that it and its workers are made of, and the longest lease of a worker (ms).
 */
import { fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { CrewOrder, CrewTold, Weather } from './crew.ts';
import type * as PrimaryModule from '../../../src/workers/shared.ts';
import type * as LinkModule from '../../../src/workers/link.ts';
import type * as ClockModule from '../../../src/common/clock.ts';

const WORKER_MAIN = fileURLToPath(new URL('worker-main.ts', import.meta.url));
/** What is late is late by so much at most: more than two of the leases (ms). */
const LATEST = 250;

const [source = '', longestLease] = process.argv.slice(2);
const part = (file: string): Promise<unknown> => import(pathToFileURL(join(source, file)).href);
const { createPrimary } = (await part('workers/shared.ts')) as typeof PrimaryModule;
const { createLink } = (await part('workers/link.ts')) as typeof LinkModule;
const { systemClock } = (await part('common/clock.ts')) as typeof ClockModule;

const attach = createPrimary({
  clock: systemClock,
  newToken: () => randomBytes(16).toString('base64url'),
  orphanLease: Number(longestLease),
  engineStates: async () => undefined,
  inForce: () => undefined,
  configuration: () => '',
  states: { engines: () => [], reloaded: () => true },
});
const tell = (told: CrewTold) => void process.send?.(told);
/** Workers by the numbers that the orders give them. */
const workers = new Map<number, { toPrimary: Way; toWorker: Way; end(): void }>();

process.on('message', (said) => {
  const order = said as CrewOrder;
  if (order.order === 'start') return start(order);
  workers.get(order.worker)?.[order.way].set(order.weather);
});
// Nobody is left who could end them.
process.on('disconnect', () => {
  for (const { end } of workers.values()) end();
  process.exit();
});
tell({ told: 'ready' });

function start({ worker, config, deaf }: Extract<CrewOrder, { order: 'start' }>): void {
  const child = fork(WORKER_MAIN, [source, config]);
  let hear: (message: unknown) => void = () => {};
  const toWorker = createWay(
    deaf,
    (message) => child.connected && child.send(message as object, () => {}),
  );
  const toPrimary = createWay(deaf, (message) => hear(message));
  child.on('message', (message) => {
    const { listening } = message as { readonly listening?: number };
    if (listening === undefined) return toPrimary.send(message);
    tell({ told: 'listening', worker, pid: child.pid ?? 0, port: listening });
  });
  const link = createLink(
    {
      send(message, _connection, _options, callback) {
        toWorker.send(message);
        setImmediate(() => callback(null));
      },
      on: (_event, listener) => (hear = listener),
    },
    `worker ${worker}`,
  );
  const detach = attach(link);
  workers.set(worker, { toPrimary, toWorker, end: () => child.kill('SIGKILL') });
  child.on('exit', (code, signal) => {
    workers.delete(worker);
    detach();
    link.close();
    tell({ told: 'ended', worker, exit: code ?? signal });
  });
}

interface Way {
  send(message: unknown): void;
  set(weather: Weather): void;
}

/** One direction of a link. What goes through arrives in the order in which it was sent. */
function createWay(deaf: boolean, arrive: (message: unknown) => void): Way {
  const queue: { readonly message: unknown; readonly at: number }[] = [];
  let weather: Weather = 'fair';
  let timer: NodeJS.Timeout | undefined;

  function pump(): void {
    clearTimeout(timer);
    for (;;) {
      const [next] = queue;
      if (next === undefined || weather === 'held') return;
      const left = next.at - performance.now();
      if (left > 0) return void (timer = setTimeout(pump, left));
      arrive(queue.shift()?.message);
    }
  }

  return {
    send(message) {
      // A call that wants no answer.
      const isTold = (message as { readonly id?: unknown }).id === undefined;
      if (weather === 'lost' || (isTold && (deaf || weather === 'untold'))) return;
      const late = weather === 'slow' ? Math.random() * LATEST : 0;
      queue.push({ message, at: Math.max(queue.at(-1)?.at ?? 0, performance.now() + late) });
      pump();
    },
    set(next) {
      // What was on its way when a way was cut is lost as well.
      if (next === 'lost') queue.length = 0;
      weather = next;
      pump();
    },
  };
}
