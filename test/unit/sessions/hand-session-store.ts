import type { FreshnessStore } from '../../../src/freshness/freshness-store.ts';

/** What sessions are asked for. */
export type SharedSessions = Pick<FreshnessStore, 'session' | 'renew'>;

/** One question to the store, on its way. */
interface Call {
  readonly method: string;
  /** The store carries it out; the reply is on its way back. */
  execute(): Promise<void>;
  /** The reply arrives; carries it out first unless that was done. */
  reply(): Promise<void>;
  /** No reply arrives, whether it was carried out or not. */
  fail(): void;
}

interface HandSessionStore extends SharedSessions {
  /** Questions without reply, oldest first. Claims are never held. */
  readonly calls: Call[];
  /** Lets all questions be answered at once from now on, until it is false again. */
  prompt: boolean;
  /** Whether a question fails at once. */
  away: boolean;
  /** What replies say instead of the lease that the store behind it tells (ms). */
  others: number | undefined;
  /** Every question that was ever asked. */
  readonly asked: string[];
  /** The oldest question without reply of that method. */
  call(method: string): Call;
}

/** A store whose every reply a test releases by hand; what lies behind it keeps the records. */
export function handSessionStore(behind: SharedSessions): HandSessionStore {
  const calls: Call[] = [];
  const asked: string[] = [];

  async function ask<T>(method: string, run: () => Promise<T>): Promise<T> {
    asked.push(method);
    if (store.away) throw new Error('the store is away');
    if (store.prompt || method === 'claim') return await run();
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    let result: Promise<T> | undefined;
    const execute = async () => {
      result ??= run();
      await result;
    };
    const leave = () => calls.splice(calls.indexOf(call), 1);
    const call: Call = {
      method,
      execute,
      async reply() {
        leave();
        await execute();
        if (result !== undefined) resolve(result);
        await promise;
      },
      fail() {
        leave();
        reject(new Error('no reply'));
      },
    };
    calls.push(call);
    return await promise;
  }

  const store: HandSessionStore = {
    calls,
    asked,
    prompt: true,
    away: false,
    others: undefined,
    call(method) {
      const found = calls.find((call) => call.method === method);
      if (found === undefined) throw new Error(`${method} was not asked for`);
      return found;
    },
    session: (name, call) =>
      ask(call.do, async () => {
        const reply = await behind.session(name, call);
        return { ...reply, lease: store.others ?? reply.lease };
      }),
    renew: (scopes) =>
      ask(`renew ${scopes.join()}`, async () => {
        const renewed = await behind.renew(scopes);
        return { ...renewed, others: store.others ?? renewed.others };
      }),
  };
  return store;
}
