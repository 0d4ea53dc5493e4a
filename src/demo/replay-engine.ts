import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { SOAP_FAULT_CONTENT_TYPE, soapFault } from '../xmla/soap-fault.ts';

/** One exchange with a real engine, as it went over the wire. */
export interface Recording {
  /** What was asked, for people; unique among the recordings. */
  readonly name: string;
  /** The value of the header SOAPAction, with its quotes, and the envelope, sent as UTF-8. */
  readonly request: Readonly<{ soapAction: string; body: string }>;
  readonly answer: Readonly<{ status: number; contentType: string; body: Buffer }>;
  /** From the first byte of the request to the last byte of the answer, the engine's own caches empty. */
  readonly engineMs: number;
}

/** A recording in the list; `file`, in the same folder, holds the body of the answer compressed by gzip. */
export type ListedRecording = Omit<Recording, 'answer'> & {
  readonly answer: Omit<Recording['answer'], 'body'> & { readonly file: string };
};

export const RECORDINGS_FOLDER: URL = new URL('./recordings/', import.meta.url);
export const RECORDINGS_LIST: URL = new URL('recordings.json', RECORDINGS_FOLDER);
const unzip = promisify(gunzip);

export async function loadRecordings(): Promise<Recording[]> {
  const list = JSON.parse(await readFile(RECORDINGS_LIST, 'utf8')) as ListedRecording[];
  return Promise.all(
    list.map(async ({ answer: { file, ...head }, ...recording }) => {
      const body = await unzip(await readFile(new URL(file, RECORDINGS_FOLDER)));
      return Object.assign(recording, { answer: Object.assign(head, { body }) });
    }),
  );
}

/**
 * An engine that knows a few questions. A body that is, byte for byte, that of a recording gets the recorded
 * answer after the recorded time. Anything else gets a SOAP Fault that names the known questions; its status is 200, as
 * Mondrian's is.
 */
export async function startReplayEngine(
  recordings: readonly Recording[],
  sleep: (milliseconds: number) => Promise<void>,
  { host = '127.0.0.1', port: wanted = 0 } = {},
) {
  const names = recordings.map(({ name }) => name).join('; ');
  const message = `This engine only replays recorded questions: ${names}.`;
  const body = soapFault({ side: 'Client', message });
  const unknown = { status: 200, contentType: SOAP_FAULT_CONTENT_TYPE, body };

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const asked = await buffer(request);
    const known = recordings.find(({ request: { body } }) => Buffer.from(body).equals(asked));
    if (known !== undefined) await sleep(known.engineMs);
    const { status, contentType, body } = known?.answer ?? unknown;
    response.writeHead(status, { 'content-type': contentType, 'content-length': body.length });
    response.end(body);
  }

  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
  });
  await once(server.listen(wanted, host), 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    /** Where it takes XMLA. */
    url: `http://${host}:${port}/xmla`,
    /** Breaks off what is under way, and stops listening. */
    async close(): Promise<void> {
      const closed = server[Symbol.asyncDispose]();
      server.closeAllConnections();
      await closed;
    },
  };
}
