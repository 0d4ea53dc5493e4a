import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { hash } from 'bcrypt';
import { stringify } from 'yaml';
import type { Emit } from '../common/events.ts';
import { basicAuthorization } from '../common/principal.ts';
import { meaningOf } from '../common/reasons.ts';
import { duration, size } from '../common/words.ts';
import { loadConfig } from '../config/load-config.ts';
import { createGateway } from '../gateway.ts';
import { loadRecordings, type Recording, startReplayEngine } from './replay-engine.ts';

export interface DemoOptions {
  /** Listens before an engine that knows the recordings; the user may purge. */
  readonly gateway: { readonly url: string; readonly user: string; readonly password: string };
  readonly recordings: readonly Recording[];
  /** Resolves when the gateway has inspected the next answer, kept or not. */
  readonly nextInspected: () => Promise<void>;
  /** Ends when everything was shown; otherwise the gateway stays until it is stopped. */
  readonly once?: boolean | undefined;
  readonly meanwhile?: () => Promise<void>;
  readonly stopped: AbortSignal;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** Takes whole lines with their line ends. */
  readonly print: (text: string) => void;
}

const TITLES = ['Query', 'Answer', 'HTTP', 'First', 'Second', 'Cache-Status', 'After purge'];
/** Paths of the interface document, sections 1 and 4.3. */
const XMLA_PATH = '/mdx/xmla';
const PURGE_PATH = '/mdx/xmla/clearCache';

/** @throws Error when the gateway gives an answer that the engine did not give */
export async function showDemo(options: DemoOptions): Promise<void> {
  const { once: ends, stopped, print } = options;
  try {
    await askEverything(options);
    if (ends) return;
    const { url, user, password } = options.gateway;
    const login = `-u ${shellWord(`${user}:${password}`)}`;
    print(`${askLines(url, login, options.recordings)}

Drop everything that is cached:

curl -s ${login} ${shellWord(url + PURGE_PATH)}

Open the console, and log in as ${user} with the password ${password}:

${url}/console

Ctrl-C ends it.
`);
    await options.meanwhile?.();
    if (!stopped.aborted) await once(stopped, 'abort');
  } catch (error) {
    if (!stopped.aborted) throw error;
  }
}

/** Asks every question over HTTP, again when its answer is kept, and again after a purge. */
async function askEverything(options: DemoOptions): Promise<void> {
  const { gateway, recordings, nextInspected, print, now, stopped: signal } = options;

  async function ask(recording: Recording) {
    const start = now();
    const told = await askOne(recording, gateway, signal);
    return { ...told, time: duration(now() - start) };
  }

  print(
    `A gateway at ${gateway.url}, before an engine that replays ${recordings.length} recorded questions ` +
      'as slowly as the real one answered them.\nAsking each, and again as soon as its answer is kept …\n',
  );
  const rows: string[][] = [];
  const said = new Set<string>();
  for (const recording of recordings) {
    const inspected = nextInspected();
    const first = await ask(recording);
    // A long answer reaches its client before it is inspected as a whole.
    if (first.from === MISS) await inspected;
    const second = await ask(recording);
    const bytes = size(recording.answer.body.length);
    rows.push([recording.name, bytes, `${second.status}`, first.time, second.time, second.from]);
    for (const { from } of [first, second]) said.add(from);
  }
  const headers = { authorization: loginOf(gateway) };
  const purged = await fetch(`${gateway.url}${PURGE_PATH}`, { headers, signal });
  const text = await purged.text();
  if (purged.status !== 200) throw new Error(`The purge failed with ${purged.status}: ${text}`);
  print(`GET ${PURGE_PATH}: ${text.trim()}\nAsking each once more …\n\n`);
  for (const [index, recording] of recordings.entries()) {
    const { time, from } = await ask(recording);
    rows[index]?.push(time);
    said.add(from);
  }
  const meanings = [...said].toSorted().map((words) => `  ${words}: ${inWords(words)}\n`);
  print(`${formatTable(TITLES, rows)}

The column Cache-Status is what the second answer says in that header. Its values in all answers:
${meanings.join('')}
`);
}

