import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import type { Semaphore } from '../../common/semaphore.ts';
import type { Clock } from '../../common/clock.ts';
import { ENGINE_KINDS } from '../../common/engine-kinds.ts';
import type { Config } from '../../config/config.ts';
import type { EngineConfig } from '../../engine/config.ts';
import type { WatchConfig } from './config.ts';
import {
  askDiscover,
  askOnce,
  catalogQuestion,
  inTime,
  soapContent,
} from '../../engine/own-questions.ts';
import { describeFailure } from '../../engine/probe.ts';
import { createReplicas, tellsProject } from '../../engine/replicas.ts';
import { answerHead, decodedAnswer, serviceAuthorization } from '../../proxy/forwarded.ts';
import { createUpstream } from '../../proxy/upstream.ts';
import { isElement, type XmlElement } from '../../xml/xml-scanner.ts';
import { SOAP, XMLA } from '../../xmla/names.ts';

/** A project whose data is watched. */
export interface Watched {
  /** Its name in the configuration. */
  readonly name: string;
  readonly watch: WatchConfig;
  readonly engine: EngineConfig;
}

/** Files that are looked at at one time: a hanging file system takes one of Node's four threads each. */
export const MOST_FILES = 2;

export function watchedIn({ projects }: Pick<Config, 'projects'>): readonly Watched[] {
  return [...projects].flatMap(([name, { watch, engine }]) =>
    watch ? [{ name, watch, engine }] : [],
  );
}

/**
 * Asks a source for its signature: the same text as long as the data is the same. Takes no longer than
 * `engine.timeout` or 30 seconds. Rejects with an Error that says why in words, without secrets.
 */
export type Source = (signal: AbortSignal) => Promise<string>;

/**
 * Makes a source. No question keeps anything for the next: certificates are read each time, and no
 * connection waits.
 * @param files bounds how many files are looked at at one time
 */
export function createSource(
  watched: Watched,
  clock: Pick<Clock, 'now'>,
  files: Semaphore,
): Source {
  const { watch, engine } = watched;
  const asks = {
    xmla: askEngine,
    kylin: askKylin,
    postgres: askPostgres,
    url: askUrl,
    file: (one: Watched) => askFile(one, files),
  };
  const ask = asks[watch.kind](watched, clock);
  return async (signal) => {
    try {
      return await inTime(engine.timeout, [signal], (ending) =>
        Promise.race([ask(ending), aborted(ending)]),
      );
    } catch (error) {
      const why = describeFailure(error, watch.kind === 'xmla' ? 'engine' : 'watch');
      throw new Error(why.slice(0, SHOWN), { cause: error });
    }
  };
}

/** Characters of a failure that are told. */
const SHOWN = 300;

/** Rejects when the signal aborts, for what does not listen to it, such as a file system that hangs. */
async function aborted(signal: AbortSignal): Promise<never> {
  if (!signal.aborted) await once(signal, 'abort');
  throw signal.reason;
}

/** The header of the watcher's own login, where it has one. */
const loginOf = ({ user: name, password }: WatchConfig): { authorization?: string } =>
  name && password ? { authorization: serviceAuthorization({ name, password }) } : {};

function checkStatus(status: number): void {
  if (status === 200) return;
  if ([401, 403, 407].includes(status)) throw new Error(`it refused the login (status ${status})`);
  const redirect = status >= 300 && status < 400 ? ', a redirect, which is not followed' : '';
  throw new Error(`it answered with status ${status}${redirect}`);
}

/**
 * The dates of the cubes (MDSCHEMA_CUBES) at each replica of the engine. What a replica said last counts while it does not
 * answer, as long as another does: one that is slow must not purge at each question.
 */
function askEngine({ name, watch, engine }: Watched, clock: Pick<Clock, 'now'>): Source {
  const dates = ENGINE_KINDS[engine.kind].changeDates;
  const { authorization = engine.service && serviceAuthorization(engine.service) } = loginOf(watch);
  const said = new Map<string, string>();

  async function askReplica(url: string, signal: AbortSignal): Promise<void> {
    const replicas = createReplicas({ ...engine, url: [url] }, clock, false);
    try {
      const question = catalogQuestion('MDSCHEMA_CUBES', tellsProject(url) ? undefined : name);
      const answer = await askDiscover(replicas, name, authorization, signal, question);
      checkStatus(answer.head.status);
      const cubes = rowsOf(soapContent(answer.head, answer.body)).map((row) => {
        const of = (column: string) =>
          row.children.find(({ local }) => local === column)?.text ?? '';
        return ['CATALOG_NAME', 'CUBE_NAME', ...dates].map(of);
      });
      if (cubes.length === 0) throw new Error(`it shows no cube of the catalog ${name}`);
      const [date = ''] = dates;
      if (cubes.every((cube) => cube[2] === ''))
        throw new Error(`it shows no ${date} of its cubes`);
      said.set(url, JSON.stringify(cubes.map((cube) => cube.join(' ')).sort()));
    } finally {
      replicas.close();
    }
  }

  return async (signal) => {
    const asked = await Promise.allSettled(engine.url.map((url) => askReplica(url, signal)));
    const failed = asked.filter((one) => one.status === 'rejected');
    if (failed.length === asked.length) throw failed[0]?.reason;
    return engine.url.map((url) => said.get(url) ?? '').join('\n');
  };
}

