import { readMessage, type Message } from './messages.ts';

/** What is called over a link. What it takes came as JSON and is not checked; what it gives goes as JSON. */
export type Service = Readonly<Record<string, (...args: readonly unknown[]) => unknown>>;

/**
 * Port: one end of the channel between the primary process and one worker. Both ends are alike. Calls and what is
 * told arrive in the order in which they were sent, or not at all.
 */
export interface Link {
  /**
   * @param within milliseconds after which it is given up; the other end may do it all the same, then or later
   * @returns what the method answered, not checked
   * @throws when the other end does not answer in time, has no such method, or failed, and when the link is closed
   */
  call(service: string, method: string, args: readonly unknown[], within: number): Promise<unknown>;
  /** Serves the other end from now on. What it threw is told there by its message. */
  serve(service: string, methods: Service): void;
  /** Nothing may depend on its arrival. */
  tell(topic: string, value: unknown): void;
  /** @returns ends it */
  onTold(topic: string, listener: (value: unknown) => void): () => void;
  /** Calls under way fail, and nothing arrives any more. */
  close(): void;
}

/** What carries messages; {@link Link} says what they mean. */
export interface Wire {
  /**
   * Never throws. @param lost called when it is known that the message does not arrive
   */
  send(message: unknown, lost: (error: Error) => void): void;
  /** The one who hears all that arrives. */
  onMessage(listener: (message: unknown) => void): void;
  /** Whether so much waits to be sent that what nothing depends on is better left. */
  crowded(): boolean;
}

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout;
}

/** @param other who is at the other end, for messages: `the primary process` */
export function createLink(wire: Wire, other: string): Link {
  const services = new Map<string, Service>();
  const listeners = new Map<string, Set<(value: unknown) => void>>();
  const waiting = new Map<number, Waiting>();
  let calls = 0;
  let closed = false;

  /** Undefined where nobody waits any more: an answer that came late. */
  function take(id: number): Waiting | undefined {
    const found = waiting.get(id);
    if (found === undefined) return undefined;
    waiting.delete(id);
    clearTimeout(found.timer);
    return found;
  }

  function send(message: Message, lost: (error: Error) => void = () => {}): void {
    wire.send(message, lost);
  }

  async function answer({ id, service, method, args }: Message & { kind: 'call' }): Promise<void> {
    try {
      const methods = services.get(service);
      const called = methods && Object.hasOwn(methods, method) ? methods[method] : undefined;
      if (called === undefined) throw new Error(`there is no ${service}.${method} here`);
      // Called in the turn in which it arrived, so that what was sent first is done first.
      const value = await called(...args);
      if (!closed) send({ kind: 'answer', id, value });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (!closed) send({ kind: 'failure', id, message });
    }
  }

  wire.onMessage((said) => {
    const message = closed ? undefined : readMessage(said);
    switch (message?.kind) {
      case 'call':
        return void answer(message);
      case 'answer':
        return take(message.id)?.resolve(message.value);
      case 'failure':
        return take(message.id)?.reject(new Error(`${other}: ${message.message}`));
      case 'told':
        for (const listener of listeners.get(message.topic) ?? []) hear(listener, message.value);
    }
  });

  return {
    call(service, method, args, within) {
      if (closed) return Promise.reject(new Error(`the link to ${other} is closed`));
      return new Promise((resolve, reject) => {
        const id = (calls += 1);
        const end = () => {
          take(id)?.reject(
            new Error(`${other} did not answer ${service}.${method} within ${within} ms`),
          );
        };
        // What has come while this process stood still is read first.
        const timer = setTimeout(() => setImmediate(end), within);
        timer.unref();
        waiting.set(id, { resolve, reject, timer });
        send({ kind: 'call', id, service, method, args }, (error) => take(id)?.reject(error));
      });
    },
    serve(service, methods) {
      services.set(service, methods);
    },
    tell(topic, value) {
      if (!closed && !wire.crowded()) send({ kind: 'told', topic, value });
    },
    onTold(topic, listener) {
      const all = listeners.get(topic) ?? new Set();
      listeners.set(topic, all.add(listener));
      return () => void all.delete(listener);
    },
    close() {
      closed = true;
      for (const id of waiting.keys())
        take(id)?.reject(new Error(`the link to ${other} is closed`));
    },
  };
}

/** Whoever cannot read what he is told has not been told: nothing depends on it. */
function hear(listener: (value: unknown) => void, value: unknown): void {
  try {
    listener(value);
  } catch {}
}
