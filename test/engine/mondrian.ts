import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { DATA_SOURCE_INFO, prepareEngineFiles } from './engine-files.ts';
import { discover } from './envelope.ts';
import { ENGINE_CLASS_PATH, ensureEnginePackages } from './packages.ts';

export interface RunningEngine {
  /** Where the engine takes XMLA, e.g. `http://127.0.0.1:8080/mondrian/xmla`. */
  readonly url: string;
  /** Stops the engine; a second call does nothing. */
  close(): Promise<void>;
}

export interface MondrianOptions {
  /** 0, the default, lets the system choose. */
  readonly port?: number;
  /** Whether it runs for some seconds only: it starts with half the work then, and is slower after a while. */
  readonly isBrief?: boolean;
}

const START_DEADLINE_MS = 90_000;
const STOP_DEADLINE_MS = 5_000;
const STDERR_TAIL = 4_000;

function spawnEngine(folder: string, { port = 0, isBrief = false }: MondrianOptions): ChildProcess {
  return spawn(
    'java',
    [
      '-Xmx1g',
      // On few cores parallel collectors cost more than they give.
      '-XX:+UseSerialGC',
      ...(isBrief ? ['-XX:TieredStopAtLevel=1'] : []),
      '-Duser.timezone=UTC',
      '-Duser.language=en',
      '-Duser.country=US',
      '-Dfile.encoding=UTF-8',
      '-Djava.awt.headless=true',
      '-Dhsqldb.reconfig_logging=false',
      '-Dorg.eclipse.jetty.LEVEL=WARN',
      `-Dlog4j.configuration=${pathToFileURL(join(folder, 'log4j.properties')).href}`,
      '-cp',
      [folder, ...ENGINE_CLASS_PATH].join(':'),
      'MondrianServer',
      String(port),
      pathToFileURL(join(folder, 'datasources.xml')).href,
    ],
    { stdio: ['pipe', 'pipe', 'pipe'], cwd: folder },
  );
}

async function readPort(child: ChildProcess): Promise<number> {
  if (child.stdout === null) throw new Error('the engine has no standard output');
  for await (const line of createInterface({ input: child.stdout })) {
    const match = /^port (\d+)$/.exec(line);
    if (match) return Number(match[1]);
  }
  throw new Error('the engine ended before it listened');
}

async function waitUntilItAnswers(url: string, signal: AbortSignal): Promise<void> {
  const { body, soapAction } = discover('DISCOVER_DATASOURCES');
  while (!signal.aborted) {
    try {
      const answer = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'text/xml; charset=UTF-8', soapaction: soapAction },
        body,
        signal,
      });
      const text = await answer.text();
      if (answer.status === 200 && text.includes(DATA_SOURCE_INFO)) return;
      throw new Error(`the engine answered ${answer.status}: ${text.slice(0, 500)}`);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      await sleep(50, undefined, { signal });
    }
  }
}

async function stop(child: ChildProcess): Promise<void> {
  const neverStarted = child.pid === undefined;
  if (neverStarted || child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_DEADLINE_MS);
  await exited;
  clearTimeout(timer);
}

/**
 * Starts Mondrian 3.11 over the sample warehouse, and waits until it answers a Discover. By then the warehouse
 * and the schema are loaded; nothing is aggregated yet. Each call is a process of its own. Throws an Error that
 * holds the end of the engine's standard error when it does not come up.
 */
export async function startMondrian(options: MondrianOptions = {}): Promise<RunningEngine> {
  await ensureEnginePackages();
  const folder = await prepareEngineFiles();
  const child = spawnEngine(folder, options);
  let errors = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-STDERR_TAIL);
  });

  // Only then are its last words read.
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const failed = new AbortController();
  const deadline = setTimeout(
    () => failed.abort(new Error(`not ready in ${START_DEADLINE_MS / 1000} s`)),
    START_DEADLINE_MS,
  );
  child.once('error', (error) => failed.abort(error));
  child.once('exit', (code, signal) =>
    failed.abort(new Error(`it ended with ${signal ?? `code ${code}`}`)),
  );
  const failure = once(failed.signal, 'abort').then((): never => {
    throw failed.signal.reason;
  });

  try {
    const port = await Promise.race([readPort(child), failure]);
    const url = `http://127.0.0.1:${port}/mondrian/xmla`;
    child.stdout?.resume();
    await Promise.race([waitUntilItAnswers(url, failed.signal), failure]);
    return { url, close: () => stop(child) };
  } catch (error) {
    await stop(child);
    await closed;
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`Mondrian did not start: ${reason}\n${errors}`, { cause: error });
  } finally {
    clearTimeout(deadline);
    failure.catch(() => {});
  }
}