const loginOf = ({ user: name, password }: DemoOptions['gateway']) =>
  basicAuthorization({ name, password });

/** Throws for another answer than the recorded one: a table of times must not hide it. */
async function askOne(
  { name, request, answer: recorded }: Recording,
  gateway: DemoOptions['gateway'],
  signal: AbortSignal,
) {
  const { soapAction: soapaction, body } = request;
  const authorization = loginOf(gateway);
  const headers = { authorization, 'content-type': 'text/xml; charset=UTF-8', soapaction };
  const asked = { method: 'POST', headers, body, signal };
  const answer = await fetch(`${gateway.url}${XMLA_PATH}`, asked);
  const { status } = answer;
  const got = Buffer.from(await answer.arrayBuffer());
  if (status !== recorded.status || !got.equals(recorded.body)) {
    const said = `${recorded.status}, ${recorded.body.length} bytes`;
    const answered = `"${name}" was answered with status ${status} and ${got.length} bytes`;
    throw new Error(`${answered}, which is not what the engine said (${said})`);
  }
  return { status, from: cameFrom(answer.headers.get('cache-status') ?? '') };
}

const MISS = 'fwd=miss';
const OUTCOMES: Readonly<Record<string, string>> = {
  hit: 'The gateway has the answer, and does not ask the engine.',
  miss: 'The gateway does not have the answer, and asks the engine.',
  bypass: 'The request goes to the engine, past the cache.',
};

/** @param said as {@link cameFrom} gives it */
function inWords(said: string): string {
  const [outcome = '', detail = ''] = said.replace('fwd=', '').split(', ');
  let more = detail === 'stored' ? 'Its answer is kept.' : meaningOf(outcome, detail);
  if (said === MISS) more = 'A long one is kept a moment after its client has it.';
  return [OUTCOMES[outcome], more].join(' ').trim();
}

/** RFC 9211 without the name of the cache and the time to live: `hit, memory`. */
function cameFrom(cacheStatus: string): string {
  const [, ...parameters] = cacheStatus.split(/\s*;\s*/);
  const telling = parameters.filter((parameter) => !parameter.startsWith('ttl='));
  return telling.join(', ').replace('detail=', '');
}

/** Quotes for a POSIX shell. */
const shellWord = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/** @param login options of curl */
function askLines(url: string, login: string, recordings: readonly Recording[]): string {
  const [shortest] = recordings.toSorted((a, b) => a.request.body.length - b.request.body.length);
  return `Ask "${shortest?.name}", and see Cache-Status and Age:

curl -s -D - -o /dev/null ${login} -H 'Content-Type: text/xml' --data-binary \\
  ${shellWord(shortest?.request.body ?? '')} \\
  ${shellWord(url + XMLA_PATH)}`;
}

type GatewayParts = Parameters<typeof createGateway>[1];
const USER = 'demo';
const OTHERS = ['ann', 'ben', 'cleo'];
const PAUSE_MS = 1_500;
/** The cost of bcrypt; the password lives as long as the demo. */
const COST = 8;
const SHUTDOWN_DEADLINE_MS = 2_000;

/** @returns the exit status */
export async function runDemo(
  given: Pick<DemoOptions, 'once' | 'stopped' | 'print'> & { readonly port?: number | undefined },
  parts: GatewayParts,
): Promise<number> {
  const { port = 0, ...shown } = given;
  await using ending = new AsyncDisposableStack();
  const recordings = await loadRecordings();
  const engine = await startReplayEngine(recordings, parts.sleep);
  ending.defer(engine.close);
  let inspected = Promise.withResolvers<void>();
  const gateway = await startGateway(engine.url, port, parts, ({ type }) => {
    if (type === 'stored' || type === 'not-stored') inspected.resolve();
  });
  ending.defer(gateway.close);
  const nextInspected = () => (inspected = Promise.withResolvers()).promise;
  /** A little traffic, so that the console shows life; later recordings are asked more rarely. */
  const meanwhile = async () => {
    for (let asked = 1; !given.stopped.aborted; asked += 1) {
      const chosen = recordings[Math.floor(parts.random() ** 2 * recordings.length)];
      const user = OTHERS[asked % OTHERS.length] ?? USER;
      if (chosen !== undefined) await askOne(chosen, { ...gateway, user }, given.stopped);
      await delay(parts.random() * PAUSE_MS, undefined, { signal: given.stopped });
    }
  };
  await showDemo({ ...shown, gateway, recordings, nextInspected, meanwhile, now: parts.clock.now });
  return 0;
}

