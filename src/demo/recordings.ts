import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { z } from 'zod';

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
