import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import type { Clock } from '../../common/clock.ts';
import { ENGINE_KINDS } from '../../common/engine-kinds.ts';
import { type Semaphore, createSemaphore } from '../../common/semaphore.ts';
import { basicAuthorization } from '../../common/principal.ts';
import type { Config } from '../../settings/setting.ts';
import {
  askDiscover,
  askOnce,
  catalogQuestion,
  inTime,
  soapContent,
} from '../../engine/own-questions.ts';
import { describeFailure } from '../../engine/probe.ts';
import { createReplicas, tellsProject } from '../../engine/replicas.ts';
import { answerHead, decodedAnswer } from '../../proxy/forwarded.ts';
import { createUpstream } from '../../proxy/upstream.ts';
import { isElement, type XmlElement } from '../../xml/xml-scanner.ts';
import { SOAP, XMLA } from '../../xmla/names.ts';
import type { Core } from '../feature.ts';
import type { WatchConfig } from './config.ts';

/** Files looked at together: a hanging file system takes one of Node's four threads for each. */
export const MOST_FILES = 2;

export type Watched = ReturnType<typeof watchedIn>[number];
export const watchedIn = ({ projects }: Pick<Config, 'projects'>) =>
  [...projects].flatMap(([name, { watch, engine }]) => (watch ? [{ name, watch, engine }] : []));

/**
 * Asks a source for its signature, a text that stays while the data stays. Takes at most
 * `engine.timeout` or 30 seconds. Rejects with an Error in words without secrets.
 */
export type Source = (signal: AbortSignal) => Promise<string>;

/** Makes a source. Each question reads certificates anew, and opens connections of its own. */
export function createSource(
  watched: Watched,
  clock: Pick<Clock, 'now' | 'wall'>,
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

const SHOWN = 300;

/** Rejects when the signal aborts, for what does not heed it, such as a hanging file system. */
async function aborted(signal: AbortSignal): Promise<never> {
  if (!signal.aborted) await once(signal, 'abort');
  throw signal.reason;
}

const loginOf = ({ user: name, password }: WatchConfig): { authorization?: string } =>
  name && password ? { authorization: basicAuthorization({ name, password }) } : {};

function checkStatus(status: number): void {
  if (status === 200) return;
  if ([401, 403, 407].includes(status)) throw new Error(`it refused the login (status ${status})`);
  const redirect = status >= 300 && status < 400 ? ', a redirect, which is not followed' : '';
  throw new Error(`it answered with status ${status}${redirect}`);
}

/**
 * Reads the dates of the cubes (MDSCHEMA_CUBES) at each replica. While one does not answer its last
 * dates count, if another answers: a slow replica must not purge at each question.
 */
function askEngine({ name, watch, engine }: Watched, clock: Pick<Clock, 'now' | 'wall'>): Source {
  const dates = ENGINE_KINDS[engine.kind].changeDates;
  const { authorization = engine.service && basicAuthorization(engine.service) } = loginOf(watch);
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

/** Bytes read of one answer. */
const LARGEST = 16 * 1024 * 1024;
/** Rows of a page, and pages that are read. */
const PAGE_SIZE = 100;
const MOST_PAGES = 1_000;

/** Reads all segments of all models, with their build times (Apache Kylin 5, REST API v4). */
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
function listIn(body: Buffer) {
  type Answer = { data: { value: readonly Listed[]; total_size: unknown } };
  try {
    const { value, total_size } = (JSON.parse(body.toString()) as Answer).data;
    const isList = value.every((one) => one instanceof Object);
    // Without the size later pages would not be seen.
    if (isList && typeof total_size === 'number') return { value, total_size };
  } catch {}
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
  // Loads what speaks to PostgreSQL where it is used.
  return async (signal) => {
    const { readRows } = await import('../../storage/postgres.ts');
    return readRows({ url, tls, ca, certificate, key, timeout }, query, signal);
  };
};

/** Reads the ETag of what is there, or digests it. */
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
      // A server may compress it for one question and not for the next.
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
  // A question that hangs keeps a thread: the next question waits for it.
  return (signal) => (running ??= read(signal).finally(() => (running = undefined)));
}

const PAUSE_MS = 2_000;
type Parts = Pick<Core, 'clock'> & { readonly sleep: (milliseconds: number) => Promise<void> };

const short = (text: string) => text.replaceAll(/\s+/g, ' ').slice(0, 100);

/** Asks each source twice: one that differs each time would purge each time. */
export function checkWatch(config: Config, { clock, sleep }: Parts) {
  const files = createSemaphore(MOST_FILES);
  const { signal } = new AbortController();
  const tried = watchedIn(config).map(async (watched) => {
    const what = `watch ${watched.name} (${watched.watch.kind})`;
    const ask = createSource(watched, clock, files);
    try {
      const first = await ask(signal);
      await sleep(PAUSE_MS);
      const second = await ask(signal);
      if (first === second) return [what, 'up', `it sees ${short(first)}`] as const;
      const why = `it differs at each question: ${short(first)}, then ${short(second)}`;
      return [what, 'down', why] as const;
    } catch (error) {
      return [what, 'down', (error as Error).message] as const;
    }
  });
  return Promise.all(tried);
}
