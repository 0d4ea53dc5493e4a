import { readEngineRequest, type EngineRequest } from './engine-request.ts';
import { createSessionModel } from './session-model.ts';
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
  close(): Promise<void>;
}

export interface Hold {
  /** Resolves when a request is held. */
  readonly arrived: Promise<void>;
  release(): void;
}
/**
 * An engine of {@link createSessionModel} over HTTP. What holds the word LEAVE stays in its session, wherever it stands, as if
 * each engine read it in another way than all others.
 */
export async function startSessionEngine(
  options: Parameters<typeof createSessionModel>[0],
): Promise<SessionEngine> {
  const model = createSessionModel(options);
  const asked: EngineRequest[] = [];
  const holds = new Set<{
    fits: (request: EngineRequest) => boolean;
    at: string;
    come(): Promise<void>;
  }>();

  const stub = await startStubEngine(async (response, seen) => {
    const request = readEngineRequest(seen.body, seen.headers);
    asked.push(request);
    await waitAt('arrival', request);
    const { text, headers } = model.answer(request, seen.body.includes('LEAVE'));
    await waitAt('answer', request);
    await sendXml(text, { headers })(response, seen);
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
    close: stub.close,
  };
}
