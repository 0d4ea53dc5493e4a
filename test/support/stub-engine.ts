import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Framing, framedResponse, framingChoice, framingSeed } from './framing.ts';

export interface SeenRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
}

/** Answers one request; nothing is sent but what this sends. */
export type StubAnswer = (response: ServerResponse, request: SeenRequest) => void | Promise<void>;

export interface StubEngine {
  readonly url: string;
  readonly port: number;
  /** Every request, in the order in which they came. */
  readonly seen: SeenRequest[];
  /** Decides how requests are answered from now on. */
  answerWith(answer: StubAnswer): void;
  /** Breaks all connections and takes no new ones, until it comes back on the same port. */
  leave(): void;
  comeBack(): Promise<void>;
  close(): Promise<void>;
}

/** Engines of this suite, each with framings of its own. */
let started = 0;

/**
 * An engine that answers what a test tells it to. What is ended as a whole goes out in a framing that the seed chooses.
 * @param options.framings those of them that may be chosen
 */
export async function startStubEngine(
  answer: StubAnswer,
  options: { readonly port?: number; readonly framings?: readonly Framing[] } = {},
): Promise<StubEngine> {
  const { port = 0, framings } = options;
  let current = answer;
  const seen: SeenRequest[] = [];
  started += 1;
  const choice = framingChoice(framingSeed() + started, framings);
  const server = createServer({ ServerResponse: framedResponse(choice) }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers, rawHeaders } = request;
      const arrived = { method, url, headers, rawHeaders, body: Buffer.concat(chunks) };
      seen.push(arrived);
      void current(response, arrived);
    });
  });
  const listen = (on: number) =>
    new Promise<void>((resolve) => {
      server.listen(on, '127.0.0.1', resolve);
    });
  await listen(port);
  const address = server.address() as AddressInfo;
  const leave = () => {
    server.close();
    server.closeAllConnections();
  };
  return {
    url: `http://127.0.0.1:${address.port}/xmla`,
    port: address.port,
    seen,
    answerWith(next) {
      current = next;
    },
    leave,
    comeBack: () => listen(address.port),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

/** Sends a whole answer as engines do. */
export function sendXml(
  body: Buffer | string,
  head: { status?: number; headers?: Record<string, string> } = {},
): StubAnswer {
  return (response) => {
    response.writeHead(head.status ?? 200, {
      'content-type': 'text/xml; charset=utf-8',
      ...head.headers,
    });
    response.end(body);
  };
}

/** A door that a test opens: whoever waits at it is held until then. */
export function gate(): { readonly opened: Promise<void>; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}
