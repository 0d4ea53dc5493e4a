/**
 * One worker of the oracle, forked by `crew-main.ts`: a gateway that listens on a port of its own. Its arguments are
 * the folder of the source and the file of its configuration.
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import type * as GatewayModule from '../../../src/gateway.ts';
import type * as ConfigModule from '../../../src/config/load-config.ts';
import type * as LinkModule from '../../../src/workers/link.ts';
import type * as ClockModule from '../../../src/common/clock.ts';

/** How long it goes on answering without its primary process, unless it is killed before (ms). */
const LINGER = 60_000;

const [source = '', file = ''] = process.argv.slice(2);
const part = (path: string): Promise<unknown> => import(pathToFileURL(join(source, path)).href);
const { createGateway } = (await part('gateway.ts')) as typeof GatewayModule;
const { loadConfig } = (await part('config/load-config.ts')) as typeof ConfigModule;
const { createLink } = (await part('workers/link.ts')) as typeof LinkModule;
const { systemClock } = (await part('common/clock.ts')) as typeof ClockModule;

const config = loadConfig({
  file,
  env: {},
  workingFolder: process.cwd(),
  readFile: (path) => readFileSync(path),
});
// What a real worker does at once, this one puts off: nothing may depend on it.
process.on('disconnect', () => void setTimeout(() => process.exit(), LINGER));
const gateway = await createGateway(
  config,
  {
    clock: systemClock,
    random: Math.random,
    randomBytes: (count) => randomBytes(count),
    sleep: (milliseconds) => sleep(milliseconds),
    primary: createLink(process, 'the primary process'),
  },
  () => {},
);
const url = await gateway.listen();
process.send?.({ listening: Number(new URL(url).port) });
