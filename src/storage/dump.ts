/**
 * A dump as lines of JSON: a head, a line for each role, and for each dataset a line and its
 * document in parts. A digest in the last line reveals a shortened or changed file.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { checkDocument } from '../datasets/document.ts';
import { roleBody } from '../roles/role.ts';
import type { StorageRecord } from './sql-database.ts';

const FORMAT = 'mdx-gateway-store';
/** Raise it when the meaning of lines changes. */
const VERSION = 1;
/** Bytes of a document in one line: a whole document could exceed the longest string. */
const PART = 3 * 1024 * 1024;
/** A file without an early line feed is not an exported store. */
const LONGEST_HEAD = 4 * 1024;
const LONGEST_LINE = 256 * 1024 * 1024;
const LONGEST_DOCUMENT = 1024 * 1024 * 1024;
const LINE_FEED = 0x0a;
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const NO_HEAD = 'is not the head of an exported store';

function whole(least: number, most = Number.MAX_SAFE_INTEGER) {
  const error = `must be a whole number between ${least} and ${most}`;
  return z.int({ error }).min(least, { error }).max(most, { error });
}

const object = { error: 'must be an object' };
const anyLine = z.looseObject({}, object);
const amounts = { roles: whole(0), datasets: whole(0) };
const headLine = z
  .looseObject({})
  .refine(({ format }) => format === FORMAT, { error: NO_HEAD, abort: true })
  .refine(({ version }) => version === VERSION, {
    error: ({ input }) =>
      `the file is of version ${JSON.stringify((input as { version: unknown }).version)}; this program reads version ${VERSION} only`,
    abort: true,
  })
  .pipe(z.object({ ...amounts, nextRoleId: whole(1), nextDatasetId: whole(1) }));

const roleLine = z.object({ role: z.object({ id: whole(1) }, object).and(roleBody) });
const numbers = { id: whole(1), lastModified: whole(0), bytes: whole(0, LONGEST_DOCUMENT) };
const datasetLine = z.object({ dataset: z.looseObject(numbers, object) });

/** Checks by encoding again: the decoder skips what is not base64. */
const partLine = z.object({
  part: z.custom<string>(
    (part) => typeof part === 'string' && Buffer.from(part, 'base64').toString('base64') === part,
    { error: 'must be base64' },
  ),
});

export async function* toLines(records: AsyncIterable<StorageRecord>) {
  const digest = createHash('sha256');
  for await (const record of records) {
    for (const value of valuesOf(record)) {
      const line = Buffer.from(`${JSON.stringify(value)}\n`);
      digest.update(line);
      yield line;
    }
  }
  yield Buffer.from(endLine(digest.digest('hex')));
}

const endLine = (digest: string) => `{"end":"${digest}"}\n`;

function* valuesOf(record: StorageRecord): Generator<object> {
  if (record.kind === 'head') {
    const { kind: _, ...head } = record;
    yield { format: FORMAT, version: VERSION, ...head };
  } else if (record.kind === 'role') {
    yield { role: record.role };
  } else {
    const { id, lastModified, dataset } = record;
    const { project, name, type, document } = dataset;
    yield { dataset: { id, project, name, type, lastModified, bytes: document.length } };
    for (let from = 0; from < document.length; from += PART) {
      yield { part: document.subarray(from, from + PART).toString('base64') };
    }
  }
}

/**
 * Reads what {@link toLines} wrote, and refuses what the API refuses. The caller must not commit
 * records until the last one came: a mistake may follow.
 * @param chunks bytes, cut anywhere
 * @throws Error with one line that names the line of the file and the mistake
 */
export async function* fromLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<StorageRecord> {
  const lines = readLines(chunks);
  for await (const line of lines) {
    if (line.number === 1) yield { kind: 'head', ...read(line, headLine) };
    else if (line.value['role'] !== undefined) yield { kind: 'role', ...read(line, roleLine) };
    else if (line.value['dataset'] !== undefined) yield await readDataset(line, lines);
    else throw broken(line.number, 'must hold "role", "dataset" or "end"');
  }
}

type Line = Readonly<{ number: number; value: Readonly<Record<string, unknown>> }>;
type Lines = AsyncGenerator<Line, undefined>;

async function* readLines(chunks: AsyncIterable<Uint8Array>): Lines {
  const digest = createHash('sha256');
  let number = 1;
  let ended = false;
  let pieces: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    for (let from = 0; from < chunk.length;) {
      if (ended) throw broken(number, 'nothing may follow the line "end"');
      const feed = chunk.indexOf(LINE_FEED, from);
      const to = feed === -1 ? chunk.length : feed + 1;
      pieces.push(chunk.subarray(from, to));
      length += to - from;
      from = to;
      if (number === 1 && length > LONGEST_HEAD) throw broken(number, NO_HEAD);
      if (length > LONGEST_LINE) throw broken(number, 'is longer than 256MiB');
      if (feed === -1) continue;
      const bytes = Buffer.concat(pieces, length);
      [pieces, length] = [[], 0];
      ended = number > 1 && bytes.toString('latin1', 0, 7) === '{"end":';
      if (!ended) {
        digest.update(bytes);
        yield { number, value: read({ number, value: jsonIn(bytes, number) }, anyLine) };
      } else if (bytes.toString() !== endLine(digest.digest('hex'))) {
        throw broken(number, 'the digest does not fit: the file was changed or is damaged');
      }
      number += 1;
    }
  }
  if (length > 0) throw broken(number, 'the file ends within this line');
  if (!ended) throw broken(number, 'the file ends before its line "end"');
  return undefined;
}

function jsonIn(bytes: Buffer, number: number): unknown {
  try {
    return JSON.parse(UTF8.decode(bytes));
  } catch {
    throw broken(number, 'is not JSON');
  }
}

/** Also consumes the document's lines. */
async function readDataset(line: Line, lines: Lines): Promise<StorageRecord> {
  const { number } = line;
  const { id, lastModified, bytes, ...said } = read(line, datasetLine).dataset;
  const parts: Buffer[] = [];
  for (let missing = bytes; missing > 0;) {
    const { value: next } = await lines.next();
    if (next === undefined) {
      throw broken(number, `the last ${missing} bytes of the document are missing`);
    }
    const part = Buffer.from(read(next, partLine).part, 'base64');
    if (part.length === 0 || part.length > missing) {
      const what = `part: must hold between 1 and ${missing} bytes (got ${part.length})`;
      throw broken(next.number, what);
    }
    parts.push(part);
    missing -= part.length;
  }
  const document = Buffer.concat(parts, bytes);
  const check = checkDocument(document);
  if (!check.ok) throw broken(number, `the document is refused: ${check.problem}`);
  for (const field of ['project', 'name', 'type'] as const) {
    if (said[field] === check.identity[field]) continue;
    throw broken(number, `dataset.${field}: must be what the document says`);
  }
  return { kind: 'dataset', id, lastModified, dataset: { ...check.identity, document } };
}

function read<T>({ number, value }: { number: number; value: unknown }, schema: z.ZodType<T>): T {
  const { success, data, error } = schema.safeParse(value);
  if (success) return data;
  const [{ path, message } = { path: [], message: 'is not as it must be' }] = error.issues;
  throw broken(number, path.length === 0 ? message : `${z.core.toDotPath(path)}: ${message}`);
}

function broken(number: number, what: string): Error {
  return new Error(`line ${number}: ${what}`);
}
