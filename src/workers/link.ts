import { Socket } from 'node:net';

/** What is called over a link. Arguments came as JSON and are not checked; a connection, if one came, is the last one. */
export type Service = Readonly<Record<string, (...args: readonly unknown[]) => unknown>>;

/**
 * One end of the channel between the primary process and one worker. Both ends are alike. Calls and what is told arrive
 * in the order in which they were sent, or not at all.
 */
export interface Link {
  /**
   * @param within milliseconds after which it is given up (Infinity: never); the other end may do it all the same
   * @param connection a copy of it goes along; the caller closes its own
   * @returns what the method answered, not checked
   * @throws when the other end does not answer in time, has no such method, or failed, and when the link is closed
   */
  call(
    service: string,
    method: string,
    args: readonly unknown[],
    within: number,
    connection?: Socket,
  ): Promise<unknown>;
  /** Serves the other end from now on. What a method throws reaches the caller as its message. */
  serve(service: string, methods: Service): void;
  /** Nothing may depend on its arrival. */
  tell(topic: string, value: unknown): void;
  /** @returns ends it */
  onTold(topic: string, listener: (value: unknown) => void): () => void;
  /** Calls under way fail, and nothing arrives any more. */
  close(): void;
}

/** The subset that both ends of the channel between two processes have: `process`, and a `ChildProcess`. */
export interface Channel {
  /** Undefined once the channel is closed. */
  send?(
    message: object,
    connection: Socket | undefined,
    options: { keepOpen: true },
    callback: (error: Error | null) => void,
  ): unknown;
  on(event: 'message', listener: (message: unknown, connection?: unknown) => void): unknown;
}

type Message =
  /** The answer has the id of the call. */
  | { kind: 'call'; id: number; service: string; method: string; args: readonly unknown[] }
  | { kind: 'answer'; id: number; value?: unknown }
  | { kind: 'failure'; id: number; message: string }
  | { kind: 'told'; topic: string; value: unknown };

interface WaitingCall {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout | undefined;
}

/** When more messages than this wait for a process that stalls, what nothing depends on is not sent. */
const MAX_UNSENT = 1_000;

/** @param other names the other end in errors: `the primary process` */
export function createLink(channel: Channel, other: string): Link {
  const services = new Map<string, Service>();
  const listeners = new Map<string, Set<(value: unknown) => void>>();
  const waiting = new Map<number, WaitingCall>();
  let calls = 0;
  let unsent = 0;
  let closed = false;

  function send(message: Message, failed: (error: Error) => void, connection?: Socket): void {
    if (channel.send === undefined) return failed(new Error(`${other} is gone`));
    unsent += 1;
    channel.send(message, connection, { keepOpen: true }, (error) => {
      unsent -= 1;
      if (error !== null) failed(error);
    });
  }

  /** Undefined where the caller has given up: an answer that came late. */
  function take(id: number): WaitingCall | undefined {
    const found = waiting.get(id);
    waiting.delete(id);
    clearTimeout(found?.timer);
    return found;
  }

  async function answer(call: Message & { kind: 'call' }, connection: unknown): Promise<void> {
    const { id, service, method, args } = call;
    let reply: Message;
    try {
      const methods = services.get(service);
      const called = methods && Object.hasOwn(methods, method) ? methods[method] : undefined;
      if (called === undefined) throw new Error(`there is no ${service}.${method} here`);
      // Called in the turn in which it arrived, so that what was sent first is done first.
      const handed = connection instanceof Socket ? [connection] : [];
      reply = { kind: 'answer', id, value: await called(...args, ...handed) };
    } catch (error) {
      reply = { kind: 'failure', id, message: messageOf(error) };
    }
    if (!closed) send(reply, () => {});
  }

  channel.on('message', (said, connection) => {
    const message = closed ? undefined : asMessage(said);
    switch (message?.kind) {
      case 'call':
        return void answer(message, connection);
      case 'answer':
        return take(message.id)?.resolve(message.value);
      case 'failure':
        return take(message.id)?.reject(new Error(`${other}: ${message.message}`));
      case 'told':
        for (const listener of listeners.get(message.topic) ?? []) hear(listener, message.value);
    }
  });

  return {
    call(service, method, args, within, connection) {
      if (closed) return Promise.reject(new Error(`the link to ${other} is closed`));
      return new Promise((resolve, reject) => {
        const id = (calls += 1);
        const late = new Error(`${other} did not answer ${service}.${method} within ${within} ms`);
        // What has come while this process was busy is read first.
        const giveUp = () => setImmediate(() => take(id)?.reject(late));
        const timer = within === Infinity ? undefined : setTimeout(giveUp, within).unref();
        waiting.set(id, { resolve, reject, timer });
        const message: Message = { kind: 'call', id, service, method, args };
        send(message, (error) => take(id)?.reject(error), connection);
      });
    },
    serve: (service, methods) => void services.set(service, methods),
    tell(topic, value) {
      if (!closed && unsent <= MAX_UNSENT) send({ kind: 'told', topic, value }, () => {});
    },
    onTold(topic, listener) {
      const all = listeners.get(topic) ?? new Set();
      listeners.set(topic, all.add(listener));
      return () => void all.delete(listener);
    },
    close() {
      closed = true;
      const error = new Error(`the link to ${other} is closed`);
      for (const id of waiting.keys()) take(id)?.reject(error);
    },
  };
}

/** Others may use the same channel. */
function asMessage(said: unknown): Message | undefined {
  return typeof said === 'object' && said !== null && 'kind' in said
    ? (said as Message)
    : undefined;
}

/** Nothing depends on what is told, so a listener that cannot read it must do no harm. */
function hear(listener: (value: unknown) => void, value: unknown): void {
  try {
    listener(value);
  } catch {}
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
