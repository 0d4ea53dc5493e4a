import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { processStopped } from '../support/oracle/process-states.ts';

/** A process of the drill that does what it is told. */
export interface Remote {
  /** @throws Error with what went wrong there */
  call<Value>(name: string, argument?: unknown): Promise<Value>;
  /** Stops the process where it stands: its port takes connections, and nothing is answered. */
  freeze(): Promise<void>;
  thaw(): void;
  stop(): Promise<void>;
}

interface Call {
  readonly id: number;
  readonly name: string;
  readonly argument: unknown;
}

interface Reply {
  readonly id: number;
  readonly value?: unknown;
  readonly failed?: string;
}

export type Handlers = Readonly<Record<string, (argument: never) => unknown>>;

/** @param file beside this one; it calls {@link serveRemote} */
export function startRemote(file: string, env: Readonly<Record<string, string>> = {}): Remote {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), {
    env: { PATH: process.env['PATH'], ...env },
    execArgv: [],
  });
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  let calls = 0;
  child.on('message', ({ id, value, failed }: Reply) => {
    const call = waiting.get(id);
    waiting.delete(id);
    if (failed === undefined) call?.resolve(value);
    else call?.reject(new Error(`${file}: ${failed}`));
  });
  const ended = once(child, 'exit').then(([code, signal]) => {
    const error = new Error(`${file} ended with ${code ?? signal}`);
    for (const { reject } of waiting.values()) reject(error);
  });
  return {
    call<Value>(name: string, argument?: unknown) {
      const answer = Promise.withResolvers<unknown>();
      waiting.set((calls += 1), answer);
      child.send(
        { id: calls, name, argument } satisfies Call,
        (error) => error && answer.reject(error),
      );
      return answer.promise as Promise<Value>;
    },
    async freeze() {
      child.kill('SIGSTOP');
      if (child.pid !== undefined) await processStopped(child.pid);
    },
    thaw: () => void child.kill('SIGCONT'),
    async stop() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

/** Answers calls until the process that started this one has ended. */
export function serveRemote(handlers: Handlers): void {
  process.on('disconnect', () => process.exit());
  process.on('message', ({ id, name, argument }: Call) => {
    const reply = (told: Omit<Reply, 'id'>) => process.send?.({ id, ...told } satisfies Reply);
    Promise.try(() => handlers[name]?.(argument as never)).then(
      (value) => reply({ value }),
      (error: unknown) => reply({ failed: String(error) }),
    );
  });
}
