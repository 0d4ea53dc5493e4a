import { faultAnswer } from './answers.ts';
import { readEngineRequest, type EngineRequest } from './engine-request.ts';
import { createSessionModel, type SessionModelOptions } from './session-model.ts';
import { gate, sendXml, startStubEngine, type SeenRequest } from './stub-engine.ts';

export { UNKNOWN_SESSION } from './session-model.ts';

export interface SessionEngine {
  readonly url: string;
  /** Every request, in the order in which they came. */
  readonly seen: SeenRequest[];
  /** The same as the engine read them. */
  readonly asked: EngineRequest[];
  /** Holds the next request that fits, before the engine looks at it or when its answer is made. */
  hold(fits: (request: EngineRequest) => boolean, at?: 'arrival' | 'answer'): Hold;
  /** Forgets all sessions, as a server does that starts again. */
  restart(): void;
  /** Breaks all connections and takes no new ones, until it comes back with its sessions. */
  leave(): void;
  comeBack(): Promise<void>;
  close(): Promise<void>;
}

export interface Hold {
  /** Resolves when a request is held. */
  readonly arrived: Promise<void>;
  release(): void;
}

/** An engine that keeps sessions as its kind does, and whose answers hold everything that shaped them. */
export async function startSessionEngine(
  options: SessionModelOptions & {
    /** Whether a header Authorization is right; all are unless given. */
    readonly knows?: (authorization: string) => boolean;
  },
): Promise<SessionEngine> {
  const { knows = () => true } = options;
  const model = createSessionModel(options);
  const asked: EngineRequest[] = [];
  const holds = new Set<{
    fits: (request: EngineRequest) => boolean;
    at: string;
    come(): Promise<void>;
  }>();

  const stub = await startStubEngine(async (response, seen) => {
    if (!knows(seen.headers.authorization ?? '')) {
      return sendXml(faultAnswer(), { status: 401 })(response, seen);
    }
    const request = readEngineRequest(seen.body, seen.headers);
    asked.push(request);
    await waitAt('arrival', request);
    const made = model.make(request, seen.body);
    await waitAt('answer', request);
    const { text, headers } = model.write(made);
    return sendXml(text, { headers })(response, seen);
  });

  async function waitAt(at: string, request: EngineRequest): Promise<void> {
    for (const hold of holds) {
      if (hold.at !== at || !hold.fits(request)) continue;
      holds.delete(hold);
      await hold.come();
    }
  }

  return {
    url: stub.url,
    seen: stub.seen,
    asked,
    hold(fits, at = 'arrival') {
      const [arrival, release] = [gate(), gate()];
      holds.add({
        fits,
        at,
        come() {
          arrival.open();
          return release.opened;
        },
      });
      return { arrived: arrival.opened, release: release.open };
    },
    restart: model.restart,
    leave: stub.leave,
    comeBack: stub.comeBack,
    close: stub.close,
  };
}
