import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../test/support/free-port.ts';
import { ask } from './http.ts';
import { CLIENT_CORE, listensOn, SERVER_CORE, start } from './processes.ts';

/** What a run of the benchmark was asked for. */
export interface Settings {
  /** Short rounds and little data: whether everything works, not how fast it is. */
  readonly quick: boolean;
  /** Whether nginx and Varnish are measured beside the gateway. */
  readonly peers: boolean;
  /** The gateway's main file. */
  readonly gateway: string;
  /** That of another version, beside which this one is measured (`--against`). */
  readonly other?: string;
  /** Measured rounds of each server. */
  readonly rounds: number;
  /** Of one round. */
  readonly seconds: number;
}

/** What one scenario has: settings, a folder, and servers that end with it. */
export interface House {
  readonly settings: Settings;
  /** Makes a folder of this name. */
  folder(name: string): string;
  /** Is done when the scenario is over, last things first. */
  defer(work: () => Promise<void> | void): void;
  say(text: string): void;
}

/** One server that is measured. */
export interface Subject {
  readonly name: string;
  readonly port: number;
  readonly path: string;
  /** Beside those of XMLA. */
  readonly headers: Readonly<Record<string, string>>;
  /** CPU time of its processes since they began (µs). */
  cpu(): number;
  /** Of a cache: the header by which an answer tells where it came from, and what it says of a hit. */
  readonly tells?: { readonly header: string; readonly hit: RegExp };
}

export interface Engine {
  readonly port: number;
  /** Requests that came so far. */
  count(): Promise<number>;
}

const script = (path: string) => join(import.meta.dirname, path);

/** @param delay milliseconds that it takes for an answer */
export async function startEngine(house: House, delay = 0): Promise<Engine> {
  const port = await freePort();
  const args = [script('engine.ts'), String(port), String(delay)];
  const running = start(CLIENT_CORE, process.execPath, args);
  house.defer(running.stop);
  await listensOn(port, running);
  return { port, count: async () => Number((await ask(port, { method: 'GET' })).body) };
}

/** Starts one of the servers in `servers/`: its first argument is its port. */
export async function startServer(
  house: House,
  name: string,
  file: string,
  args: readonly (string | number)[] = [],
): Promise<Subject> {
  const port = await freePort();
  const words = [script(`servers/${file}`), String(port), ...args.map(String)];
  const running = start(SERVER_CORE, process.execPath, words);
  house.defer(running.stop);
  await listensOn(port, running);
  return { name, port, path: '/mdx/xmla', headers: {}, cpu: running.cpu };
}

export function createHouse(settings: Settings, root: string, say: (text: string) => void) {
  const stack = new AsyncDisposableStack();
  const house: House = {
    settings,
    folder(name) {
      const path = join(root, name);
      mkdirSync(path, { recursive: true });
      return path;
    },
    defer: (work) => stack.defer(work),
    say,
  };
  return { house, close: () => stack.disposeAsync() };
}
