#!/usr/bin/env node
/** Becomes dist/main.js: only what is loaded after these calls is kept compiled for the next start. */
// By its whole: an older Node.js, which is told so below, knows neither.
import * as nodeModule from 'node:module';
import { fileURLToPath } from 'node:url';

/** By then it has most likely answered something (ms). */
const STARTED = 10_000;

const OLDEST = 24;
if (Number(process.versions.node.split('.', 1)[0]) < OLDEST) {
  process.stderr.write(
    `mdx-gateway: needs Node.js ${OLDEST} or newer; this is ${process.version}. Install one, or npm's beside this package: npm install node@${OLDEST}\n`,
  );
  process.exit(1);
}

// Beside the code itself: whoever can write there could change that as well. Where this process cannot, it does without.
nodeModule.enableCompileCache(
  fileURLToPath(new URL('../node_modules/.cache/mdx-gateway', import.meta.url)),
);
// At the end, when it is written anyway, what only a start needs has long been thrown away. Takes no time when it is there.
setTimeout(nodeModule.flushCompileCache, STARTED).unref();
// Beside this one in dist/; by a name that the bundler does not follow.
const program = './program.js';
await import(program);
