/**
 * What a storage dumped, as lines of JSON: one head, then one line for each role, and for each dataset one line
 * that is followed by its document in parts. The last line holds a digest of all lines before it, so that a file
 * that was cut short or changed is known. Each line ends with a line feed.
 */

import { createHash } from 'node:crypto';
import type { Member } from '../roles/role.ts';
import type { StorageRecord } from './storage.ts';

const FORMAT = 'mdx-gateway-store';
/** Raise it with every change of what the lines mean. */
const VERSION = 1;

/** Bytes of a document in one line. A whole document could be longer than a string may be. */
const PART = 3 * 1024 * 1024;

/** A head is short; whatever has no line feed early on is not an exported store. */
const LONGEST_HEAD = 4 * 1024;
const LONGEST_LINE = 256 * 1024 * 1024;
const LONGEST_DOCUMENT = 1024 * 1024 * 1024;

const LINE_FEED = 0x0a;

const NO_HEAD = 'is not the head of an exported store';

/** @returns the lines as UTF-8, each with its end */
export async function* toLines(
  records: AsyncIterable<StorageRecord>,
): AsyncGenerator<Buffer, void, undefined> {
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
  switch (record.kind) {
    case 'head': {
      const { roles, datasets, nextRoleId, nextDatasetId } = record;
      yield { format: FORMAT, version: VERSION, roles, datasets, nextRoleId, nextDatasetId };
      return;
    }
    case 'role': {
      const { id, name, description, contains } = record.role;
      yield { role: { id, name, description, contains } };
      return;
    }
    case 'dataset': {
      const { id, lastModified, dataset } = record;
      const { project, name, type, document } = dataset;
      yield { dataset: { id, project, name, type, lastModified, bytes: document.length } };
      for (let from = 0; from < document.length; from += PART) {
        yield { part: document.subarray(from, from + PART).toString('base64') };
      }
      return;
    }
  }
}

/**
 * Reads what {@link toLines} wrote. The records that came before a mistake were given out already: what they
 * are used for counts only when the last one was followed by the end.
 * @param chunks bytes, cut anywhere
 * @throws Error with one line that names the line of the file and what is wrong with it
 */
