#!/usr/bin/env node
/** dist/main.js. Only what is loaded after this call is kept compiled for the next start. */
import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

// Beside the code itself: whoever can write there could change that as well. Where this process cannot, it does without.
enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/mdx-gateway', import.meta.url)));
// Beside this one in dist/; by a name that the bundler does not follow.
const program = './program.js';
await import(program);
