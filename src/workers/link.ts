import { Socket } from 'node:net';
import { type Clock, inTime } from '../common/clock.ts';
import { messageOf } from '../common/errors.ts';

/** Arguments are unchecked JSON; a connection, if one came, is the last one. */
type Service = Readonly<Record<string, (...args: never[]) => unknown>>;

export interface Channel {
  send?(
    message: object,
    connection: Socket | undefined,
    options: { keepOpen: true },
    callback: (error: Error | null) => void,
  ): unknown;
  on(event: 'message', listener: (message: unknown, connection?: unknown) => void): unknown;
}

type Message =
  /** A call without an id gets no answer. */
  | { kind: 'call'; id?: number; service: string; method: string; args: readonly unknown[] }
  | { kind: 'answer'; id: number; value?: unknown; problem?: string };

/** With more unsent messages than this, messages that may get lost are dropped. */
const MAX_UNSENT = 1_000;
export type Link = ReturnType<typeof createLink>;

/**
 * One end of the channel between the primary process and a worker. Messages arrive in order, or not
 * at all. @param other names the other end in errors
 */
export function createLink(channel: Channel, other: string, clock?: Pick<Clock, 'after'>) {
  const services = new Map<string, Service>();
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  let calls = 0;
  let unsent = 0;
  let closed = false;
  const isClosed = () => new Error(`the link to ${other} is closed`);

  function send(message: Message, failed: (error: Error) => void, connection?: Socket): void {
    if (channel.send === undefined) return failed(new Error(`${other} is gone`));
    unsent += 1;
    channel.send(message, connection, { keepOpen: true }, (error) => {
      unsent -= 1;
      if (error !== null) failed(error);
    });
  }

  async function answer(call: Message & { kind: 'call' }, connection: unknown) {
    const { service, method, args } = call;
    try {
      const methods = services.get(service);
      if (methods === undefined || !Object.hasOwn(methods, method)) {
        throw new Error(`there is no ${service}.${method} here`);
      }
      const called = methods[method] as (...given: readonly unknown[]) => unknown;
      // Called at once, so that calls begin in the order of their messages.
      const handed = connection instanceof Socket ? [connection] : [];
      return { value: await called(...args, ...handed) };
    } catch (error) {
      return { problem: messageOf(error) };
    }
  }

  channel.on('message', (said, connection) => {
    if (closed || typeof said !== 'object' || said === null || !('kind' in said)) return;
    const message = said as Message;
    if (message.kind === 'call') {
      const { id } = message;
      void answer(message, connection).then((outcome) => {
        if (id !== undefined && !closed) send({ kind: 'answer', id, ...outcome }, () => {});
      });
    } else if (message.kind === 'answer') {
      const call = waiting.get(message.id);
      if (message.problem === undefined) call?.resolve(message.value);
      else call?.reject(new Error(message.problem));
    }
  });

  return {
    /**
     * @param within ms, may be Infinity; the other end may do it later
     * @param connection a copy goes along; the caller closes its own
     * @returns the unchecked result; rejects when it is late, failed, or the link is closed
     */
    async call(
      service: string,
      method: string,
      args: readonly unknown[],
      within: number,
      connection?: Socket,
    ): Promise<unknown> {
      if (closed) throw isClosed();
      const id = (calls += 1);
      const answered = Promise.withResolvers<unknown>();
      waiting.set(id, answered);
      send({ kind: 'call', id, service, method, args }, answered.reject, connection);
      const late = `${other} did not answer ${service}.${method} within ${within} ms`;
      try {
        if (within === Infinity) return await answered.promise;
        return await inTime(answered.promise, within, () => new Error(late), clock);
      } finally {
        waiting.delete(id);
      }
    },
    /** The caller gets an error's message only. */
    serve: (service: string, methods: Service) => void services.set(service, methods),
    tell(service: string, method: string, ...args: readonly unknown[]): void {
      if (!closed && unsent <= MAX_UNSENT) send({ kind: 'call', service, method, args }, () => {});
    },
    close(): void {
      closed = true;
      for (const { reject } of waiting.values()) reject(isClosed());
    },
  };
}
