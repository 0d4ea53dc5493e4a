import { mddatasetAnswer } from './answers.ts';
import { sendXml, startStubEngine, type SeenRequest, type StubAnswer } from './stub-engine.ts';

/** An MDX for Kylin that answers queries from a cache of its own until that is cleared, and its clearCache. */
export interface KylinEngine {
  /** What stands before /mdx/xmla. */
  readonly base: string;
  /** What was loaded. Its answers hold it from the next clear on. */
  data: string;
  /** Calls of clearCache, in the order in which they came. */
  readonly cleared: SeenRequest[];
  /** Other requests. */
  readonly asked: SeenRequest[];
  /** Decides how clearCache is answered from now on; without an answer as the real one does. */
  clearWith(answer?: StubAnswer): void;
  close(): Promise<void>;
}

export async function startKylinEngine(): Promise<KylinEngine> {
  const cleared: SeenRequest[] = [];
  const asked: SeenRequest[] = [];
  /** The running server prints a lower-case c, and a line feed (protocol facts §1). */
  const clears: StubAnswer = (response, request) => {
    cached = engine.data;
    const [, project] = /\/mdx\/xmla\/([^/]+)\/clearCache$/.exec(request.url) ?? [];
    const name = project === undefined ? '' : `${decodeURIComponent(project)} `;
    return sendText(`${name}cache has been cleared.\n`)(response, request);
  };
  let clear = clears;
  let cached = 'old';
  const stub = await startStubEngine((response, request) => {
    if (!request.url.endsWith('/clearCache')) {
      asked.push(request);
      return sendXml(mddatasetAnswer({ members: [cached] }))(response, request);
    }
    cleared.push(request);
    return clear(response, request);
  });
  const engine: KylinEngine = {
    data: 'old',
    base: new URL(stub.url).origin,
    cleared,
    asked,
    clearWith(answer = clears) {
      clear = answer;
    },
    close: stub.close,
  };
  return engine;
}

/** Answers clearCache with a text. */
export function sendText(
  text: string,
  head: { status?: number; headers?: Record<string, string> } = {},
): StubAnswer {
  return (response) => {
    response.writeHead(head.status ?? 200, { 'content-type': 'text/plain', ...head.headers });
    response.end(text);
  };
}
