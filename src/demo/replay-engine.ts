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
  /** For people; unique among the recordings. */
  readonly name: string;
  /** The header SOAPAction with its quotes, and the envelope, sent as UTF-8. */
  readonly request: Readonly<{ soapAction: string; body: string }>;
  readonly answer: Readonly<{ status: number; contentType: string; body: Buffer }>;
  /** The first byte of the request to the last of the answer, with the engine's caches empty. */
  readonly engineMs: number;
}

/** `file` in the same folder holds the body of the answer, gzipped. */
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
 * Gives the recorded answer after the recorded time to a recorded body, byte for byte. Other bodies
 * get a SOAP Fault that names the known questions, with status 200 as Mondrian's.
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
    url: `http://${host}:${port}/xmla`,
    async close(): Promise<void> {
      const closed = server[Symbol.asyncDispose]();
      server.closeAllConnections();
      await closed;
    },
  };
}
