import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SOAP_FAULT_CONTENT_TYPE, soapFault } from '../xmla/soap-fault.ts';
import type { Recording } from './recordings.ts';

export interface ReplayEngine {
  /** Where it takes XMLA. */
  readonly url: string;
  /** Breaks off what is under way, and stops listening. */
  close(): Promise<void>;
}

export interface ReplayOptions {
  /** Waits that many milliseconds: as long as the real engine took. */
  readonly sleep: (milliseconds: number) => Promise<void>;
}

const MAX_REQUEST_BYTES = 1024 * 1024;

/**
 * An engine on loopback that knows a few questions by heart. A POST whose body is, byte for byte, that of a
 * recording gets the recorded answer after the recorded time. Anything else gets a SOAP Fault that names the
 * known questions; its status is 200, as Mondrian's is.
 */
export async function startReplayEngine(
  recordings: readonly Recording[],
  { sleep }: ReplayOptions,
): Promise<ReplayEngine> {
  const byBody = new Map(
    recordings.map((recording) => [Buffer.from(recording.request.body).toString('hex'), recording]),
  );
  const unknown = soapFault({
    side: 'Client',
    message: `This engine only replays recorded questions: ${recordings.map(({ name }) => name).join('; ')}.`,
  });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method !== 'POST') {
      end(response, 405, 'text/plain; charset=utf-8', Buffer.from('XMLA is asked by POST.\n'));
      return;
    }
    const body = await readAll(request);
    const known = body && byBody.get(body.toString('hex'));
    if (known === undefined) {
      end(response, 200, SOAP_FAULT_CONTENT_TYPE, unknown);
      return;
    }
    await sleep(known.engineMs);
    end(response, known.answer.status, known.answer.contentType, known.answer.body);
  }

  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/xmla`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** The whole body; undefined when it is larger than any question can be (it is read to its end, not kept). */
async function readAll(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length <= MAX_REQUEST_BYTES) chunks.push(chunk);
  }
  return length <= MAX_REQUEST_BYTES ? Buffer.concat(chunks) : undefined;
}

function end(response: ServerResponse, status: number, contentType: string, body: Buffer): void {
  response.writeHead(status, { 'content-type': contentType, 'content-length': body.length });
  response.end(body);
}
