import { formatBytes, formatTable, formatTime } from './table.ts';
import type { Column } from './table.ts';
import type { Recording } from './recordings.ts';

/** A gateway of the demo's own, already listening. */
export interface DemoGateway {
  /** Without a slash at its end. */
  readonly url: string;
  readonly user: string;
  readonly password: string;
  close(): Promise<void>;
}

export interface DemoEngine {
  readonly url: string;
  close(): Promise<void>;
}

export interface DemoOptions {
  readonly recordings: readonly Recording[];
  readonly startEngine: (recordings: readonly Recording[]) => Promise<DemoEngine>;
  /** Starts a gateway before the engine at that URL; its user may purge. */
  readonly startGateway: (engineUrl: string) => Promise<DemoGateway>;
  /** Ends when everything was shown; otherwise the gateway stays until it is stopped. */
  readonly once: boolean;
  /** Resolves when the demo is to stop, whatever it is doing. */
  readonly stopped: Promise<unknown>;
  /** Milliseconds, monotonic. */
  readonly now: () => number;
  /** Takes whole lines, each with its line end. */
  readonly print: (text: string) => void;
}

interface Asked {
  readonly status: number;
  readonly milliseconds: number;
  readonly cacheStatus: string;
}

interface Shown {
  readonly recording: Recording;
  readonly first: Asked;
  readonly second: Asked;
  readonly afterPurge: Asked;
}

const COLUMNS: readonly Column[] = [
  { title: 'Query', align: 'left' },
  { title: 'Answer', align: 'right' },
  { title: 'HTTP', align: 'right' },
  { title: 'First', align: 'right' },
  { title: 'Second', align: 'right' },
  { title: 'After purge', align: 'right' },
  { title: 'Cache-Status', align: 'left' },
];

/** The path of XMLA and that of the purge (the interface document, sections 1 and 4.3). */
const XMLA_PATH = '/mdx/xmla';
const PURGE_PATH = '/mdx/xmla/clearCache';

const authorization = ({ user, password }: DemoGateway): string =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

/** Throws when an answer is not the recorded one: a table of times must not hide a wrong answer. */
async function ask(
  gateway: DemoGateway,
  { name, request, answer: recorded }: Recording,
  { now, signal }: { readonly now: () => number; readonly signal: AbortSignal },
): Promise<Asked> {
  const start = now();
  const answer = await fetch(`${gateway.url}${XMLA_PATH}`, {
    method: 'POST',
    headers: {
      authorization: authorization(gateway),
      'content-type': 'text/xml; charset=UTF-8',
      soapaction: request.soapAction,
    },
    body: request.body,
    signal,
  });
  const body = Buffer.from(await answer.arrayBuffer());
  const milliseconds = now() - start;
  if (answer.status !== recorded.status || !body.equals(recorded.body)) {
    throw new Error(
      `"${name}" was answered with status ${answer.status} and ${body.length} bytes, ` +
        `which is not what the engine said (${recorded.status}, ${recorded.body.length} bytes)`,
    );
  }
  const cacheStatus = answer.headers.get('cache-status') ?? '';
  return { status: answer.status, milliseconds, cacheStatus };
}

async function purge(gateway: DemoGateway, signal: AbortSignal): Promise<string> {
  const answer = await fetch(`${gateway.url}${PURGE_PATH}`, {
    headers: { authorization: authorization(gateway) },
    signal,
  });
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`The purge failed with ${answer.status}: ${text}`);
  return text.trim();
}

/** What RFC 9211 tells, without the name of the cache and the time to live: `hit, memory`. */
function cameFrom(cacheStatus: string): string {
  const [, ...parameters] = cacheStatus.split(/\s*;\s*/);
  return parameters
    .filter((parameter) => !parameter.startsWith('ttl='))
    .map((parameter) => parameter.replace(/^detail=/, ''))
    .join(', ');
}

function tableOf(shown: readonly Shown[]): string {
  return formatTable(
    COLUMNS,
    shown.map(({ recording: { name, answer }, first, second, afterPurge }) => [
      name,
      formatBytes(answer.body.length),
      String(second.status),
      formatTime(first.milliseconds),
      formatTime(second.milliseconds),
      formatTime(afterPurge.milliseconds),
      cameFrom(second.cacheStatus),
    ]),
  );
}

/** One word for a POSIX shell. */
const shellWord = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

function curlLines(gateway: DemoGateway, recordings: readonly Recording[]): string {
  const login = `-u ${shellWord(`${gateway.user}:${gateway.password}`)}`;
  const [shortest] = recordings.toSorted(
    (one, other) => one.request.body.length - other.request.body.length,
  );
  const query = shortest
    ? [
        `Ask "${shortest.name}", and see Cache-Status and Age:`,
        `curl -s -D - -o /dev/null ${login} -H 'Content-Type: text/xml' --data-binary \\
  ${shellWord(shortest.request.body)} \\
  ${shellWord(gateway.url + XMLA_PATH)}`,
      ]
    : [];
  return [
    ...query,
    'Drop everything that is cached:',
    `curl -s ${login} ${shellWord(gateway.url + PURGE_PATH)}`,
  ].join('\n\n');
}

/** Asks everything and prints the table. */
async function showQuestions(
  gateway: DemoGateway,
  { recordings, print, now }: DemoOptions,
  signal: AbortSignal,
): Promise<void> {
  print(
    `A gateway at ${gateway.url}, before an engine that replays ${recordings.length} recorded questions ` +
      'as slowly as the real one answered them.\nAsking each twice …\n',
  );
  const twice: Omit<Shown, 'afterPurge'>[] = [];
  for (const recording of recordings) {
    const first = await ask(gateway, recording, { now, signal });
    const second = await ask(gateway, recording, { now, signal });
    twice.push({ recording, first, second });
  }
  print(`GET ${PURGE_PATH}: ${await purge(gateway, signal)}\nAsking each once more …\n\n`);
  const shown: Shown[] = [];
  for (const { recording, first, second } of twice) {
    const afterPurge = await ask(gateway, recording, { now, signal });
    shown.push({ recording, first, second, afterPurge });
  }
  print(`${tableOf(shown)}\n\n`);
}

/**
 * Shows what the gateway does: asks every recorded question as a client over HTTP, twice, purges, asks once
 * more, and prints the times as a table; then the lines to try by hand.
 * @throws Error when the gateway gives an answer that the engine did not give
 */
export async function showDemo(options: DemoOptions): Promise<void> {
  const stop = new AbortController();
  const stopped = options.stopped.then(() => stop.abort());
  const engine = await options.startEngine(options.recordings);
  try {
    const gateway = await options.startGateway(engine.url);
    try {
      await showQuestions(gateway, options, stop.signal);
      if (options.once) return;
      options.print(`${curlLines(gateway, options.recordings)}\n\nCtrl-C ends it.\n`);
      await stopped;
    } catch (error) {
      if (!stop.signal.aborted) throw error;
    } finally {
      await gateway.close();
    }
  } finally {
    await engine.close();
  }
}