/** @returns the exit status */
export async function runDemoEngine(
  { port = 0, stopped, print }: Parameters<typeof runDemo>[0],
  { sleep }: Pick<GatewayParts, 'sleep'>,
): Promise<number> {
  const recordings = await loadRecordings();
  const engine = await startReplayEngine(recordings, sleep, { host: '0.0.0.0', port });
  // The address and the user of the gateway in deploy/compose.yaml.
  const lines = askLines('http://127.0.0.1:7080', '-u ADMIN', recordings);
  print(`An engine at ${engine.url} replays ${recordings.length} recorded questions. ${lines}\n`);
  if (!stopped.aborted) await once(stopped, 'abort');
  await engine.close();
  return 0;
}

/** Makes the users, so that a person who sees the demo's output may log in and purge. */
async function startGateway(engineUrl: string, port: number, parts: GatewayParts, listener: Emit) {
  await using ending = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'mdx-gateway-demo-'));
  ending.defer(() => rm(folder, { recursive: true, force: true }));
  const password = parts.randomBytes(9).toString('base64url');
  const hashed = await hash(password, COST);
  const lines = [USER, ...OTHERS].map((user) => `${user}:${hashed}\n`).join('');
  await writeFile(join(folder, 'users.htpasswd'), lines, { mode: 0o600 });
  const file = join(folder, 'gateway.yaml');
  const listen = { host: '127.0.0.1', port };
  const auth = { users: './users.htpasswd', admins: [USER] };
  const engine = { url: engineUrl, kind: 'mondrian' };
  // The recordings hold no personal data, so all may see their answers and statements.
  const shown = { cache: { share: 'everyone' }, statistics: { text: 'on' } };
  const config = { listen, auth, engine, ...shown, warm: { mode: 'auto' } };
  await writeFile(file, stringify(config));
  const loaded = loadConfig({ file, env: {}, workingFolder: folder, readFile: readFileSync });
  const gateway = await createGateway(loaded, parts, listener);
  ending.defer(() => gateway.close(SHUTDOWN_DEADLINE_MS));
  const url = await gateway.listen();
  const kept = ending.move();
  return { url, user: USER, password, close: () => kept.disposeAsync() };
}

const lengthOf = (text: string): number => Array.from(text).length;

/** Draws a table; missing texts are empty, columns of numbers are right-aligned. */
export function formatTable(titles: readonly string[], rows: readonly (readonly string[])[]) {
  const columns = titles.map((title, index) => {
    const texts = rows.map((row) => row[index] ?? '');
    const width = Math.max(...[title, ...texts].map(lengthOf));
    return { width, numbers: texts.every((text) => /^\d/.test(text)) };
  });
  const line = (left: string, middle: string, right: string): string =>
    left + columns.map(({ width }) => '─'.repeat(width + 2)).join(middle) + right;
  const cells = (texts: readonly string[]): string => {
    const padded = columns.map(({ width, numbers }, index) => {
      const text = texts[index] ?? '';
      const padding = ' '.repeat(width - lengthOf(text));
      return numbers ? padding + text : text + padding;
    });
    return `│ ${padded.join(' │ ')} │`;
  };
  const body = [line('├', '┼', '┤'), ...rows.map(cells), line('└', '┴', '┘')];
  return [line('┌', '┬', '┐'), cells(titles), ...body].join('\n');
}
