import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { z } from 'zod';
import { SOAP_FAULT_CONTENT_TYPE, soapFault } from '../xmla/soap-fault.ts';

/** One exchange with a real engine, as it went over the wire. */
export interface Recording {
  /** What was asked, for people; unique among the recordings. */
  readonly name: string;
  readonly request: {
    /** The value of the header SOAPAction, with its quotes. */
    readonly soapAction: string;
    /** The envelope; sent as UTF-8. */
    readonly body: string;
  };
  readonly answer: {
    readonly status: number;
    readonly contentType: string;
    readonly body: Buffer;
  };
  /** From the first byte of the request to the last byte of the answer, the engine's own caches empty. */
  readonly engineMs: number;
}

/** The file that lists the recordings, within their folder. */
export const RECORDINGS_LIST = 'recordings.json';

const listSchema = z.array(
  z.strictObject({
    name: z.string().min(1),
    engineMs: z.number().nonnegative(),
    request: z.strictObject({ soapAction: z.string(), body: z.string().min(1) }),
    answer: z.strictObject({
      status: z.int().min(200).max(599),
      contentType: z.string(),
      /** Length of the body before it was compressed. */
      bytes: z.int().nonnegative(),
      /** Name of the file, in the same folder, that holds the body compressed by gzip. */
      file: z.string().regex(/^[\w-]+(?:\.\w+)+$/),
    }),
  }),
);

export type RecordingsList = z.infer<typeof listSchema>;

const unzip = promisify(gunzip);

/** The recordings that come with the program. */
export const RECORDINGS_FOLDER: URL = new URL('./recordings/', import.meta.url);

/**
 * Reads all recordings of a folder, in their order.
 * @param folder ends with a slash
 * @throws Error when a file is missing, or is not what the list says
 */
export async function loadRecordings(folder: URL = RECORDINGS_FOLDER): Promise<Recording[]> {
  const path = new URL(RECORDINGS_LIST, folder);
  const list = listSchema.safeParse(JSON.parse(await readFile(path, 'utf8')));
  if (!list.success) {
    throw new Error(`${fileURLToPath(path)}: ${z.prettifyError(list.error)}`);
  }
  return Promise.all(
    list.data.map(async ({ name, engineMs, request, answer }) => {
      const body = await unzip(await readFile(new URL(answer.file, folder)));
      if (body.length !== answer.bytes) {
        throw new Error(`${answer.file} holds ${body.length} bytes, the list says ${answer.bytes}`);
      }
      const { status, contentType } = answer;
      return { name, engineMs, request, answer: { status, contentType, body } };
    }),
  );
}

export interface ReplayEngine {
  /** Where it takes XMLA. */
  readonly url: string;
  /** Breaks off what is under way, and stops listening. */
  close(): Promise<void>;
}

const MAX_REQUEST_BYTES = 1024 * 1024;

/**
 * An engine on loopback that knows a few questions by heart. A POST whose body is, byte for byte, that of a
 * recording gets the recorded answer after the recorded time. Anything else gets a SOAP Fault that names the
 * known questions; its status is 200, as Mondrian's is.
 * @param sleep waits that many milliseconds: as long as the real engine took
 */
export async function startReplayEngine(
  recordings: readonly Recording[],
  sleep: (milliseconds: number) => Promise<void>,
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
  await once(server.listen(0, '127.0.0.1'), 'listening');
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
