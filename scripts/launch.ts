#!/usr/bin/env node
/** Becomes dist/main.js: only what is loaded after these calls is kept compiled for the next start. */
import { enableCompileCache, flushCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

/** By then it has most likely answered something (ms). */
const STARTED = 10_000;

// Beside the code itself: whoever can write there could change that as well. Where this process cannot, it does without.
enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/mdx-gateway', import.meta.url)));
// At the end, when it is written anyway, what only a start needs has long been thrown away. Takes no time when it is there.
setTimeout(flushCompileCache, STARTED).unref();
// Beside this one in dist/; by a name that the bundler does not follow.
const program = './program.js';
await import(program);
