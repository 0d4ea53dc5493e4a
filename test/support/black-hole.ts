import { once } from 'node:events';
import type { Server, Socket } from 'node:net';
import { connect, createServer } from 'node:net';
import { freePort } from './free-port.ts';

/**
 * `forward`: bytes pass. `hang`: connections stay open and new ones are accepted, but no byte passes.
 * `mute`: bytes pass to the target, nothing comes back. `refuse`: open connections break, new ones are refused.
 * What `hang` and `mute` hold back is delivered by a later `forward`, as after a network that stood still.
 */
export type BlackHoleMode = 'forward' | 'hang' | 'mute' | 'refuse';

/** A TCP proxy on 127.0.0.1 that can fail in the ways a network fails. */
export interface BlackHole {
  readonly port: number;
  readonly mode: BlackHoleMode;
  /** Connections that clients hold open through it now. */
  readonly connections: number;
  /** Resolves when the mode holds for all connections, old and new. */
  set(mode: BlackHoleMode): Promise<void>;
  /** Breaks all open connections and keeps the mode. */
  cut(): void;
  close(): Promise<void>;
}

interface Pair {
  readonly client: Socket;
  /** Made when the first byte may pass. */
  target: Socket | undefined;
}

const PORT_ATTEMPTS = 10;

/** Starts a black hole in front of a port on 127.0.0.1, in mode `forward`. */
export async function startBlackHole(targetPort: number): Promise<BlackHole> {
  const pairs = new Set<Pair>();
  let mode: BlackHoleMode = 'forward';
  let server = newServer();
  const port = await listenAnywhere(server);

  function newServer(): Server {
    // Half-open: one side's end is passed on, and must not close the other's direction.
    return createServer({ allowHalfOpen: true, pauseOnConnect: true }, (client) => {
      const pair: Pair = { client, target: undefined };
      pairs.add(pair);
      client.once('close', () => breakPair(pair));
      client.on('error', () => breakPair(pair));
      apply(pair);
    });
  }

  function apply(pair: Pair): void {
    const requests = mode === 'forward' || mode === 'mute';
    if (requests && pair.target === undefined) {
      const target = connect({ port: targetPort, host: '127.0.0.1', allowHalfOpen: true });
      target.once('close', () => breakPair(pair));
      target.on('error', () => breakPair(pair));
      pair.target = target;
    }
    const { client, target } = pair;
    if (target === undefined) return;
    switchPipe(client, target, requests);
    switchPipe(target, client, mode === 'forward');
  }

  function breakPair(pair: Pair): void {
    pairs.delete(pair);
    pair.client.destroy();
    pair.target?.destroy();
  }

  function cut(): void {
    for (const pair of pairs) breakPair(pair);
  }

  async function stopListening(): Promise<void> {
    if (!server.listening) return;
    const closed = once(server, 'close');
    server.close();
    cut();
    await closed;
  }

  return {
    port,
    get mode() {
      return mode;
    },
    get connections() {
      return pairs.size;
    },
    async set(next) {
      mode = next;
      if (mode === 'refuse') {
        await stopListening();
        return;
      }
      for (const pair of pairs) apply(pair);
      if (!server.listening) {
        server = newServer();
        await listen(server, port);
      }
    },
    cut,
    close: stopListening,
  };
}

function switchPipe(from: Socket, to: Socket, open: boolean): void {
  from.unpipe(to);
  if (open) from.pipe(to);
  else from.pause();
}

async function listen(server: Server, port: number): Promise<void> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
}

async function listenAnywhere(server: Server): Promise<number> {
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort();
    try {
      await listen(server, port);
      return port;
    } catch (error) {
      if (attempt === PORT_ATTEMPTS) throw error;
    }
  }
}
