import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { hash } from 'bcrypt';
import { stringify } from 'yaml';
import { type Clock, systemClock } from '../../src/common/clock.ts';
import type { Parts } from '../../src/compose/parts.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import type { GatewayEvent } from '../../src/common/events.ts';
import { createGateway, type Gateway } from '../../src/gateway.ts';
import { describedGateway, forgetGateway } from './openapi-check.ts';

/** Users of every test gateway; each password is the name in lower case. ADMIN may purge. */
export const USERS = ['ADMIN', 'alice', 'bob'] as const;

/** Cost 4 is the lowest that bcrypt knows: tests log in often. */
const linesOf = (users: readonly string[]) =>
  Promise.all(users.map(async (name) => `${name}:${await hash(name.toLowerCase(), 4)}\n`));
const usersFile = linesOf(USERS);

export function basic(user: string): string {
  return `Basic ${Buffer.from(`${user}:${user.toLowerCase()}`).toString('base64')}`;
}

export interface TestGateway {
  readonly gateway: Gateway;
  readonly url: string;
  /** Everything it told, in order. */
  readonly events: GatewayEvent[];
  /** Loads another configuration of the same shape, as SIGHUP does. */
  reload(settings: Settings): Promise<void>;
  close(): Promise<void>;
}

type Settings = Record<string, unknown>;

/** Of the clock its two readings may be given; timers run by the system's. */
type TestParts = Partial<Omit<Parts, 'emit' | 'clock'>> & { clock?: Pick<Clock, 'now' | 'wall'> };

/** So long that what the head of a short answer says does not depend on how busy the machine is (ms). */
const HOLD_TIME = 10_000;

/** What starts a gateway: of this program, or of one with a fault. */
export interface GatewayProgram {
  readonly createGateway: typeof createGateway;
  readonly loadConfig: typeof loadConfig;
}

/**
 * Starts a gateway in this process, through the real loader of configurations.
 * @param settings what the YAML file would hold; `listen` and `auth.users` are added
 * @param parts what a test wants to hold: clock, random, sleep
 * @param users further users; each password is the name in lower case
 */
export async function startTestGateway(
  settings: Settings,
  { clock, ...parts }: TestParts = {},
  users: readonly string[] = [],
  program: GatewayProgram = { createGateway, loadConfig },
): Promise<TestGateway> {
  const folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-test-'));
  const lines = [...(await usersFile), ...(await linesOf(users))];
  writeFileSync(join(folder, 'users.htpasswd'), lines.join(''));
  const load = (changed: Settings) => {
    const file = join(folder, 'gateway.yaml');
    writeFileSync(
      file,
      stringify({
        ...changed,
        listen: {
          host: '127.0.0.1',
          port: 0,
          ...(changed['listen'] as object | undefined),
        },
        auth: { users: './users.htpasswd', ...(changed['auth'] as object | undefined) },
      }),
    );
    return program.loadConfig({
      file,
      env: {},
      workingFolder: folder,
      readFile: (path) => readFileSync(path),
    });
  };
  const events: GatewayEvent[] = [];
  const gateway = await program.createGateway(
    load(settings),
    {
      clock: { ...systemClock, ...clock },
      random: Math.random,
      randomBytes,
      sleep: (milliseconds) => sleep(milliseconds),
      holdMs: HOLD_TIME,
      breath: 0,
      ...parts,
    },
    (event) => events.push(event),
  );
  const url = await gateway.listen();
  describedGateway(url, remoteApi(settings));
  return {
    gateway,
    url,
    events,
    async reload(changed) {
      await gateway.reload(load(changed));
      describedGateway(url, remoteApi(changed));
    },
    async close() {
      await gateway.close(2_000);
      forgetGateway(url);
      rmSync(folder, { recursive: true });
    },
  };
}

/** The server from which a gateway of these settings gets roles and datasets, if it forwards. */
function remoteApi({ storage }: Settings): string | undefined {
  const { driver, url } = (storage ?? {}) as { driver?: string; url?: string };
  return driver === 'http' ? url : undefined;
}