/** @throws Error where it is no rowset */
function rowsOf(content: readonly XmlElement[] | undefined): readonly XmlElement[] {
  const [answer] = content ?? [];
  if (answer && isElement(answer, SOAP, 'Fault')) {
    const text = answer.children.find(({ local }) => local === 'faultstring')?.text ?? '';
    throw new Error(`it answered with a Fault: ${text.trim()}`);
  }
  const root = answer?.children[0]?.children[0];
  if (!root || !isElement(root, `${XMLA}:rowset`, 'root')) throw new Error('it answered no rowset');
  if (root.children.some(({ local }) => local === 'Exception'))
    throw new Error('it answered with an error behind some rows');
  return root.children.filter(({ local }) => local === 'row');
}

/** Bytes that are read of one answer at most. */
const LARGEST = 16 * 1024 * 1024;
/** Rows of one page, and pages that are read at most. */
const PAGE_SIZE = 100;
const MOST_PAGES = 1_000;

/** All segments of all models of a project of Apache Kylin 5, with the times of their builds (its REST API, v4). */
function askKylin({ watch }: Watched): Source {
  const { project = '' } = watch;
  const headers = { accept: 'application/vnd.apache.kylin-v4+json', ...loginOf(watch) };

  return (signal) =>
    withUpstream(watch, async (upstream, { pathname }) => {
      const base = pathname.replace(/\/$/, '');
      let pages = 0;

      async function* list(path: string): AsyncGenerator<Listed> {
        for (let page = 0, seen = 0, total = 1; seen < total; page += 1) {
          if ((pages += 1) > MOST_PAGES) throw new Error(`it lists more than ${MOST_PAGES} pages`);
          const query = new URLSearchParams({
            project,
            page_offset: `${page}`,
            page_size: `${PAGE_SIZE}`,
          });
          const asked = { method: 'GET', path: `${base}/api/models${path}?${query}`, headers };
          const answer = await askOnce(upstream, asked, signal, undefined, undefined, LARGEST);
          checkStatus(answer.head.status);
          const { value, total_size } = listIn(answer.body);
          if (value.length === 0) return;
          yield* value;
          seen += value.length;
          total = total_size;
        }
      }

      const found: string[] = [];
      for await (const { uuid, last_modified } of list('')) {
        found.push(`model ${String(uuid)} ${String(last_modified)}`);
        const segments = `/${encodeURIComponent(String(uuid))}/segments`;
        for await (const { id, last_build_time } of list(segments)) {
          found.push(`segment ${String(id)} ${String(last_build_time)}`);
        }
      }
      if (found.length === 0) throw new Error(`it shows no model of the project ${project}`);
      return JSON.stringify(found.sort());
    });
}

type Listed = Readonly<Record<string, unknown>>;
/** @throws Error where it is no list of Kylin */
function listIn(body: Buffer) {
  type Answer = { data: { value: readonly Listed[]; total_size: unknown } };
  try {
    const { value, total_size } = (JSON.parse(body.toString()) as Answer).data;
    const isList = value.every((one) => one instanceof Object);
    // Without the size what stands on later pages would not be seen.
    if (isList && typeof total_size === 'number') return { value, total_size };
  } catch {
    // Told below.
  }
  throw new Error('it answered no list as Kylin 5 does');
}

async function withUpstream<T>(
  { url = '', ca, certificate, key }: WatchConfig,
  work: (upstream: ReturnType<typeof createUpstream>, at: URL) => Promise<T>,
): Promise<T> {
  const upstream = createUpstream({ url, ca, certificate, key }, false);
  try {
    return await work(upstream, new URL(url));
  } finally {
    upstream.close();
  }
}

const askPostgres = ({ watch, engine }: Watched): Source => {
  const { url = '', query = '', tls, ca, certificate, key } = watch;
  const timeout = Math.min(engine.timeout, 30_000);
  // What speaks to PostgreSQL is loaded where it is used.
  return async (signal) => {
    const { readRows } = await import('../../storage/postgres.ts');
    return readRows({ url, tls, ca, certificate, key, timeout }, query, signal);
  };
};

/** The ETag of what is there, or a digest of it. */
function askUrl({ watch }: Watched): Source {
  const headers = { accept: '*/*', 'accept-encoding': 'identity', ...loginOf(watch) };
  return (signal) =>
    withUpstream(watch, async (upstream, { pathname, search }) => {
      const limits = { signal, timeoutMs: 30_000 };
      const asked = { method: 'GET', path: pathname + search, headers, body: undefined };
      const answer = await upstream.forward(asked, limits);
      checkStatus(answer.statusCode ?? 0);
      if (answer.headers.etag !== undefined) return `ETag ${answer.headers.etag}`;
      const digest = createHash('sha256');
      let size = 0;
      // A server may compress it one time, and not the next.
      const { body } = decodedAnswer(answer, answerHead(answer), () => {});
      for await (const piece of body) {
        size += piece.length;
        if (size > LARGEST) throw new Error('it has no ETag, and its body is longer than 16MiB');
        digest.update(piece);
      }
      return `SHA-256 ${digest.digest('hex')}`;
    });
}

function askFile({ watch: { path = '' } }: Watched, files: Semaphore): Source {
  let running: Promise<string> | undefined;
  const read = async (signal: AbortSignal) => {
    const leave = await files.acquire(signal);
    try {
      const { mtimeNs, size, ino } = await stat(path, { bigint: true });
      return `written ${mtimeNs}, ${size} bytes, inode ${ino}`;
    } catch (error) {
      const { code = '' } = error as NodeJS.ErrnoException;
      const why = code === 'ENOENT' ? 'is not there' : `cannot be read (${code})`;
      throw new Error(`the file ${why}`, { cause: error });
    } finally {
      leave();
    }
  };
  // One that hangs keeps a thread: the next question waits for the same.
  return (signal) => (running ??= read(signal).finally(() => (running = undefined)));
}
