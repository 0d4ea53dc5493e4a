/**
 * npm run dev: the gateway as its sources stand, started anew whenever one of them changes.
 *   npm run dev                               the demo: a gateway, a replayed engine, the console
 *   npm run dev -- serve --config FILE        your own configuration, whose changes count too
 *   npm run dev -- --inspect demo             options of Node.js come first, here for a debugger
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join, resolve } from 'node:path';

/** Else Node.js tells of imports by messages, which threads of the gateway would take for answers. */
const SILENT = 'data:text/javascript,delete process.env.WATCH_REPORT_DEPENDENCIES';
const ROOT = join(import.meta.dirname, '..');
const words = process.argv.slice(2);
const found = words.findIndex((word) => !word.startsWith('-'));
const split = found === -1 ? words.length : found;
const [options, given] = [words.slice(0, split), words.slice(split)];
const command = given.length > 0 ? given : ['demo'];
const config = command[command.indexOf('--config') + 1];
const watched = [join(ROOT, 'src')];
if (command.includes('--config') && config) watched.push(resolve(config));

console.log(
  `Node.js ${process.version} runs the sources (24 or newer can); each change starts them anew.`,
);
const node = spawn(
  process.execPath,
  [
    '--watch',
    '--watch-preserve-output',
    `--import=${SILENT}`,
    ...watched.map((path) => `--watch-path=${path}`),
    ...options,
    join(ROOT, 'src/main.ts'),
    ...command,
  ],
  { stdio: 'inherit' },
);
// The terminal tells the whole group of Ctrl-C; this process waits for the gateway to end.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => node.kill('SIGTERM'));
const [code] = (await once(node, 'exit')) as [number | null];
process.exitCode = code ?? 0;
