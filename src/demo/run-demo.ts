import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hash } from 'bcrypt';
import { stringify } from 'yaml';
import type { Parts } from '../composition/parts.ts';
import { loadConfig } from '../config/load-config.ts';
import { createGateway } from '../gateway.ts';
import { showDemo, type DemoGateway } from './demo.ts';
import { loadRecordings } from './recordings.ts';
import { startReplayEngine } from './replay-engine.ts';

const USER = 'demo';
/** bcrypt's cost; the password lives as long as the demo. */
const COST = 8;
/** What is under way when the demo ends has this long (ms). */
const SHUTDOWN_DEADLINE = 2_000;

/**
 * The command `demo`: a gateway of its own on loopback, before an engine that replays recorded answers.
 * @returns the exit status
 */
export async function runDemo(options: {
  readonly once: boolean;
  /** Where the gateway listens; undefined lets the system choose. */
  readonly port: number | undefined;
  readonly parts: Omit<Parts, 'emit'>;
  readonly output: { write(text: string): void };
  readonly untilStopped: () => Promise<unknown>;
}): Promise<number> {
  const { parts, output } = options;
  await showDemo({
    recordings: await loadRecordings(),
    startEngine: (recordings) => startReplayEngine(recordings, parts),
    startGateway: (engineUrl) => startGateway(engineUrl, options.port ?? 0, parts),
    once: options.once,
    stopped: options.untilStopped(),
    now: parts.clock.now,
    print: (text) => output.write(text),
  });
  return 0;
}

/** A gateway whose only user is made for it; whoever sees the demo's output may log in and purge. */
async function startGateway(
  engineUrl: string,
  port: number,
  parts: Omit<Parts, 'emit'>,
): Promise<DemoGateway> {
  const folder = await mkdtemp(join(tmpdir(), 'mdx-gateway-demo-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const password = parts.randomBytes(9).toString('base64url');
    await writeFile(join(folder, 'users.htpasswd'), `${USER}:${await hash(password, COST)}\n`, {
      mode: 0o600,
    });
    const settings = stringify({
      listen: { host: '127.0.0.1', port },
      auth: { users: './users.htpasswd', admins: [USER] },
      engine: { url: engineUrl, kind: 'mondrian' },
    });
    const file = join(folder, 'gateway.yaml');
    await writeFile(file, settings);
    const config = loadConfig({
      file,
      env: {},
      workingFolder: folder,
      readFile: (path) => readFileSync(path),
    });
    const gateway = await createGateway(config, parts, () => {});
    const url = await gateway.listen().catch(async (error: unknown) => {
      await gateway.close(0);
      throw error;
    });
    return {
      url,
      user: USER,
      password,
      async close() {
        await gateway.close(SHUTDOWN_DEADLINE);
        await remove();
      },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}
