import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { systemClock } from '../../../src/common/clock.ts';
import type { GatewayEvent } from '../../../src/common/events.ts';
import type { EngineConfig } from '../../../src/engine/config.ts';
import { createAdmission } from '../../../src/engine/admission.ts';
import {
  type AnswerWatch,
  createHttpEngine,
  type Engine,
} from '../../../src/engine/http-engine.ts';
import type { EngineAddressee } from '../../../src/engine/replicas.ts';
import { XmlaClient } from '../../../src/line/client.ts';
import { bodyAccount } from '../cache/fakes.ts';

/** Nobody listens there: connections are refused. */
export const DEAD = 'http://127.0.0.1:1';

export function engineConfig(
  url: readonly string[],
  changed: Partial<EngineConfig> = {},
): EngineConfig {
  return {
    url,
    kind: 'generic',
    login: 'none',
    service: undefined,
    headers: [],
    delegation: 'refuse',
    session_idle: undefined,
    clear: 'none',
    timeout: 5_000,
    ca: undefined,
    certificate: undefined,
    key: undefined,
    ...changed,
  };
}

export const ADDRESSEE: EngineAddressee = {
  project: undefined,
  query: [],
  user: 'alice',
  authorization: 'Basic YWxpY2U6YWxpY2U=',
  replica: undefined,
};

export interface EngineHouse {
  readonly engine: Engine;
  readonly events: GatewayEvent[];
  failures(): unknown[];
  /** Requests that hold a place at the engine. */
  atEngine(): number;
  /** Requests that wait for one. */
  waiting(): number;
}

export function engineHouse(
  url: readonly string[],
  changed: Partial<EngineConfig> = {},
  limits = { concurrency: 8, per_user: 8, queue: 8 },
): EngineHouse {
  const events: GatewayEvent[] = [];
  const admission = createAdmission(limits);
  const engine = createHttpEngine({
    config: engineConfig(url, changed),
    admission,
    clock: systemClock,
    emit: (event) => events.push(event),
  });
  return {
    engine,
    events,
    failures: () =>
      events.flatMap((event) => (event.type === 'engine-failed' ? [event.reason] : [])),
    atEngine: () => admission.usage().atEngine,
    waiting: () => admission.usage().waiting,
  };
}

export interface Front {
  readonly url: string;
  /** Whether a request or a response ever had more listeners than Node.js takes for sound. */
  crowded(): boolean;
  /** Resolves when all passing through is over. */
  idle(): Promise<void>;
  close(): Promise<void>;
}

/** A server that passes every request through to the engine. */
export async function startFront(
  { engine, events }: EngineHouse,
  watch: AnswerWatch | undefined,
  replica?: string,
): Promise<Front> {
  const running = new Set<Promise<void>>();
  let crowded = false;
  const server = createServer((request, response) => {
    const client = new XmlaClient(request, response, {
      newId: () => 'one',
      addressOf: () => '',
      account: bodyAccount(),
      patience: () => 5_000,
      holdBody: () => () => {},
      pageOrigins: undefined,
      clock: systemClock,
      emit: (event) => events.push(event),
    });
    const outcome = { kind: 'bypass', detail: 'not-a-query' } as const;
    const pass = async () => {
      const body = await bodyOf(request);
      await engine.passThrough({ ...ADDRESSEE, replica }, client, outcome, body, watch);
      for (const emitter of [request, response]) {
        const most = Math.max(...['error', 'close'].map((name) => emitter.listenerCount(name)));
        crowded ||= most > emitter.getMaxListeners();
      }
    };
    const work = pass();
    running.add(work);
    void work.finally(() => running.delete(work));
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    crowded: () => crowded,
    async idle() {
      await Promise.all(running);
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
      engine.close();
    },
  };
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}
