import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { configFolder, PROGRAM_ENVIRONMENT } from '../gateway-process.ts';

const MAIN = fileURLToPath(new URL('../../../src/main.ts', import.meta.url));
/** Of the old generation of V8 (MiB): what an attack must not use up. */
const HEAP = 512;
/** Resident memory is read so often (ms). */
const SAMPLED_EVERY = 100;
const MIB = 1024 * 1024;

/** A gateway in a process of its own, as an operator starts it, and what it takes of memory. Sizes are MiB. */
export interface AttackedGateway {
  readonly url: string;
  /** The resident memory now. */
  resident(): number;
  /** The most of all samples so far; of a gateway that has ended, of those before its end. */
  peak(): number;
  /** What V8 uses after a collection; NaN when the gateway has ended. */
  usedHeap(): Promise<number>;
  /** How it ended; undefined while it runs. */
  ended(): string | undefined;
  /** Resolves when it has ended. */
  readonly ends: Promise<unknown>;
  close(): Promise<void>;
}

/** Redis is well, though this machine may keep it from running for longer than the deadlines of a gateway. */
const PATIENT = fileURLToPath(new URL('../patient-redis.ts', import.meta.url));

/** @param users each password is the name in lower case */
export async function startAttackedGateway(
  settings: Record<string, unknown>,
  users: readonly string[],
): Promise<AttackedGateway> {
  const folder = await configFolder();
  await folder.writeUsers(users);
  const file = folder.write(settings);
  const node = [`--max-old-space-size=${HEAP}`, '--inspect=127.0.0.1:0', '--import', PATIENT];
  const child = spawn(process.execPath, [...node, MAIN, 'serve', '--config', file], {
    env: PROGRAM_ENVIRONMENT,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let end: string | undefined;
  let stderr = '';
  const closed = once(child, 'close').then(([code, signal]) => {
    end = `ended with ${code ?? signal}: ${/FATAL ERROR.*/.exec(stderr)?.[0] ?? stderr.slice(-500)}`;
  });
  // What is told while it runs is read and let go: an attack may fill the log.
  const first = (stream: NodeJS.ReadableStream, pattern: RegExp) =>
    new Promise<string>((resolve, reject) => {
      let text = '';
      stream.setEncoding('utf8').on('data', function look(part: string) {
        text += part;
        const found = pattern.exec(text)?.[1];
        if (found === undefined) return;
        stream.off('data', look).resume();
        resolve(found);
      });
      void closed.then(() => reject(new Error(`The gateway ${end}`)));
    });
  child.stderr.on('data', (part: Buffer) => (stderr = (stderr + part.toString()).slice(-20_000)));
  const [url, inspector] = await Promise.all([
    first(child.stdout, /"url":"([^"]+)"/),
    first(child.stderr, /listening on (ws:\S+)/),
  ]);

  /** What it takes now; NaN when it has ended. */
  function resident(): number {
    try {
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
      return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024;
    } catch {
      return NaN;
    }
  }
  let most = 0;
  const sampler = setInterval(() => {
    const now = resident();
    if (now > most) most = now;
  }, SAMPLED_EVERY);

  return {
    url,
    resident,
    peak: () => most,
    async usedHeap() {
      const used = await Promise.race([usedHeapOf(inspector), closed]).catch(() => undefined);
      return typeof used === 'number' ? used / MIB : NaN;
    },
    ended: () => end,
    ends: closed,
    async close() {
      clearInterval(sampler);
      child.kill('SIGKILL');
      await closed;
      folder.remove();
    },
  };
}

/** Bytes that V8 uses after a collection, by the inspector protocol. Rejects when the connection fails. */
async function usedHeapOf(inspector: string): Promise<number> {
  const socket = new WebSocket(inspector);
  const failed = new Promise<never>((_, reject) => {
    socket.addEventListener('error', () => reject(new Error('no inspector')));
    socket.addEventListener('close', () => reject(new Error('the inspector went')));
  });
  failed.catch(() => {});
  let calls = 0;
  const call = (method: string): Promise<Record<string, number>> => {
    calls += 1;
    const id = calls;
    const answered = new Promise<Record<string, number>>((resolve) => {
      socket.addEventListener('message', function read({ data }) {
        const message = JSON.parse(String(data)) as { id?: number; result: Record<string, number> };
        if (message.id !== id) return;
        socket.removeEventListener('message', read);
        resolve(message.result);
      });
    });
    socket.send(JSON.stringify({ id, method }));
    return Promise.race([answered, failed]);
  };
  try {
    await Promise.race([
      new Promise((resolve) => void socket.addEventListener('open', resolve)),
      failed,
    ]);
    // What only the finalizers of the first collection let go is taken by the second.
    await call('HeapProfiler.collectGarbage');
    await call('HeapProfiler.collectGarbage');
    const { usedSize = NaN } = await call('Runtime.getHeapUsage');
    return usedSize;
  } finally {
    socket.close();
  }
}
