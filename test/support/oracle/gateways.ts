import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { startBlackHole, type BlackHole } from '../black-hole.ts';
import { freePort } from '../free-port.ts';
import { configFolder, runMain, type Finished, type GatewayProcess } from '../gateway-process.ts';
import { processState } from '../redis-process.ts';
import { onAnyPort, PortTaken } from '../taken-port.ts';
import type { Ledger } from './ledger.ts';
import { LOADER } from './fresh.ts';
import { ASKERS } from './questions.ts';
import type { RedisOfGateways } from './redis-forms.ts';

/** The shortest that the configuration takes. */
const LEASE = '100ms';
/** Longer than the slowest answer, and shorter than the engine stands still. */
export const ENGINE_TIMEOUT = '1s';
/** How long answers live, and how much longer while the engine is away: gateways may differ in it. */
export const LIVES = [
  { ttl: '1s', stale_if_error: '1h' },
  { ttl: '2s', stale_if_error: '2s' },
  { stale_if_error: '1h' },
] as const;
export const livesOf = (name: string) => LIVES[Number(name.replace(/\D/g, '')) % LIVES.length];

/** What a gateway may take to start (ms). */
const PATIENCE = 180_000;

/** One gateway in a process of its own, which can be hurt. */
export interface OracleGateway {
  readonly name: string;
  /** Another one after each start. */
  readonly port: number;
  /** Milliseconds after which a client waits no longer; it waits for ever where this is left out. */
  readonly patience?: number;
  /** Between it and its Redis; undefined where Redis tells its own addresses. */
  readonly blackHole: BlackHole | undefined;
  /** SIGKILL; resolves when it has ended. */
  kill(): Promise<void>;
  /** Starts it anew; resolves when it takes connections. */
  start(): Promise<void>;
  /** SIGSTOP; resolves when it stands still. */
  pause(): Promise<void>;
  /** SIGCONT. */
  resume(): void;
  close(): Promise<void>;
}

export interface GatewaySettings {
  readonly ledger: Ledger;
  readonly engineUrl: string;
  /** A page that a watcher looks at. */
  readonly pageUrl: string;
  /** Told of each line of the logs. */
  readonly onLine: (line: string) => void;
  /** Decides at each start whether it is to hear of no purge. */
  readonly deaf: () => boolean;
  /** Another program than that of this tree. */
  readonly main: string | undefined;
}

/** Starts a gateway that shares a Redis with others. */
export async function startOracleGateway(
  name: string,
  settings: GatewaySettings,
  redis: RedisOfGateways,
): Promise<OracleGateway> {
  const { ledger } = settings;
  const folder = await configFolder();
  await folder.writeUsers(['ADMIN', LOADER, ...ASKERS]);
  const blackHole = redis.port === undefined ? undefined : await startBlackHole(redis.port);
  let running: GatewayProcess | undefined;
  let port = 0;

  async function start(): Promise<void> {
    const deaf = settings.deaf();
    const found = await onAnyPort(freePort, (tried) => launch(tried, deaf));
    port = found.port;
    ledger.note(`${name} started${deaf ? ', deaf' : ''}`);
    void found.running.ended.then(({ exit, stderr }) => {
      // Nobody but this test ends it.
      if (exit !== 'SIGKILL') ledger.accuse(`${name} ended by itself: ${exit} ${stderr}`);
    });
  }

  async function launch(onPort: number, deaf: boolean): Promise<GatewayProcess> {
    const file = folder.write({
      listen: { port: onPort },
      engine: { url: settings.engineUrl, login: 'forward', timeout: ENGINE_TIMEOUT },
      // Misses and failures are what this is about: it would tell each of them.
      log: { level: 'error' },
      ...redis.more?.(settings),
      cache: {
        lease: LEASE,
        ...livesOf(name),
        client_control: 'everybody',
        redis: redis.settings(deaf, blackHole?.port),
      },
      storage: { path: './gateway.sqlite' },
    });
    return (running = await serveOn(name, file, onPort, settings));
  }

  async function kill(): Promise<void> {
    running?.kill('SIGKILL');
    await running?.ended;
  }

  async function close(): Promise<void> {
    await kill();
    await blackHole?.close();
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
      return port;
    },
    blackHole,
    kill,
    start,
    async pause() {
      const { pid } = running ?? {};
      running?.kill('SIGSTOP');
      if (pid === undefined) return;
      while (processState(pid) !== 'T') await delay(1);
    },
    resume: () => running?.kill('SIGCONT'),
    close,
  };
}

/**
 * Runs the program; resolves when it takes connections at the port that its configuration names.
 * @throws PortTaken
 */
export async function serveOn(
  name: string,
  file: string,
  port: number,
  { main, onLine }: Pick<GatewaySettings, 'main' | 'onLine'>,
): Promise<GatewayProcess> {
  const started = runMain(['serve', '--config', file], { main, onLine });
  const latest = performance.now() + PATIENCE;
  let ended: Finished | undefined;
  void started.ended.then((result) => (ended = result));
  while (!(await takesConnections(port))) {
    if (ended !== undefined) {
      const text = `${name} ended with ${JSON.stringify(ended)}`;
      throw ended.stderr.includes('another program listens')
        ? new PortTaken(text)
        : new Error(text);
    }
    if (performance.now() > latest) {
      started.kill('SIGKILL');
      throw new Error(`${name} does not listen, and has told ${JSON.stringify(started.log)}`);
    }
    await delay(20);
  }
  return started;
}

export function takesConnections(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const done = (taken: boolean) => {
      socket.destroy();
      resolve(taken);
    };
    socket.once('connect', () => done(true));
    socket.once('error', () => done(false));
  });
}
