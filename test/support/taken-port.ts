import { setTimeout as delay } from 'node:timers/promises';

const ATTEMPTS = 10;

/** Another process listens on the port that a server was started with. */
export class PortTaken extends Error {}

/** Starts a server on a port that is free; tries another one when somebody takes it meanwhile. */
export async function onAnyPort<T>(
  pickPort: () => Promise<number>,
  launch: (port: number) => Promise<T>,
): Promise<{ port: number; running: T }> {
  for (let attempt = 1; ; attempt += 1) {
    const port = await pickPort();
    try {
      return { port, running: await launch(port) };
    } catch (error) {
      if (!(error instanceof PortTaken) || attempt === ATTEMPTS) throw error;
    }
  }
}

/** Starts it on its old port: the kernel may need a moment to give back that of a process that was killed. */
export async function onSamePort<T>(launch: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await launch();
    } catch (error) {
      if (!(error instanceof PortTaken) || attempt === ATTEMPTS) throw error;
      await delay(100);
    }
  }
}
