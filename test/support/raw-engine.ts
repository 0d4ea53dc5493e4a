import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';

/** Answers a request on the bare connection that it came on. `count` is 1 for the first of all requests. */
export type RawAnswer = (socket: Socket, count: number) => void;

export interface RawEngine {
  readonly url: string;
  /** Whole requests, each as it came. */
  readonly seen: string[];
  /** Open connections. */
  readonly sockets: ReadonlySet<Socket>;
  answerWith(answer: RawAnswer): void;
  close(): Promise<void>;
}

/** An engine that may do to a connection what no HTTP server would. Reads requests with Content-Length. */
export async function startRawEngine(first: RawAnswer): Promise<RawEngine> {
  let answer = first;
  const seen: string[] = [];
  const sockets = new Set<Socket>();
  // What is written is on its way at once, also while what was written before is not acknowledged.
  const server = createServer({ noDelay: true }, (socket) => {
    let text = '';
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      const end = text.indexOf('\r\n\r\n');
      if (end < 0) return;
      const length = Number(/^content-length: *(\d+)/im.exec(text)?.[1] ?? 0);
      if (text.length < end + 4 + length) return;
      seen.push(text);
      text = '';
      answer(socket, seen.length);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/xmla`,
    seen,
    sockets,
    answerWith(next) {
      answer = next;
    },
    async close() {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
}

/** Resets a connection some turns of the event loop later, however late they come: in each, what was written can be read. */
export function resetLater(socket: Socket, turns = 10): void {
  setTimeout(() => (turns === 0 ? socket.resetAndDestroy() : resetLater(socket, turns - 1)), 10);
}

/** A whole answer in the old way, which keeps the connection open. */
export function wholeAnswer(body: string): string {
  return `HTTP/1.1 200 OK\r\nContent-Type: text/xml; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}