export async function* fromLines(
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<StorageRecord, void, undefined> {
  const lines = checkedLines(chunks);
  for await (const fields of lines) {
    if (fields.number === 1) yield readHead(fields);
    else if (fields.has('role')) yield readRole(fields.inner('role'));
    else if (fields.has('dataset')) yield await readDataset(fields.inner('dataset'), lines);
    else throw fields.broken('must hold "role", "dataset" or "end"');
  }
}

/** The lines but the last, which is checked when it is reached. */
async function* checkedLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Fields, undefined> {
  const digest = createHash('sha256');
  let number = 0;
  let ended = false;
  for await (const line of splitLines(chunks)) {
    number += 1;
    if (ended) throw broken(number, 'nothing may follow the line "end"');
    const text = textOf(line, number);
    ended = number > 1 && text.startsWith('{"end":');
    if (!ended) {
      digest.update(line);
      yield fieldsOf(number, text);
    } else if (text !== endLine(digest.digest('hex'))) {
      throw broken(number, 'the digest does not fit: the file was changed or is damaged');
    }
  }
  if (!ended) throw broken(number + 1, 'the file ends before its line "end"');
  return undefined;
}

function readHead(fields: Fields): StorageRecord {
  if (!fields.is('format', FORMAT)) throw fields.broken(NO_HEAD);
  const version = fields.integer('version', 1);
  if (version !== VERSION) {
    throw fields.broken(
      `the file is of version ${version}; this program reads version ${VERSION} only`,
    );
  }
  return {
    kind: 'head',
    roles: fields.integer('roles', 0),
    datasets: fields.integer('datasets', 0),
    nextRoleId: fields.integer('nextRoleId', 1),
    nextDatasetId: fields.integer('nextDatasetId', 1),
  };
}

function readRole(fields: Fields): StorageRecord {
  return {
    kind: 'role',
    role: {
      id: fields.integer('id', 1),
      name: fields.text('name'),
      description: fields.text('description'),
      contains: fields.items('contains').map((member): Member => {
        if (!member.is('type', 'user')) throw member.broken('"type" must be "user"');
        return { type: 'user', name: member.text('name') };
      }),
    },
  };
}

/** @param lines stands behind the line of the dataset, and is moved on behind its document */
async function readDataset(
  fields: Fields,
  lines: AsyncGenerator<Fields, undefined>,
): Promise<StorageRecord> {
  const parts: Buffer[] = [];
  const bytes = fields.integer('bytes', 0, LONGEST_DOCUMENT);
  for (let missing = bytes; missing > 0;) {
    const { value: next } = await lines.next();
    if (next === undefined)
      throw fields.broken(`the last ${missing} bytes of the document are missing`);
    const part = next.base64('part');
    if (part.length === 0 || part.length > missing) {
      throw next.broken(`"part" must hold between 1 and ${missing} bytes (got ${part.length})`);
    }
    parts.push(part);
    missing -= part.length;
  }
  return {
    kind: 'dataset',
    id: fields.integer('id', 1),
    lastModified: fields.integer('lastModified', 0),
    dataset: {
      project: fields.text('project'),
      name: fields.text('name'),
      type: fields.text('type'),
      document: Buffer.concat(parts, bytes),
    },
  };
}

/** Lines with the line feed at their ends; the last one may lack it. */
async function* splitLines(
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<Buffer, undefined, undefined> {
  let number = 1;
  let pieces: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    for (let from = 0; from < chunk.length;) {
      const feed = chunk.indexOf(LINE_FEED, from);
      const to = feed === -1 ? chunk.length : feed + 1;
      pieces.push(chunk.subarray(from, to));
      length += to - from;
      from = to;
      if (number === 1 && length > LONGEST_HEAD) throw broken(number, NO_HEAD);
      if (length > LONGEST_LINE) throw broken(number, 'is longer than 256MiB');
      if (feed === -1) continue;
      const line = Buffer.concat(pieces, length);
      [pieces, length] = [[], 0];
      number += 1;
      yield line;
    }
  }
  if (length > 0) yield Buffer.concat(pieces, length);
  return undefined;
}

/** Keeps a byte order mark, which then is no JSON. */
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function textOf(line: Buffer, number: number): string {
  if (line.at(-1) !== LINE_FEED) throw broken(number, 'the file ends within this line');
  try {
    return UTF8.decode(line);
  } catch {
    throw broken(number, 'is not UTF-8 text');
  }
}

/** The object that a line holds, or a part of it. What is not as expected becomes an error with the line's number. */
interface Fields {
  readonly number: number;
  has(name: string): boolean;
  is(name: string, value: string): boolean;
  integer(name: string, least: number, most?: number): number;
  text(name: string): string;
  base64(name: string): Buffer;
  inner(name: string): Fields;
  items(name: string): readonly Fields[];
  broken(what: string): Error;
}

function fieldsOf(number: number, text: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw broken(number, 'is not JSON');
  }
  if (!isObject(value)) throw broken(number, 'must be an object');
  return createFields(number, value);
}

function createFields(number: number, object: Readonly<Record<string, unknown>>): Fields {
  const get = (name: string) => (Object.hasOwn(object, name) ? object[name] : undefined);
  const must = (name: string, be: string) => broken(number, `"${name}" must be ${be}`);
  return {
    number,
    has: (name) => get(name) !== undefined,
    is: (name, value) => get(name) === value,
    integer(name, least, most = Number.MAX_SAFE_INTEGER) {
      const value = get(name);
      if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) {
        return value;
      }
      throw must(name, `a whole number between ${least} and ${most}`);
    },
    text(name) {
      const value = get(name);
      // A half of a surrogate pair has no UTF-8, which is what storages keep.
      if (typeof value === 'string' && value.isWellFormed()) return value;
      throw must(name, 'well-formed text');
    },
    base64(name) {
      const value = get(name);
      const bytes = typeof value === 'string' ? Buffer.from(value, 'base64') : undefined;
      // The decoder passes over what is no base64.
      if (bytes !== undefined && bytes.toString('base64') === value) return bytes;
      throw must(name, 'base64');
    },
    inner(name) {
      const value = get(name);
      if (isObject(value)) return createFields(number, value);
      throw must(name, 'an object');
    },
    items(name) {
      const value = get(name);
      if (Array.isArray(value) && value.every(isObject)) {
        return value.map((item) => createFields(number, item));
      }
      throw must(name, 'a list of objects');
    },
    broken: (what) => broken(number, what),
  };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function broken(number: number, what: string): Error {
  return new Error(`line ${number}: ${what}`);
}
